//! References to secrets in configurations: `$env://NAME/json/key` and `$secret://MANAGER/ID/path/key`.

use serde_json::Value;

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

/// A reference that leads nowhere.
#[derive(Debug)]
pub(crate) struct Unresolved {
    pub reason: String,
    /// The names on the way to it, with dots between.
    path: String,
}

impl Unresolved {
    /// Whether it is in, or below, one of these fields.
    pub(crate) fn is_in(&self, fields: &[&str]) -> bool {
        let inside = |field: &&str| {
            self.path.strip_prefix(*field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        fields.iter().any(inside)
    }
}

/// Replaces the references below `value`. Those that lead nowhere stay unchanged, and are returned. `note` gets each
/// value that is put in.
pub(crate) fn resolve(value: &mut Value, source: &dyn SecretSource, note: &dyn Fn(&str)) -> Vec<Unresolved> {
    let mut unresolved = Vec::new();
    walk(value, &mut Vec::new(), &mut |text, field| {
        let found = lookup(text, source).unwrap_or_else(|reason| {
            unresolved.push(Unresolved { reason: failed(text, field, &reason), path: field.join(".") });
            None
        });
        found.as_deref().into_iter().for_each(note);
        found
    });
    unresolved
}

/// Replaces the references to the environment; those that lead nowhere stay.
pub fn resolve_environment(value: &mut Value) {
    walk(value, &mut Vec::new(), &mut |text, _| after(text, "$env://").and_then(environment));
}

/// The references to the environment that lead nowhere, in words.
pub(crate) fn missing_variables(value: &mut Value) -> Vec<String> {
    let mut missing = Vec::new();
    walk(value, &mut Vec::new(), &mut |text, field| {
        let reference = after(text, "$env://")?;
        if environment(reference).is_none() {
            missing.push(failed(text, field, "no value"));
        }
        None
    });
    missing
}

/// APISIX's words, which people search their logs for.
fn failed(text: &str, field: &[String], reason: &str) -> String {
    let field = field.last().map_or("", String::as_str);
    format!("failed to resolve secret reference: {text}, field: {field}, err: {reason}")
}

type Replace<'a> = &'a mut dyn FnMut(&str, &[String]) -> Option<String>;

/// `replace` gets each text and the names on the way to it; items of lists have none.
fn walk(value: &mut Value, path: &mut Vec<String>, replace: Replace<'_>) {
    match value {
        Value::String(text) if text.starts_with('$') => {
            if let Some(found) = replace(text, path) {
                *text = found;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, path, replace)),
        Value::Object(map) => map.iter_mut().for_each(|(name, item)| {
            path.push(name.clone());
            walk(item, path, replace);
            path.pop();
        }),
        _ => {}
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
    match member {
        None => tidegate_model::secret_text(&Value::String(value)),
        Some(member) => tidegate_model::secret_text(serde_json::from_str::<Value>(&value).ok()?.get(member)?),
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
        assert!(resolve(&mut value, &None, &|_| {}).is_empty());
        assert_eq!(value["a"][0], Value::String(std::env::var("PATH").unwrap()));
        let reason = |mut value: Value| resolve(&mut value, &None, &|_| {}).remove(0).reason;
        assert_eq!(
            reason(json!({"a": {"b": "$env://TIDEGATE_NOT_SET"}})),
            "failed to resolve secret reference: $env://TIDEGATE_NOT_SET, field: b, err: no value"
        );
        assert!(reason(json!("$secret://vault/1/a/b")).contains("$secret://vault/1/a/b"));
        let mut manager =
            json!({"token": "$env://TIDEGATE_NOT_SET", "uri": "$env://PATH", "prefix": "$secret://a/b/c"});
        assert_eq!(
            missing_variables(&mut manager),
            ["failed to resolve secret reference: $env://TIDEGATE_NOT_SET, field: token, err: no value"]
        );
    }

    #[test]
    fn unresolved_references_stay_and_tell_their_field() {
        let conf = json!({"host": "$env://TIDEGATE_NOT_SET", "auth": [{"key": "$secret://vault/1/a/b"}]});
        let mut value = conf.clone();
        let unresolved = resolve(&mut value, &None, &|_| {});
        assert_eq!((value, unresolved.len()), (conf, 2));
        let within = |fields: &[&str]| unresolved.iter().any(|found| found.is_in(fields));
        for fields in [&["auth.key"][..], &["auth"], &["x", "host"]] {
            assert!(within(fields), "{fields:?}");
        }
        assert!(!within(&["aut", "auth.k", "password"]));
    }

    #[test]
    fn references_are_found() {
        let value = json!({"a": ["$secret://vault/1/a/b", "x $secret://no"], "b": "$env://X"});
        assert_eq!(secret_references(&value), ["vault/1/a/b"]);
    }
}
