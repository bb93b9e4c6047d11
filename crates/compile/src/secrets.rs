//! References to secrets in configurations: `$env://NAME/json/key` and `$secret://MANAGER/ID/path/key`.

use serde_json::Value;
use telemetry::error_log::{self, Level};

/// Where `$secret://` references lead.
pub trait SecretSource: Send + Sync {
    /// The value of `vault/1/path/key` as far as it is known, or why there is none. Never waits.
    fn get(&self, reference: &str) -> Result<String, String>;
}

const MANAGED: &str = "$secret://";

/// What follows `$secret://` in the texts below `value`.
pub fn secret_references(value: &Value) -> Vec<&str> {
    fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::String(text) => found.extend(after(text, MANAGED)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            Value::Object(map) => map.values().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    collect(value, &mut found);
    found
}

/// Replaces every reference below `value`. The first that leads nowhere is an error that names it.
pub fn resolve(value: &mut Value, source: &dyn SecretSource) -> Result<(), String> {
    walk(value, &mut Vec::new(), &mut |text, field| {
        lookup(text, source).map_err(|reason| failed(text, field, &reason))
    })
}

/// As [`resolve`] for a plugin's configuration: as in APISIX a reference that leads nowhere stays as the text it is,
/// and is logged. Not so in `secret_fields`: a key or password that anybody can read in the configuration protects
/// nothing.
pub fn resolve_lenient(
    value: &mut Value,
    source: &dyn SecretSource,
    secret_fields: &[&str],
) -> Result<(), String> {
    walk(value, &mut Vec::new(), &mut |text, field| match lookup(text, source) {
        Ok(found) => Ok(found),
        Err(reason) => {
            let reason = failed(text, field, &reason);
            let path = field.join(".");
            let inside = |secret: &&str| {
                path.strip_prefix(*secret).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            if secret_fields.iter().any(inside) {
                return Err(reason);
            }
            error_log::log(Level::Error, format_args!("{reason}"));
            Ok(None)
        }
    })
}

/// Replaces the references to the environment; those that lead nowhere stay.
pub fn resolve_environment(value: &mut Value) {
    let _ = walk(value, &mut Vec::new(), &mut |text, _| Ok(after(text, "$env://").and_then(environment)));
}

/// One text instead of a tree of them.
pub fn resolve_text(text: &str, field: &str, source: &dyn SecretSource) -> Result<String, String> {
    let found = lookup(text, source).map_err(|reason| failed(text, &[field.to_owned()], &reason))?;
    Ok(found.unwrap_or_else(|| text.to_owned()))
}

/// APISIX's words, which people search their logs for.
fn failed(text: &str, field: &[String], reason: &str) -> String {
    let field = field.last().map_or("", String::as_str);
    format!("failed to resolve secret reference: {text}, field: {field}, err: {reason}")
}

type Replace<'a> = &'a mut dyn FnMut(&str, &[String]) -> Result<Option<String>, String>;

/// `replace` gets each text and the names on the way to it; items of lists have none.
fn walk(value: &mut Value, path: &mut Vec<String>, replace: Replace<'_>) -> Result<(), String> {
    match value {
        Value::String(text) if text.starts_with('$') => {
            if let Some(found) = replace(text, path)? {
                *text = found;
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| walk(item, path, replace)),
        Value::Object(map) => map.iter_mut().try_for_each(|(name, item)| {
            path.push(name.clone());
            let done = walk(item, path, replace);
            path.pop();
            done
        }),
        _ => Ok(()),
    }
}

/// `None`: not a reference.
fn lookup(text: &str, source: &dyn SecretSource) -> Result<Option<String>, String> {
    if let Some(reference) = after(text, "$env://") {
        return environment(reference).map(Some).ok_or_else(|| "no value".to_owned());
    }
    after(text, MANAGED).map(|reference| source.get(reference)).transpose()
}

/// The rest of a text that starts with a scheme, which is `$ENV://` too for the environment.
fn after<'a>(text: &'a str, scheme: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(scheme.len())?;
    (start == scheme || (scheme != MANAGED && start.eq_ignore_ascii_case(scheme))).then_some(rest)
}

/// `NAME`, or a member of the JSON object in it: `NAME/member`.
fn environment(reference: &str) -> Option<String> {
    let (name, member) = match reference.split_once('/') {
        Some((name, member)) => (name, Some(member)),
        None => (reference, None),
    };
    let value = std::env::var(name).ok()?;
    let Some(member) = member else { return Some(value) };
    match serde_json::from_str::<Value>(&value).ok()?.get(member)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct None;

    impl SecretSource for None {
        fn get(&self, _: &str) -> Result<String, String> {
            Err("no such manager".to_owned())
        }
    }

    #[test]
    fn references_are_replaced_or_named() {
        let mut value = json!({"a": ["$ENV://PATH", "plain"]});
        resolve(&mut value, &None).unwrap();
        assert_eq!(value["a"][0], Value::String(std::env::var("PATH").unwrap()));
        let mut value = json!({"a": {"b": "$env://TIDEGATE_NOT_SET"}});
        assert_eq!(
            resolve(&mut value, &None).unwrap_err(),
            "failed to resolve secret reference: $env://TIDEGATE_NOT_SET, field: b, err: no value"
        );
        let mut value = json!("$secret://vault/1/a/b");
        assert!(resolve(&mut value, &None).unwrap_err().contains("$secret://vault/1/a/b"));
    }

    #[test]
    fn only_secret_fields_must_resolve() {
        let conf = || json!({"host": "$env://TIDEGATE_NOT_SET", "auth": [{"key": "$secret://vault/1/a/b"}]});
        let mut value = conf();
        resolve_lenient(&mut value, &None, &["password"]).unwrap();
        assert_eq!(value, conf());
        for fields in [&["auth.key"][..], &["auth"], &["x", "host"]] {
            assert!(resolve_lenient(&mut conf(), &None, fields).is_err(), "{fields:?}");
        }
        assert!(resolve_lenient(&mut conf(), &None, &["aut", "auth.k"]).is_ok());
    }

    #[test]
    fn references_are_found() {
        let value = json!({"a": ["$secret://vault/1/a/b", "x $secret://no"], "b": "$env://X"});
        assert_eq!(secret_references(&value), ["vault/1/a/b"]);
    }
}
