//! Reading one file whole.

use std::{fs, path::Path};

use config::{environment, yaml};
use serde_json::Value;

use super::Format;

/// Files above this are refused rather than read into memory.
const MAX_BYTES: u64 = 1 << 30;
/// Where `#END` must stand: so many bytes at the end, blanks after it allowed.
const END_MARK_BYTES: usize = 10;

pub fn document(path: &Path, format: Format) -> Result<Value, String> {
    let shown = path.display();
    let text = text(path).map_err(|error| format!("failed to open file {shown} : {error}"))?;
    let document = match format {
        Format::Yaml => parse_yaml(&text),
        Format::Json => parse_json(&text),
    };
    let document = document.map_err(|problem| match problem {
        Problem::End => format!("missing valid end flag in file {shown}"),
        Problem::At(place) => format!("failed to parse the content of file {shown}:{place}"),
        Problem::Whole(message) => format!("failed to parse the content of file {shown}: {message}"),
    })?;
    match document {
        Value::Object(_) | Value::Null => Ok(document),
        _ => Err(format!(
            "failed to parse the content of file {shown}: it should hold keys like routes and upstreams"
        )),
    }
}

enum Problem {
    End,
    At(String),
    Whole(String),
}

fn text(path: &Path) -> Result<String, String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > MAX_BYTES {
        return Err(format!("it has {size} bytes, at most {MAX_BYTES} are read"));
    }
    fs::read_to_string(path).map_err(|error| error.to_string())
}

fn parse_yaml(text: &str) -> Result<Value, Problem> {
    let trimmed = text.trim_end();
    let blanks = text.len() - trimmed.len();
    if !trimmed.ends_with("#END") || blanks > END_MARK_BYTES - "#END".len() {
        return Err(Problem::End);
    }
    let resolved = environment::substitute_text(text, &environment::process).map_err(Problem::Whole)?;
    yaml::to_value(&resolved).map_err(|fault| Problem::At(fault.to_string()))
}

fn parse_json(text: &str) -> Result<Value, Problem> {
    let mut value: Value = serde_json::from_str(text)
        .map_err(|error| Problem::At(format!("{}:{}: {error}", error.line(), error.column())))?;
    environment::substitute_value(&mut value, &environment::process).map_err(Problem::Whole)?;
    Ok(value)
}
