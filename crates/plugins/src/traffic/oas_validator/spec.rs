//! An OpenAPI document, ready to check requests: its operations, found by path and method.

use serde_json::{Map, Value};
use tidegate_plugin_api::document::Allowance;

use super::{
    json_schema::{Dialect, Schemas},
    parameters::Parameter,
    paths::Template,
};
use crate::common::json;

/// What a document may take in memory, once it is read.
const MOST_MEMORY: usize = 512 << 20;

const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

#[derive(Debug)]
pub(super) struct Spec {
    pub schemas: Schemas,
    /// The first that fits a path is the one that says most of it.
    paths: Vec<(Template, Vec<Operation>)>,
}

#[derive(Debug)]
pub(super) struct Operation {
    method: &'static str,
    pub parameters: Vec<Parameter>,
    pub body: Option<RequestBody>,
}

#[derive(Debug)]
pub(super) struct RequestBody {
    pub required: bool,
    /// By media type, in lower case: the pointer of what the document says of it.
    pub content: Vec<(String, Value)>,
}

/// An operation, and the values of its path's parameters.
pub(super) type Found<'s> = (&'s Operation, Vec<(&'s str, String)>);

impl Spec {
    pub(super) fn parse(text: &[u8]) -> Result<Spec, String> {
        let root = read(text)?;
        let version = root.get("openapi").and_then(Value::as_str).unwrap_or_default();
        let dialect = match version {
            _ if version.starts_with("3.0") => Dialect::V30,
            _ if version.starts_with("3.1") || version.starts_with("3.2") => Dialect::V31,
            _ => return Err(format!("it is not an OpenAPI document of version 3.0 or 3.1: {version:?}")),
        };
        let schemas = Schemas::new(root, dialect)?;
        let paths = paths(&schemas)?;
        Ok(Spec { schemas, paths })
    }

    /// What the document says of a request.
    pub(super) fn find(&self, method: &str, path: &str) -> Result<Found<'_>, String> {
        let mut is_known = false;
        for (template, operations) in &self.paths {
            let Some(values) = template.values(path) else { continue };
            is_known = true;
            let found = operations.iter().find(|operation| operation.method.eq_ignore_ascii_case(method));
            if let Some(operation) = found {
                return Ok((operation, values));
            }
        }
        Err(if is_known { "the method is not in the document" } else { "the path is not in the document" }
            .to_owned())
    }
}

/// A JSON document as APISIX reads it: control characters may stand in its texts.
pub(super) fn read(text: &[u8]) -> Result<Value, String> {
    let (mut escaped, mut in_text, mut after_backslash) = (Vec::with_capacity(text.len()), false, false);
    for &byte in text {
        if in_text && byte < b' ' {
            escaped.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
            continue;
        }
        in_text ^= byte == b'"' && !after_backslash;
        after_backslash = in_text && byte == b'\\' && !after_backslash;
        escaped.push(byte);
    }
    json::decode(&escaped, &Allowance::new(MOST_MEMORY)).map_err(|error| error.to_string())
}

/// Where the API begins, by its servers: at least one.
fn bases(root: &Value) -> Vec<String> {
    let servers = root.get("servers").and_then(Value::as_array).into_iter().flatten();
    let mut bases: Vec<String> = servers.filter_map(base).collect();
    if bases.is_empty() {
        bases.push(String::new());
    }
    bases.sort();
    bases.dedup();
    bases
}

fn base(server: &Value) -> Option<String> {
    let mut url = server.get("url")?.as_str()?.to_owned();
    let variables = server.get("variables").and_then(Value::as_object);
    for (name, variable) in variables.into_iter().flatten() {
        let value = variable.get("default").and_then(Value::as_str).unwrap_or_default();
        url = url.replace(&format!("{{{name}}}"), value);
    }
    let rest =
        url.split_once("://").map_or(url.as_str(), |(_, rest)| rest.find('/').map_or("", |at| &rest[at..]));
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    Some(path.trim_end_matches('/').to_owned())
}

fn paths(schemas: &Schemas) -> Result<Vec<(Template, Vec<Operation>)>, String> {
    let Some(items) = schemas.root.get("paths").and_then(Value::as_object) else {
        return Err("it has no paths".to_owned());
    };
    let mut paths = Vec::new();
    for (path, item) in items.iter().filter(|(path, _)| path.starts_with('/')) {
        let item = schemas.followed(item);
        let of_item = item.get("servers").map(|_| bases(item));
        for base in of_item.unwrap_or_else(|| bases(&schemas.root)) {
            let operations = operations(schemas, item).map_err(|reason| format!("{path}: {reason}"))?;
            paths.push((Template::new(&format!("{base}{path}"))?, operations));
        }
    }
    paths.sort_by(|(one, _), (other, _)| one.cmp_specific(other));
    Ok(paths)
}

fn operations(schemas: &Schemas, item: &Value) -> Result<Vec<Operation>, String> {
    let mut operations = Vec::new();
    for method in METHODS {
        let Some(operation) = item.get(method).and_then(Value::as_object) else { continue };
        let body = operation.get("requestBody").map(|body| request_body(schemas.followed(body)));
        operations.push(Operation { method, parameters: parameters(schemas, item, operation)?, body });
    }
    Ok(operations)
}

/// Those of an operation over those of its path.
fn parameters(
    schemas: &Schemas,
    item: &Value,
    operation: &Map<String, Value>,
) -> Result<Vec<Parameter>, String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let mut parameters: Vec<Parameter> = Vec::new();
    for value in list(operation.get("parameters")).iter().chain(&list(item.get("parameters"))) {
        let parameter = Parameter::new(schemas, schemas.followed(value))?;
        if !parameters.iter().any(|known| known.is_same(&parameter)) {
            parameters.push(parameter);
        }
    }
    Ok(parameters)
}

fn request_body(body: &Value) -> RequestBody {
    let content = body.get("content").and_then(Value::as_object).into_iter().flatten();
    RequestBody {
        required: body.get("required").and_then(Value::as_bool) == Some(true),
        content: content.map(|(kind, media)| (kind.to_ascii_lowercase(), media.clone())).collect(),
    }
}

impl RequestBody {
    /// What is said of this media type: by its name, else by a range.
    pub(super) fn media(&self, kind: &str) -> Option<&Value> {
        let by_name = |name: &str| {
            let is_it =
                |(known, _): &&(String, Value)| known.split(';').next().unwrap_or_default().trim() == name;
            self.content.iter().find(is_it).map(|(_, media)| media)
        };
        let range = kind.split_once('/').map(|(main, _)| format!("{main}/*"));
        by_name(kind).or_else(|| by_name(range.as_deref()?)).or_else(|| by_name("*/*"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_leniently() {
        let read = |text: &str| read(text.as_bytes()).map(|value| value.to_string());
        assert_eq!(read("{\"a\": \"x\ny\\\"\tz\"\n}"), Ok(r#"{"a":"x\ny\"\tz"}"#.to_owned()));
        let error = "Expected value but found invalid token at character 1";
        assert_eq!(read("&"), Err(error.to_owned()));
    }
}
