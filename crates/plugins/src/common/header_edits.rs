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
    texts.map(|name| format!("headers.{name} is a text: it sets a header with the name {name}")).collect()
}
