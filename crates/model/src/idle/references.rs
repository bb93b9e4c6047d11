//! Values that look like references to secrets but are not: the literal text then becomes the secret, which anyone can guess.

use serde_json::Value;

use crate::{
    Kind, Object, PluginCatalog, catalog::PluginFacts, schema::rules::is_secret_reference, schemas::REPLACED,
};

/// An object without any of these has no such value.
const WORDS: [&str; 4] = ["$", "{{", "%", "://"];

/// Names that users mistake for the scheme of a reference.
const SCHEMES: [&str; 8] = ["secret", "secrets", "env", "envs", "environment", "vault", "aws", "gcp"];

/// Fields that hold secrets, whatever the plugin.
const SECRETS: [&str; 14] = [
    "secret",
    "secret_key",
    "private_key",
    "public_key",
    "password",
    "client_secret",
    "client_key",
    "access_key",
    "api_key",
    "token",
    "key_id",
    "secret_access_key",
    "session_token",
    "redis_password",
];

/// The most messages about one object.
const MOST: usize = 8;
/// Longer texts are programs and templates.
const LONGEST: usize = 4096;

pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let is_metadata = object.kind == Kind::PluginMetadata;
    let mut walk = Walk { found: Vec::new(), secrets: Vec::new(), all: false, is_metadata };
    if !WORDS.iter().any(|word| object.document.may_hold(word)) {
        return walk.found;
    }
    let value = object.value();
    let is_consumer = matches!(object.kind, Kind::Consumer | Kind::Credential);
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        let facts = catalog.facts(name);
        walk.set(facts.as_ref(), is_consumer);
        walk.value(conf, &format!("plugins.{name}"), false);
        for nested in facts.iter().flat_map(|facts| (facts.nested)(conf)) {
            walk.set(catalog.facts(nested.name).as_ref(), false);
            walk.value(nested.conf, &format!("plugins.{name}.{}", nested.path), false);
        }
    }
    walk.set(None, false);
    match object.kind {
        Kind::Ssl => walk.secrets = vec!["key".to_owned(), "keys".to_owned()],
        Kind::PluginMetadata => walk.set(catalog.facts(&object.id).as_ref(), false),
        _ => {}
    }
    let own: &[&str] = match object.kind {
        Kind::Secret => {
            &["uri", "token", "access_key_id", "secret_access_key", "session_token", "auth_config"]
        }
        Kind::Ssl => &["cert", "key", "certs", "keys"],
        Kind::Upstream => &["tls"],
        Kind::Route | Kind::Service => &["upstream"],
        _ => &[],
    };
    for (name, field) in value.as_object().into_iter().flatten() {
        if object.kind == Kind::PluginMetadata && name != "id" || own.contains(&name.as_str()) {
            walk.value(field, name, walk.is_secret(name));
        }
    }
    if !matches!(object.kind, Kind::Ssl | Kind::Secret | Kind::PluginMetadata) {
        for (name, field) in value.as_object().into_iter().flatten() {
            // `super::conditions` warns of those in vars.
            if !["plugins", "vars", "desc", "name", "labels"].contains(&name.as_str()) {
                walk.unreplaced(field, name);
            }
        }
    }
    // Configurations inside a plugin's were visited twice.
    walk.found.sort();
    walk.found.dedup();
    walk.found.truncate(MOST);
    walk.found
}

struct Walk {
    found: Vec<String>,
    /// Names of the fields that hold secrets, besides [`SECRETS`].
    secrets: Vec<String>,
    /// Every text is a credential of a consumer.
    all: bool,
    /// References are not replaced there.
    is_metadata: bool,
}

impl Walk {
    fn set(&mut self, facts: Option<&PluginFacts<'_>>, is_consumer: bool) {
        let fields = facts.map(|facts| facts.encrypt_fields).unwrap_or_default();
        self.secrets = fields.iter().filter_map(|path| Some(path.rsplit('.').next()?.to_owned())).collect();
        self.all = is_consumer && facts.is_some_and(|facts| facts.consumer_schema.is_some());
    }

    fn is_secret(&self, name: &str) -> bool {
        self.all || SECRETS.contains(&name) || self.secrets.iter().any(|secret| secret == name)
    }

    fn value(&mut self, value: &Value, path: &str, is_secret: bool) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let is_secret = is_secret || self.is_secret(name);
                    self.value(member, &format!("{path}.{name}"), is_secret);
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(item, &format!("{path}[{index}]"), is_secret);
                }
            }
            Value::String(text) if text.len() <= LONGEST => {
                let why = match self.is_metadata && is_secret_reference(text) {
                    true => Some("references are not resolved in plugin metadata".to_owned()),
                    false => doubt(text, is_secret),
                };
                self.found.extend(why.map(|why| format!("{path} is used literally: {why}")));
            }
            _ => {}
        }
    }
}

impl Walk {
    /// References outside of plugins, where only some fields of upstreams may be one.
    fn unreplaced(&mut self, value: &Value, path: &str) {
        match value {
            Value::Object(members) => {
                for (name, member) in members.iter().filter(|(name, _)| !REPLACED.contains(&name.as_str())) {
                    self.unreplaced(member, &format!("{path}.{name}"));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.unreplaced(item, &format!("{path}[{index}]"));
                }
            }
            Value::String(text) if is_secret_reference(text) => {
                self.found.push(format!("{path} is used literally: references are not resolved there"));
            }
            _ => {}
        }
    }
}

/// Why a text may be meant as a reference. `is_secret`: it is in place of a secret.
fn doubt(text: &str, is_secret: bool) -> Option<String> {
    if is_secret_reference(text) {
        return None;
    }
    let end = "a reference begins with $secret:// or $env://, without anything before it";
    if is_scheme(text) {
        return Some(end.to_owned());
    }
    let is_inside = text.contains("$secret://") || text.to_ascii_lowercase().contains("$env://");
    if is_inside && !text.contains('\n') {
        return Some(format!("a reference is resolved only where it is the whole string; {end}"));
    }
    (is_secret && is_placeholder(text.trim()))
        .then(|| format!("anyone can guess it. Variables are not resolved here: {end}"))
}

/// `secret://`, `$vault://`, `${env:`, `"$secret://…"`, `$env//KEY`
fn is_scheme(text: &str) -> bool {
    let bare = text.trim_start_matches(|sign: char| sign.is_whitespace() || "$\"'`{<(%@".contains(sign));
    let marked = text.trim_start().starts_with('$');
    let end = bare.find(|sign| sign == ':' || (marked && sign == '/'));
    let Some((scheme, rest)) = end.and_then(|end| bare.split_at_checked(end)) else { return false };
    let scheme = scheme.trim_end().to_ascii_lowercase();
    SCHEMES.contains(&scheme.as_str()) && (marked || rest.starts_with("://"))
}

/// `{{X}}`, `${X}`, `${{X}}`, `$(X)`, `$HOME`, `%HOME%`
fn is_placeholder(text: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|sign| sign == b'_' || sign.is_ascii_uppercase() || sign.is_ascii_digit())
    };
    let between = |start: &str, end: &str| {
        text.len() > start.len() + end.len() && text.starts_with(start) && text.ends_with(end)
    };
    between("{{", "}}")
        || between("${", "}")
        || between("$(", ")")
        || text.strip_prefix('$').is_some_and(is_name)
        || text.strip_prefix('%').and_then(|text| text.strip_suffix('%')).is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_and_what_only_looks_like_one() {
        for text in [
            "$env:/KEY",
            "$ENV:KEY",
            "$ENV//KEY",
            "$secret/vault/1/a",
            "$secret:/vault/1/a",
            "$SECRET://vault/1/a",
            "$Secret://vault/1/a",
            "secret://vault/1/a",
            "$secrets://vault/1/a",
            "$vault://1/a",
            "vault://1/a",
            "env://KEY",
            "${env:KEY}",
            " $env://KEY",
            "\"$env://KEY\"",
            "Bearer $env://KEY",
        ] {
            assert!(doubt(text, false).is_some(), "{text}");
        }
        for text in ["${KEY}", "$(KEY)", "${{KEY}}", "{{KEY}}", "$HOME", "%HOME%"] {
            assert!(doubt(text, true).is_some() && doubt(text, false).is_none(), "{text}");
        }
        for text in [
            "$env://KEY",
            "$ENV://KEY",
            "$secret://vault/1/a",
            "plain",
            "$2y$10$abc",
            "$remote_addr",
            "$http_x_key",
            "https://env.example/",
            "env: production",
            "secret:santa",
            "secret/vault",
            "$",
            "{{}}",
        ] {
            assert_eq!(doubt(text, true), None, "{text}");
        }
    }
}
