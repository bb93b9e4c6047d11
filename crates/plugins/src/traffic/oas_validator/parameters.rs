//! Parameters of an operation, in the path, the query, the header and cookies: how they are written, and what they are.

use serde_json::{Map, Value};
use tidegate_plugin_api::Request;
use tidegate_protocol::uri;

use super::{
    json_schema::{At, Check, Failed, Schemas},
    values,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Simple,
    Label,
    Matrix,
    Form,
    Spaces,
    Pipes,
    DeepObject,
}

#[derive(Debug)]
pub(super) struct Parameter {
    pub place: Place,
    name: String,
    required: bool,
    style: Style,
    explode: bool,
    schema: Value,
    /// The value is a JSON text.
    is_json: bool,
}

/// Fields that OpenAPI describes elsewhere.
const NO_PARAMETERS: [&str; 3] = ["accept", "content-type", "authorization"];

impl Parameter {
    pub(super) fn new(schemas: &Schemas, value: &Value) -> Result<Parameter, String> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = text("name").to_owned();
        let place = match text("in") {
            "path" => Place::Path,
            "query" => Place::Query,
            "header" => Place::Header,
            "cookie" => Place::Cookie,
            other => return Err(format!("parameter {name:?} is in {other:?}")),
        };
        let style = match text("style") {
            "simple" => Style::Simple,
            "label" => Style::Label,
            "matrix" => Style::Matrix,
            "form" => Style::Form,
            "spaceDelimited" => Style::Spaces,
            "pipeDelimited" => Style::Pipes,
            "deepObject" => Style::DeepObject,
            "" if matches!(place, Place::Path | Place::Header) => Style::Simple,
            "" => Style::Form,
            other => return Err(format!("parameter {name:?} has the style {other:?}")),
        };
        let flag = |name: &str| value.get(name).and_then(Value::as_bool);
        let content =
            value.get("content").and_then(Value::as_object).and_then(|content| content.iter().next());
        let is_json = content.is_some_and(|(kind, _)| values::is_json(kind));
        let schema = match content {
            Some((_, media)) => media.get("schema"),
            None => value.get("schema"),
        };
        let is_left_out =
            place == Place::Header && NO_PARAMETERS.iter().any(|other| name.eq_ignore_ascii_case(other));
        Ok(Parameter {
            place,
            required: !is_left_out && (place == Place::Path || flag("required") == Some(true)),
            style,
            explode: flag("explode").unwrap_or(style == Style::Form),
            schema: match schema {
                Some(schema) if !is_left_out => schemas.followed(schema).clone(),
                _ => Value::Bool(true),
            },
            is_json,
            name,
        })
    }

    pub(super) fn is_same(&self, other: &Parameter) -> bool {
        self.place == other.place && self.name == other.name
    }

    pub(super) fn check(
        &self,
        request: &Request,
        path: &[(&str, String)],
        check: &Check,
        schemas: &Schemas,
    ) -> Result<(), Failed> {
        let (value, place) = match self.place {
            Place::Path => (self.of_path(path, schemas)?, "path"),
            Place::Query => (self.of_query(request.head.query().unwrap_or_default(), schemas)?, "query"),
            Place::Header => {
                (self.of_lines(request.head.headers.get_all(&self.name), "header", schemas)?, "header")
            }
            Place::Cookie => (self.of_lines(request.cookies(&self.name), "cookie", schemas)?, "cookie"),
        };
        let name = format!("{place} {}", self.name);
        match value {
            Some(value) => check.check(&self.schema, &value, &At::root(&name)),
            None if self.required => Err(Failed::Invalid(format!("{name}: it is required"))),
            None => Ok(()),
        }
    }

    /// Of a field or cookie that may be there once: servers differ in which of two they take.
    fn of_lines<'r>(
        &self,
        mut lines: impl Iterator<Item = &'r [u8]>,
        place: &str,
        schemas: &Schemas,
    ) -> Result<Option<Value>, Failed> {
        let Some(line) = lines.next() else { return Ok(None) };
        let others: Vec<_> = lines.collect();
        let is_list = values::types(schemas, &self.schema).contains(&"array") && !self.is_json;
        if is_list && place == "header" && !others.is_empty() {
            // RFC 9110, section 5.3: lines of one list.
            let all: Vec<&[u8]> = std::iter::once(line).chain(others).collect();
            let all = all.join(&b',');
            return self.simple(&String::from_utf8_lossy(&all), schemas).map(Some);
        }
        if !others.is_empty() {
            return Err(Failed::Invalid(format!("{place} {}: duplicate parameter", self.name)));
        }
        self.simple(&String::from_utf8_lossy(line), schemas).map(Some)
    }

    fn of_path(&self, path: &[(&str, String)], schemas: &Schemas) -> Result<Option<Value>, Failed> {
        let Some((_, text)) = path.iter().find(|(name, _)| *name == self.name) else { return Ok(None) };
        let text = match self.style {
            Style::Label => text.strip_prefix('.').unwrap_or(text),
            Style::Matrix => {
                let text = text.strip_prefix(';').unwrap_or(text);
                text.strip_prefix(&format!("{}=", self.name)).unwrap_or(text)
            }
            _ => text,
        };
        self.simple(text, schemas).map(Some)
    }

    /// One text: a value, a list with commas, an object with commas.
    fn simple(&self, text: &str, schemas: &Schemas) -> Result<Value, Failed> {
        if self.is_json {
            let read = tidegate_model::json::parse(text.as_bytes());
            return read.map_err(|fault| Failed::Invalid(format!("{}: {fault}", self.name)));
        }
        let types = values::types(schemas, &self.schema);
        let parts = || text.split(',').map(str::trim);
        if types.contains(&"array") {
            return Ok(values::list(schemas, &self.schema, parts()));
        }
        if types.contains(&"object") {
            let pairs: Vec<(&str, &str)> = if self.explode {
                parts().filter_map(|part| part.split_once('=')).collect()
            } else {
                let parts: Vec<&str> = parts().collect();
                parts.chunks_exact(2).filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect()
            };
            return Ok(values::object(schemas, &self.schema, pairs.into_iter()));
        }
        Ok(values::of_text(&types, text))
    }

    fn of_query(&self, query: &[u8], schemas: &Schemas) -> Result<Option<Value>, Failed> {
        let decode = |bytes: &[u8]| String::from_utf8_lossy(&uri::percent_decode(bytes, true)).into_owned();
        let pairs: Vec<(String, String)> = uri::query_pairs(query)
            .map(|(name, value)| (decode(name), decode(value.unwrap_or_default())))
            .collect();
        let types = values::types(schemas, &self.schema);
        let named = || pairs.iter().filter(|(name, _)| *name == self.name).map(|(_, value)| value.as_str());
        if types.contains(&"object") && !self.is_json {
            return Ok(self.object_of_query(&pairs, schemas));
        }
        let Some(first) = named().next() else {
            // As clients of PHP write lists.
            let listed = format!("{}[]", self.name);
            let mut listed =
                pairs.iter().filter(|(name, _)| *name == listed).map(|(_, value)| value.as_str()).peekable();
            let has_any = types.contains(&"array") && listed.peek().is_some();
            return Ok(has_any.then(|| values::list(schemas, &self.schema, listed)));
        };
        if types.contains(&"array") && !self.is_json {
            let separator = match self.style {
                _ if self.explode => return Ok(Some(values::list(schemas, &self.schema, named()))),
                Style::Spaces => ' ',
                Style::Pipes => '|',
                _ => ',',
            };
            return Ok(Some(values::list(schemas, &self.schema, first.split(separator))));
        }
        if named().nth(1).is_some() {
            // Servers differ in which of them they take.
            return Err(Failed::Invalid(format!("query {}: duplicate parameter", self.name)));
        }
        if self.is_json {
            return self.simple(first, schemas).map(Some);
        }
        Ok(Some(values::of_text(&types, first)))
    }

    fn object_of_query(&self, pairs: &[(String, String)], schemas: &Schemas) -> Option<Value> {
        let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let members: Vec<(&str, &str)> = match self.style {
            Style::DeepObject => pairs
                .filter_map(|(name, value)| {
                    let inner =
                        name.strip_prefix(self.name.as_str())?.strip_prefix('[')?.strip_suffix(']')?;
                    Some((inner, value))
                })
                .collect(),
            Style::Form if self.explode => {
                let known = values::properties(schemas, &self.schema);
                pairs
                    .filter(|(name, _)| {
                        known.is_none_or(|known: &Map<String, Value>| known.contains_key(*name))
                    })
                    .collect()
            }
            _ => {
                let (_, value) = pairs.into_iter().find(|(name, _)| *name == self.name)?;
                return self.simple(value, schemas).ok();
            }
        };
        (!members.is_empty()).then(|| values::object(schemas, &self.schema, members.into_iter()))
    }
}
