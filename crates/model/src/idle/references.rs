//! Values that look like secret references but are not: the literal text then becomes the secret, which anyone can guess.

use serde_json::Value;

use crate::{Kind, Object, schema::is_secret_reference};

const WORDS: [&str; 3] = ["$env:", "$secret:", "${"];

/// Fields that hold secrets, whatever the plugin.
const SECRETS: [&str; 11] = [
    "key",
    "secret",
    "secret_key",
    "private_key",
    "public_key",
    "password",
    "client_secret",
    "access_key",
    "api_key",
    "token",
    "key_id",
];

pub(super) fn of(object: &Object) -> Vec<String> {
    let mut found = Vec::new();
    if object.kind != Kind::PluginMetadata && WORDS.iter().any(|word| object.document.may_hold(word)) {
        let value = object.value();
        if let Some(plugins) = value.get("plugins") {
            walk(plugins, "plugins", &mut found);
        }
    }
    found
}

fn walk(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = format!("{path}.{name}");
                match member {
                    Value::String(text) if SECRETS.contains(&name.as_str()) => {
                        found.extend(doubt(text, &path))
                    }
                    member => walk(member, &path, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, path, found)),
        _ => {}
    }
}

fn doubt(text: &str, path: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let looks = lower.starts_with("$env:") || lower.starts_with("$secret:") || lower.starts_with("${");
    (looks && !is_secret_reference(text)).then(|| {
        format!(
            "{path} is taken as it stands, and whoever guesses it is let in: a reference begins with $secret:// or $env://"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_what_only_looks_like_one() {
        for text in
            ["$env:/KEY", "$ENV:KEY", "$secret:/vault/1/a", "$SECRET://vault/1/a", "${KEY}", "${{KEY}}"]
        {
            assert!(doubt(text, "plugins.key-auth.key").is_some(), "{text}");
        }
        for text in ["$env://KEY", "$ENV://KEY", "$secret://vault/1/a", "plain", "$2y$10$abc"] {
            assert_eq!(doubt(text, "plugins.key-auth.key"), None, "{text}");
        }
    }
}
