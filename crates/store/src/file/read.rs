//! Reading one file whole.

use std::{
    io::{self, Read},
    path::Path,
};

use serde_json::Value;
use tidegate_config::{bounded, environment, yaml};
use tidegate_model::json;

use super::places::Text;
use crate::collections::{self, Places as _};

/// Files above this are refused rather than read into memory.
const MAX_BYTES: u64 = 1 << 30;
/// Where `#END` must stand: so many bytes at the end, blanks after it allowed.
const END_MARK_BYTES: usize = 10;

/// The document, and its text with the environment's variables in it.
pub(super) fn document(path: &Path, format: Format) -> Result<(Value, Text), String> {
    let shown = path.display();
    let text = match text(path) {
        Ok(text) => text,
        Err(Unread::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err(missing(path, &error));
        }
        Err(problem) => return Err(format!("failed to open file {shown} : {problem}")),
    };
    let parsed = match format {
        Format::Yaml => parse_yaml(text),
        Format::Json => parse_json(text),
    };
    let (document, text) = parsed.map_err(|problem| match problem {
        Problem::Empty => format!("failed to open file {shown} : it has 0 bytes; restore it"),
        Problem::End => {
            format!("missing valid end flag in file {shown}; its last line must be #END")
        }
        Problem::At(place) => format!("failed to parse the content of file {shown}:{place}"),
        Problem::Whole(message) => format!("failed to parse the content of file {shown}: {message}"),
    })?;
    match document {
        Value::Object(_) => {
            let text = Text::new(shown.to_string(), text);
            if let Some(twice) = collections::same_twice(&document) {
                return Err(format!("failed to parse the content of file {}", text.twice(&twice)));
            }
            match collections::not_a_list(&document) {
                None => Ok((document, text)),
                Some((name, fault)) => {
                    Err(format!("failed to parse the content of file {}{fault}", text.key(name)))
                }
            }
        }
        Value::Null => Err(format!(
            "failed to parse the content of file {shown}: it is empty; for an empty configuration write \
             routes: []"
        )),
        _ => Err(format!(
            "failed to parse the content of file {shown}: expected keys like routes and upstreams"
        )),
    }
}

pub(super) fn missing(path: &Path, error: &io::Error) -> String {
    format!("failed to fetch {} attributes: {error}; create it, or correct config_provider", path.display())
}

enum Problem {
    Empty,
    End,
    At(String),
    Whole(String),
}

#[derive(thiserror::Error, Debug)]
enum Unread {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it has {0} bytes, at most {MAX_BYTES} are read")]
    TooLarge(u64),
    /// Reading a pipe would wait for a writer, and find its text once only.
    #[error("it is not a regular file")]
    Special,
}

fn text(path: &Path) -> Result<String, Unread> {
    let mut file = bounded::open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() && !metadata.is_dir() {
        return Err(Unread::Special);
    }
    let size = metadata.len();
    if size > MAX_BYTES {
        return Err(Unread::TooLarge(size));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn parse_yaml(text: String) -> Result<(Value, String), Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let trimmed = text.trim_end();
    let blanks = text.len() - trimmed.len();
    if !trimmed.ends_with("#END") || blanks > END_MARK_BYTES - "#END".len() {
        return Err(Problem::End);
    }
    let resolved = environment::substitute_text(&text, &environment::process)
        .map_err(|fault| Problem::At(fault.to_string()))?;
    let value = yaml::to_value(&resolved).map_err(|fault| Problem::At(fault.to_string()))?;
    Ok((value, resolved))
}

fn parse_json(text: String) -> Result<(Value, String), Problem> {
    if text.is_empty() {
        return Err(Problem::Empty);
    }
    let mut value = json::parse(text.as_bytes()).map_err(|fault| match fault {
        json::Fault::Syntax(error) => Problem::At(format!("{}:{}: {error}", error.line(), error.column())),
        json::Fault::TooMany(_) => Problem::At(format!("1:1: {fault}")),
        json::Fault::Twice { line, column, .. } => Problem::At(match yaml::to_value(&text) {
            // JSON reads as YAML, which knows the places of both.
            Err(twice) => twice.to_string(),
            Ok(_) => format!("{line}:{column}: {fault}"),
        }),
    })?;
    environment::substitute_value(&mut value, &environment::process).map_err(Problem::Whole)?;
    Ok((value, text))
}

/// How the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Must end with a line `#END`, so that a file still being written is not taken for whole.
    Yaml,
    /// One object with the collections as fields.
    Json,
}
