//! `${{NAME}}` and `${{NAME:=default}}` in configuration files.
//!
//! Double braces because `$name` and `${name}` belong to log formats. config.yaml and apisix.json are replaced
//! value by value after parsing; apisix.yaml before parsing, so that its quotes decide what is text.

use serde_json::{Map, Value};

use crate::yaml::{
    node::{Content, Fault, Node},
    scalar,
};

/// Looks up an environment variable; tests pass their own.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process. Values that are not UTF-8 count as missing.
pub fn process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Replaces all variables in `text`; `None` when there are none.
pub(crate) fn substitute(text: &str, lookup: Lookup) -> Result<Option<String>, String> {
    let mut out = String::new();
    let mut rest = text;
    let mut used = false;
    while let Some(start) = rest.find("${{") {
        let (before, after) = rest.split_at(start);
        let body = after.get(3..).unwrap_or_default();
        let Some(end) = body.find("}}") else { break };
        let inner = body.get(..end).unwrap_or_default().trim();
        let tail = body.get(end + 2..).unwrap_or_default();
        out.push_str(before);
        if inner.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_') {
            out.push_str(&resolve(inner, lookup)?);
            used = true;
        } else {
            out.push_str(after.get(..end + 5).unwrap_or_default());
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(used.then_some(out))
}

/// Replaces the variables of a whole YAML text. A variable that is missing in a comment does no harm.
pub fn substitute_text(text: &str, lookup: Lookup) -> Result<String, Fault> {
    let mut out = String::with_capacity(text.len());
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let comment = line.trim_start().starts_with('#');
        match substitute(line, lookup) {
            Ok(Some(changed)) => out.push_str(&changed),
            Ok(None) => out.push_str(line),
            Err(_) if comment => out.push_str(line),
            Err(message) => {
                let before = line.find("${{").and_then(|start| line.get(..start)).unwrap_or_default();
                return Err(Fault { line: index + 1, column: before.chars().count() + 1, message });
            }
        }
    }
    Ok(out)
}

/// Replaces the variables in all keys and texts of a parsed value; what then looks like a number, `true` or
/// `false` becomes one.
pub fn substitute_value(value: &mut Value, lookup: Lookup) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(changed) = substitute(text, lookup)? {
                *value = typed(changed);
            }
        }
        Value::Array(items) => {
            for item in items {
                substitute_value(item, lookup)?;
            }
        }
        Value::Object(map) => {
            let mut changed = Map::new();
            for (key, mut inner) in std::mem::take(map) {
                substitute_value(&mut inner, lookup)?;
                changed.insert(substitute(&key, lookup)?.unwrap_or(key), inner);
            }
            *map = changed;
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// `substitute_value` for a tree with places: the error has the place of the variable.
pub(crate) fn substitute_node(node: &mut Node, lookup: Lookup) -> Result<(), Fault> {
    let (line, column) = (node.line, node.column);
    match &mut node.content {
        Content::Scalar { value, text } => {
            if value.is_string()
                && let Some(changed) =
                    substitute(text, lookup).map_err(|message| Fault { line, column, message })?
            {
                *value = typed(changed.clone());
                *text = changed;
            }
        }
        Content::List(items) => {
            for item in items {
                substitute_node(item, lookup)?;
            }
        }
        Content::Map(entries) => {
            for entry in entries {
                let (line, column) = (entry.line, entry.column);
                let changed =
                    substitute(&entry.key, lookup).map_err(|message| Fault { line, column, message })?;
                if let Some(changed) = changed {
                    entry.key = changed;
                }
                substitute_node(&mut entry.value, lookup)?;
            }
        }
    }
    Ok(())
}

/// A substituted text as the value it looks like.
pub fn typed(text: String) -> Value {
    match text.as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        other => scalar::number(other).unwrap_or(Value::String(text)),
    }
}

fn resolve(inner: &str, lookup: Lookup) -> Result<String, String> {
    let (name, default) = match inner.split_once(":=") {
        Some((name, default)) => (name, Some(default.trim())),
        None => (inner, None),
    };
    match (lookup(name), default) {
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            Err(format!("failed to handle configuration: can't find environment variable {name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment(name: &str) -> Option<String> {
        match name {
            "PORT" => Some("9080".to_owned()),
            "HOST" => Some("example.com".to_owned()),
            "ON" => Some("true".to_owned()),
            _ => None,
        }
    }

    fn check(text: &str, expected: &str) {
        let result = match substitute(text, &environment) {
            Ok(Some(changed)) => changed,
            Ok(None) => text.to_owned(),
            Err(message) => message,
        };
        assert_eq!(result, expected, "{text}");
    }

    #[test]
    fn texts() {
        check("plain $PORT ${PORT}", "plain $PORT ${PORT}");
        check("http://${{HOST}}:${{ PORT }}/", "http://example.com:9080/");
        check("${{NONE:=a b}}|${{NONE:= }}|${{HOST:=x}}", "a b||example.com");
        check("${{NONE}}", "failed to handle configuration: can't find environment variable NONE");
        check("${{ }} ${{", "${{ }} ${{");
        check("${{PORT", "${{PORT");
    }

    #[test]
    fn values_get_types() {
        let mut value = json!({"${{HOST}}": ["${{PORT}}", "${{ON}}", "port ${{PORT}}", 7]});
        substitute_value(&mut value, &environment).unwrap();
        assert_eq!(value, json!({"example.com": [9080, true, "port 9080", 7]}));
    }

    #[test]
    fn comments_may_name_missing_variables() {
        let text = "# ${{NONE}}\na: ${{PORT}}\n";
        assert_eq!(substitute_text(text, &environment).unwrap(), "# ${{NONE}}\na: 9080\n");
        let fault = substitute_text("b: 1\na: ${{NONE}}", &environment).unwrap_err();
        assert_eq!((fault.line, fault.column), (2, 4));
    }
}
