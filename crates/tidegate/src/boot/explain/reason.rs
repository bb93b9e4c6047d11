//! A reason as a sentence, and as what a console makes its own sentence of.

use serde_json::{Map, Value, json};
use tidegate_plugin_api::Why;

/// A reason in words, and its parts.
pub(super) struct Reason {
    pub code: &'static str,
    pub values: Vec<(&'static str, String)>,
    pub text: String,
}

impl Reason {
    pub(super) fn new(code: &'static str, text: impl Into<String>) -> Reason {
        Reason { code, values: Vec::new(), text: text.into() }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Reason {
        self.values.push((name, value.into()));
        self
    }

    /// `{"code": ..., "values": {...}}`
    pub(super) fn cause(&self) -> Value {
        let values: Map<String, Value> =
            self.values.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({"code": self.code, "values": values})
    }
}

/// Why a plugin answers, or on what that depends.
pub(super) fn of_plugin(why: &Why) -> Reason {
    let text = match why {
        Why::Decided(None) => "its configuration says so".to_owned(),
        Why::Decided(Some(message)) => format!("\"{message}\""),
        Why::Redirects(location) => format!("to {location}"),
        Why::Counts => "it depends on the requests before this one".to_owned(),
        Why::Draws(percentage) => format!("for {percentage} % of the requests"),
        Why::Asks => "it depends on what a service answers".to_owned(),
        Why::Calls => "it calls a service and passes its answer on".to_owned(),
        Why::Session => "it depends on the client's session".to_owned(),
        Why::Stored => "it depends on whether an answer is stored".to_owned(),
        Why::Breaks => "it depends on how the upstream has answered lately".to_owned(),
        Why::Runs => "it depends on what code of the configuration does".to_owned(),
        Why::Body => "it depends on the body of the request".to_owned(),
        Why::Files => "it serves the file, if there is one".to_owned(),
        Why::OwnApi => "an API of the gateway answers".to_owned(),
        Why::Unknown => "what it does is not known before it runs".to_owned(),
    };
    let reason = Reason::new(why.code(), text);
    match why.value() {
        Some(value) => reason.with("value", value),
        None => reason,
    }
}

/// A condition as it is read, in place of its JSON: `arg_x == "1" and not (uri ~~ "^/a")`.
pub(super) fn condition(value: &Value) -> String {
    let Some(items) = value.as_array() else { return value.to_string() };
    let joined = |items: &[Value], word: &str| items.iter().map(condition).collect::<Vec<_>>().join(word);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    match items.as_slice() {
        [Value::String(name), rest @ ..] if is_join(name) => match name.as_str() {
            "AND" => joined(rest, " and "),
            "OR" => joined(rest, " or "),
            "!AND" => format!("not ({})", joined(rest, " and ")),
            _ => format!("not ({})", joined(rest, " or ")),
        },
        [Value::String(name), Value::String(not), operator, operand] if not == "!" => {
            format!("not ({name} {} {operand})", text(operator).unwrap_or_default())
        }
        [Value::String(name), Value::String(operator), operand] => format!("{name} {operator} {operand}"),
        [first, ..] if first.is_array() => joined(items, " and "),
        _ => value.to_string(),
    }
}

fn is_join(name: &str) -> bool {
    matches!(name, "AND" | "OR" | "!AND" | "!OR")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions() {
        for (value, text) in [
            (json!(["http_y", "==", "2"]), "http_y == \"2\""),
            (json!([["arg_a", ">", 1], ["uri", "!", "~~", "^/a"]]), "arg_a > 1 and not (uri ~~ \"^/a\")"),
            (json!(["OR", ["a", "in", ["x", "y"]], ["b", "==", "c"]]), "a in [\"x\",\"y\"] or b == \"c\""),
            (json!(["!AND", ["a", "==", 1]]), "not (a == 1)"),
            (json!("x"), "\"x\""),
        ] {
            assert_eq!(condition(&value), text);
        }
    }
}
