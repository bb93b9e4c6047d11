//! Formats of log entries that users give: `{"field": "$variable", "other": {"nested": "text"}}`.

use serde_json::{Map, Value};
use tidegate_plugin_api::{Request, RequestBody, Session, Variable, variables::Named};

use super::masked_body;

/// Deeper tables come out empty.
const MAX_DEPTH: usize = 5;

/// `log_format` of a logger, compiled.
pub struct Format {
    fields: Vec<(String, Field)>,
}

enum Field {
    Variable(Variable),
    /// `$request_body`: cut at the configured size.
    RequestBody,
    Fixed(Value),
    Nested {
        format: Format,
        list: bool,
    },
}

impl Format {
    /// `None` unless it is an object.
    pub fn new(value: &Value) -> Option<Format> {
        value.as_object().map(|fields| Format::at_depth(entries(fields), 1))
    }

    fn at_depth(entries: Vec<(String, &Value)>, depth: usize) -> Format {
        Format { fields: entries.into_iter().map(|(name, value)| (name, Field::new(value, depth))).collect() }
    }

    /// Whether it has no fields: the default entry is logged.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The names of its fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Fields whose variable has no value are left out.
    pub fn render(&self, request: &Request, limits: &Limits) -> Map<String, Value> {
        self.fill(&Source {
            variable: &|variable| request.variable(variable).map(|value| text(&value)),
            body: &|| request_body(request, limits),
        })
    }

    /// The same of a session, which has no body.
    pub(crate) fn render_session(&self, session: &Session) -> Map<String, Value> {
        self.fill(&Source {
            variable: &|variable| session.variable(variable).map(|value| text(&value)),
            body: &|| None,
        })
    }

    fn fill(&self, source: &Source) -> Map<String, Value> {
        let values = self
            .fields
            .iter()
            .filter_map(|(name, field)| field.value(source).map(|value| (name.clone(), value)));
        values.collect()
    }
}

fn entries(fields: &Map<String, Value>) -> Vec<(String, &Value)> {
    fields.iter().map(|(name, value)| (name.clone(), value)).collect()
}

/// Where values come from.
struct Source<'a> {
    variable: &'a dyn Fn(&Variable) -> Option<String>,
    body: &'a dyn Fn() -> Option<Value>,
}

impl Field {
    fn new(value: &Value, depth: usize) -> Field {
        let nested = |entries| match depth >= MAX_DEPTH {
            true => Format { fields: Vec::new() },
            false => Format::at_depth(entries, depth + 1),
        };
        match value {
            Value::String(text) => match Variable::of_entry(text) {
                Some(Variable::Named(Named::RequestBody)) => Field::RequestBody,
                Some(variable) => Field::Variable(variable),
                None => Field::Fixed(value.clone()),
            },
            Value::Object(fields) => Field::Nested { format: nested(entries(fields)), list: false },
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect();
                Field::Nested { format: nested(items), list: true }
            }
            other => Field::Fixed(other.clone()),
        }
    }

    fn value(&self, source: &Source) -> Option<Value> {
        match self {
            Field::Variable(variable) => {
                let value = (source.variable)(variable)?;
                match variable {
                    Variable::Named(Named::Status | Named::BytesSent | Named::RequestLength) => {
                        Some(value.parse::<u64>().map_or_else(|_| value.into(), Value::from))
                    }
                    _ => Some(value.into()),
                }
            }
            Field::RequestBody => (source.body)(),
            Field::Fixed(value) => Some(value.clone()),
            Field::Nested { format, list: false } => Some(format.fill(source).into()),
            Field::Nested { format, list: true } => {
                Some(format.fill(source).into_iter().map(|(_, value)| value).collect())
            }
        }
    }
}

/// Marks in entries for bodies whose texts are put there on another thread.
pub(crate) struct Marks {
    pub request: String,
    pub response: String,
}

/// How much of the request's body is shown.
pub struct Limits<'a> {
    /// The most bytes of a body in an entry.
    pub max: usize,
    /// More than this is not shown at once.
    pub marked: usize,
    /// What stands for it.
    pub mark: &'a str,
}

/// The body as far as it was read into memory, cut to its limit, or its mark.
pub fn request_body(request: &Request, limits: &Limits) -> Option<Value> {
    match &request.body {
        _ if masked_body::waits(request) => Some(limits.mark.into()),
        RequestBody::Collected(body) if body.len().min(limits.max) > limits.marked => {
            Some(limits.mark.into())
        }
        RequestBody::Collected(body) if !body.is_empty() => {
            Some(text(body.get(..limits.max).unwrap_or(body)).into())
        }
        _ => None,
    }
}

/// As a value of an entry; bytes that are not UTF-8 are replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request::request;

    #[test]
    fn formats_and_what_they_give() {
        let cases = [
            (json!({"a": "$host", "b": "text", "c": 1}), json!({"a": "h", "b": "text", "c": 1})),
            (json!({"missing": "$http_absent", "x": {"y": "$uri"}}), json!({"x": {"y": "/p"}})),
            (json!({"list": ["$host", 2]}), json!({"list": ["h", 2]})),
            (
                json!({"1": {"2": {"3": {"4": {"5": {"6": "$host"}}}}}}),
                json!({"1": {"2": {"3": {"4": {"5": {}}}}}}),
            ),
            (json!({"body": "$request_body"}), json!({"body": "abc"})),
        ];
        let mut request = request("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
        request.body = RequestBody::Collected("abcde".into());
        let limits = Limits { max: 3, marked: 4, mark: "" };
        for (format, expected) in cases {
            let rendered = Format::new(&format).map(|format| format.render(&request, &limits));
            assert_eq!(rendered.map(Value::from), Some(expected), "{format}");
        }
    }
}
