//! References to secrets in configurations: `$env://NAME/json/key` and `$secret://MANAGER/ID/path/key`.

use serde_json::Value;

/// Where `$secret://` references lead.
pub trait SecretSource: Send + Sync {
    /// The value of `vault/1/path/key`, or why there is none.
    fn get(&self, reference: &str) -> Result<String, String>;
}

/// Replaces every reference below `value`. The first that leads nowhere is an error that names it.
pub fn resolve(value: &mut Value, source: &dyn SecretSource) -> Result<(), String> {
    match value {
        Value::String(text) => {
            if let Some(found) = lookup(text, source)? {
                *text = found;
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| resolve(item, source)),
        Value::Object(map) => map.values_mut().try_for_each(|item| resolve(item, source)),
        _ => Ok(()),
    }
}

fn lookup(text: &str, source: &dyn SecretSource) -> Result<Option<String>, String> {
    let prefix = |scheme: &str| {
        text.get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            .then(|| &text[scheme.len()..])
    };
    if let Some(reference) = prefix("$env://") {
        return environment(reference).map(Some).ok_or_else(|| format!("no value for {text}"));
    }
    if let Some(reference) = prefix("$secret://") {
        return source.get(reference).map(Some).map_err(|reason| format!("no value for {text}: {reason}"));
    }
    Ok(None)
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

    struct None;

    impl SecretSource for None {
        fn get(&self, _: &str) -> Result<String, String> {
            Err("no such manager".to_owned())
        }
    }

    #[test]
    fn references_are_replaced_or_named() {
        let mut value = serde_json::json!({"a": ["$ENV://PATH", "plain"]});
        resolve(&mut value, &None).unwrap();
        assert_eq!(value["a"][0], Value::String(std::env::var("PATH").unwrap()));
        let mut value = serde_json::json!({"a": "$env://TIDEGATE_NOT_SET"});
        assert_eq!(resolve(&mut value, &None).unwrap_err(), "no value for $env://TIDEGATE_NOT_SET");
        let mut value = serde_json::json!("$secret://vault/1/a/b");
        assert!(resolve(&mut value, &None).unwrap_err().contains("$secret://vault/1/a/b"));
    }
}
