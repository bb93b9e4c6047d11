//! Variables in the `log_format` of a plugin's metadata that no request has. Loggers read it so.

use serde_json::Value;

use crate::{Session, Variable, variables::noted::variables_of_texts};

/// The fields of metadata that are formats of entries.
const FORMATS: [&str; 2] = ["log_format", "log_format_extra"];

pub(super) fn remarks(metadata: &Value) -> Vec<String> {
    let formats = FORMATS.iter().filter_map(|field| Some((field, metadata.get(field)?)));
    let said = formats.flat_map(|(field, format)| {
        let ((), noted) = variables_of_texts(|| each_text(format));
        // A logger of sessions has the same metadata.
        let unknown = noted.into_iter().filter(|name| !Session::knows(&Variable::resolve(name)));
        unknown.filter_map(move |name| Some(format!("{field}: {}", Variable::remark(&name)?)))
    });
    said.collect()
}

fn each_text(value: &Value) {
    match value {
        Value::String(text) => drop(Variable::of_entry(text)),
        Value::Array(items) => items.iter().for_each(each_text),
        Value::Object(fields) => fields.values().for_each(each_text),
        _ => {}
    }
}
