//! Values of header fields in configurations: texts with variables, or numbers.

use serde_json::Value;
pub(crate) use tidegate_model::header_text::has_operations;
use tidegate_plugin_api::Template;

use super::number;

/// A string or number as text; other values have none.
pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.as_f64().map_or_else(|| number.to_string(), number::lua)),
        _ => None,
    }
}

/// Name and value template of each entry of an object.
pub(crate) fn templates(headers: Option<&Value>) -> Vec<(String, Template)> {
    let entries = headers.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Template::compile(&text(value)?)))).collect()
}

/// The names in `headers.remove`.
pub(crate) fn removed(headers: &Value) -> Vec<String> {
    let names = headers.get("remove").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A text in place of a list or an object is a header of that name, as in the older form of `headers`.
pub(crate) fn remarks(conf: &Value) -> Vec<String> {
    let headers = conf.get("headers");
    let texts = ["add", "set", "remove"]
        .into_iter()
        .filter(|name| headers.and_then(|headers| headers.get(name)).is_some_and(Value::is_string));
    let texts = texts.map(|name| format!("headers.{name} is a text: it sets a header with the name {name}"));
    texts.chain(unsent("headers", headers)).chain(never_named(headers)).collect()
}

/// A list in place of an object sets nothing, and `*` stands for no part of a name.
fn never_named(headers: Option<&Value>) -> Vec<String> {
    let Some(headers) = headers else { return Vec::new() };
    if headers.as_array().is_some_and(|lines| !lines.is_empty()) {
        return vec!["headers is a list and has no effect; write an object, such as {\"set\": {\"X-Name\": \"value\"}}".to_owned()];
    }
    let names = removed(headers).into_iter().filter(|name| name.contains('*'));
    names
        .map(|name| {
            format!("headers.remove: {name} is taken literally; write each name, * stands for no part of one")
        })
        .collect()
}

/// Fields of one connection, and of the framing on it.
const OWN_FIELDS: [&str; 5] =
    ["Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Content-Length"];

/// Fields that the gateway writes itself, whatever a configuration says.
pub(crate) fn unsent(at: &str, headers: Option<&Value>) -> Option<String> {
    let headers = headers?;
    let is_edit = has_operations(headers);
    let parts = ["add", "set"].into_iter().filter_map(|name| headers.get(name)).filter(|_| is_edit);
    let parts: Vec<&Value> = if is_edit { parts.collect() } else { vec![headers] };
    let names = parts.iter().flat_map(|part| match part {
        Value::Object(fields) => fields.keys().map(String::as_str).collect::<Vec<_>>(),
        Value::Array(lines) => {
            let names = lines.iter().filter_map(|line| line.as_str()?.split_once(':'));
            names.map(|(name, _)| name.trim()).collect()
        }
        _ => Vec::new(),
    });
    let names: Vec<&str> = names.collect();
    let removed = removed(headers).into_iter().filter(|_| is_edit);
    let names: Vec<String> = names.into_iter().map(str::to_owned).chain(removed).collect();
    let own = |known: &&str| names.iter().any(|name| name.eq_ignore_ascii_case(known));
    let found: Vec<&str> = OWN_FIELDS.into_iter().filter(own).collect();
    (!found.is_empty())
        .then(|| format!("{at}: {} has no effect: the gateway frames messages itself", found.join(", ")))
}
