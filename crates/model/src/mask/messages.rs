//! Messages about objects, for logs and for readers who may not see secrets. The reason why an object is refused often
//! repeats the text that does not fit, which may be a secret in the wrong field.

use std::borrow::Cow;

use serde_json::Value;

use super::fields::MASK;
use crate::{
    Kind, PluginCatalog, resources::Route, schema::rules::is_secret_reference, schemas, url::without_user,
};

/// Shorter texts are words of messages more often than secrets.
const SHORTEST: usize = 4;
/// Words of messages about types, and of their remedies. A mask in their place would say what the text is.
const WORDS: [&str; 11] = [
    "true", "false", "null", "string", "number", "integer", "boolean", "array", "object", "table", "userdata",
];
/// How much of a longer text must match where a message cuts it.
const RECOGNISED: usize = 16;

/// Fields of an object itself that name it, or others, besides [`Route::CONDITIONS`].
const NAMES: [&str; 9] = [
    "username",
    "script",
    "sni",
    "snis",
    "service_id",
    "upstream_id",
    "plugin_config_id",
    "group_id",
    "service_name",
];

/// Fields whose values are patterns, conditions and names of others, and parts of the names of such fields. Their faults cannot
/// be described without them.
const CONDITIONS: [&str; 16] = [
    "cache_key",
    "types",
    "source",
    "allow_origins",
    "cache_bypass",
    "no_cache",
    "vars",
    "filter",
    "case",
    "match",
    "include_req_body_expr",
    "include_resp_body_expr",
    "methods",
    "anonymous_consumer",
    "allowed_by_methods",
    "allow_origins_by_metadata",
];
/// Fields of loggers in which `$name` is a variable; other texts in them may be secrets.
const FORMATS: [&str; 2] = ["log_format", "log_format_extra"];
/// Fields of plugins that name objects.
const REFERENCES: [&str; 4] = ["upstream_id", "service_id", "proto_id", "group_id"];
const PATTERNS: [&str; 4] = ["regex", "pattern", "_rules", "list"];

/// Parts of the names of plugins in which `key` names what is counted or hashed.
const KEYS: [&str; 3] = ["limit-", "traffic-split", "workflow"];

/// Removes texts of an object from `message` that may be secrets. Addresses, paths, words of schemas and the names of
/// the object stay.
pub fn mask_message(
    kind: Kind,
    id: &str,
    value: &Value,
    catalog: &dyn PluginCatalog,
    message: &str,
) -> String {
    let mut texts = Texts { message, found: Vec::new(), keys_are_names: false };
    for (name, field) in value.as_object().into_iter().flatten() {
        match (name.as_str(), field) {
            ("plugins", Value::Object(plugins)) => {
                for (name, conf) in plugins {
                    let facts = catalog.facts(name);
                    let schemas = facts.iter().flat_map(|facts| [Some(facts.schema), facts.consumer_schema]);
                    let schemas: Vec<&Value> = schemas.flatten().collect();
                    texts.keys_are_names = KEYS.iter().any(|part| name.contains(part));
                    texts.collect(conf, &|text| schemas.iter().any(|schema| has_word(schema, text)));
                }
            }
            ("id", _) => {}
            (name, _) if is_open(name) && !matches!(kind, Kind::Secret | Kind::PluginMetadata) => {}
            (name, field) => {
                let schema = schemas::name_of_kind(kind).and_then(schemas::document);
                let metadata = (kind == Kind::PluginMetadata)
                    .then(|| catalog.facts(id).and_then(|facts| facts.metadata_schema))
                    .flatten();
                let schemas = [schema, metadata];
                texts.keys_are_names = kind == Kind::Upstream || name == "upstream";
                let field = if texts.keys_are_names && is_name(name) { &Value::Null } else { field };
                texts.collect(&without_variables(name, field), &|text| {
                    schemas.iter().flatten().any(|schema| has_word(schema, text))
                });
            }
        }
    }
    texts.replaced()
}

/// Of an upstream or a limit: how nodes are chosen, and by what.
fn is_name(field: &str) -> bool {
    matches!(field, "key" | "type")
}

/// A field as it is, and the format of a log without the variables in it.
fn without_variables<'v>(name: &str, field: &'v Value) -> Cow<'v, Value> {
    match FORMATS.contains(&name) {
        true => Cow::Owned(constants(field)),
        false => Cow::Borrowed(field),
    }
}

fn constants(format: &Value) -> Value {
    let is_name = |name: &str| name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_.".contains(sign));
    match format {
        Value::String(text) if text.strip_prefix('$').is_some_and(is_name) => Value::Null,
        Value::Array(items) => items.iter().map(constants).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, field)| (name.clone(), constants(field))).collect()
        }
        other => other.clone(),
    }
}

fn is_open(field: &str) -> bool {
    Route::CONDITIONS.contains(&field) || NAMES.contains(&field)
}

/// Removes `secrets` from `message`.
pub fn mask_texts<'a>(secrets: impl Iterator<Item = &'a str>, message: &str) -> String {
    let mut texts = Texts { message, found: Vec::new(), keys_are_names: false };
    secrets.for_each(|secret| texts.push(secret, || Some(MASK.to_owned())));
    texts.replaced()
}

struct Texts<'a> {
    message: &'a str,
    /// A text of the object that is in the message, as written there, and what is shown instead.
    found: Vec<(String, String)>,
    /// What is called `key` here is the name of a variable.
    keys_are_names: bool,
}

impl Texts<'_> {
    /// `shown` is asked only of a text that is in the message; `None`: it may be there.
    fn push(&mut self, text: &str, shown: impl FnOnce() -> Option<String>) {
        let quoted = Value::from(text).to_string();
        let debugged = format!("{text:?}");
        let forms = [text.trim(), quoted.trim_matches('"'), debugged.trim_matches('"')];
        let found = |form: &&str| form.len() >= SHORTEST && self.message.contains(start(form));
        let found: Vec<&str> = forms.into_iter().filter(found).collect();
        if !found.is_empty()
            && let Some(shown) = shown()
        {
            self.found.extend(found.into_iter().map(|form| (form.to_owned(), shown.clone())));
        }
    }

    fn collect(&mut self, value: &Value, is_word: &dyn Fn(&str) -> bool) {
        match value {
            Value::String(text) => self.push(text, || shown(text).filter(|_| !is_word(text))),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, is_word)),
            Value::Object(fields) => {
                for (name, field) in fields {
                    // `user:password@host` as a node.
                    let shown = without_user(name);
                    if shown != *name {
                        self.push(name, || Some(shown));
                    }
                    let is_pattern = PATTERNS.iter().any(|part| name.contains(part));
                    let is_open = CONDITIONS.contains(&name.as_str())
                        || REFERENCES.contains(&name.as_str())
                        || self.keys_are_names && is_name(name);
                    if !is_pattern && !is_open {
                        self.collect(&without_variables(name, field), is_word);
                    }
                }
            }
            _ => {}
        }
    }

    fn replaced(mut self) -> String {
        // A text that is part of another one must not keep that one from being found.
        self.found.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        self.found
            .iter()
            .fold(self.message.to_owned(), |message, (text, shown)| replace(&message, text, shown))
    }
}

/// The part by which a text is recognised in a message, where long ones are cut.
fn start(text: &str) -> &str {
    text.char_indices().nth(RECOGNISED).and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Replaces whole words only: `port` does not match in `support`, nor `redis` in `redis_host`.
fn replace(message: &str, text: &str, shown: &str) -> String {
    let start = start(text);
    let is_word = |sign: Option<char>| sign.is_some_and(|sign| sign.is_alphanumeric() || "_-".contains(sign));
    let (mut out, mut rest) = (String::with_capacity(message.len()), message);
    while let Some(at) = rest.find(start) {
        let (before, found) = rest.split_at(at);
        let same = found.chars().zip(text.chars()).take_while(|(found, text)| found == text);
        let length: usize = same.map(|(sign, _)| sign.len_utf8()).sum();
        let (found, after) = found.split_at(length);
        let inside = is_word(before.chars().next_back().or(out.chars().next_back()))
            && is_word(found.chars().next())
            || is_word(found.chars().next_back()) && is_word(after.chars().next()) && length == text.len();
        out.push_str(before);
        out.push_str(if inside { found } else { shown });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The form in which a possible secret is shown. `None`: it is not a secret.
fn shown(text: &str) -> Option<String> {
    if text.len() < SHORTEST || WORDS.contains(&text) || is_secret_reference(text) || is_place(text) {
        return None;
    }
    // Tokens occur in paths and arguments, too.
    let origin = text.split_once("://").and_then(|(scheme, rest)| {
        let (host, path) = rest.split_once(['/', '?', '#', ' ']).unwrap_or((rest, ""));
        let known = ["http", "https", "redis", "ldap", "ldaps", "tcp", "udp"].contains(&scheme);
        let path = if path.is_empty() { "" } else { "/***" };
        (known && is_host(host)).then(|| format!("{scheme}://{host}{path}"))
    });
    let shown = origin.unwrap_or_else(|| MASK.to_owned());
    (shown != text).then_some(shown)
}

/// Addresses, networks, hosts and paths.
fn is_place(text: &str) -> bool {
    let (host, path) = text.split_once('/').unwrap_or((text, ""));
    let is_path =
        |path: &str| path.chars().all(|sign| sign.is_ascii_alphanumeric() || "/._-*:".contains(sign));
    is_path(path) && (host.is_empty() || is_host(host) && (path.is_empty() || host.contains(['.', ':'])))
}

/// `a.example`, `10.0.0.1:80`, `[::1]`, `localhost:80`; not every word.
fn is_host(text: &str) -> bool {
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, port),
        _ => (text, ""),
    };
    let is_port = port.len() <= 5 && port.bytes().all(|digit| digit.is_ascii_digit());
    let is_name = name.split('.').count() > 1
        && name.split('.').all(|part| {
            part.bytes().all(|sign| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == b'-')
        });
    let address = name.trim_start_matches('[').trim_end_matches(']');
    is_port && (is_name || name == "localhost" || address.parse::<std::net::IpAddr>().is_ok())
}

/// Whether a schema has this text as a name or a value: it is not a secret then.
fn has_word(schema: &Value, text: &str) -> bool {
    match schema {
        Value::String(word) => word == text,
        Value::Array(items) => items.iter().any(|item| has_word(item, text)),
        Value::Object(rules) => rules.iter().any(|(name, rule)| name == text || has_word(rule, text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_that_may_be_secrets() {
        for (text, expected) in [
            ("open-sesame", Some("***")),
            ("S3cret.Pa55", Some("***")),
            ("user:pass-word", Some("***")),
            ("http://h.example:1/services/T0/B0", Some("http://h.example:1/***")),
            ("http://u:p@h.example/", Some("***")),
            ("http://10.0.0.1:99999", None),
            ("ey.J.hb/x y", Some("***")),
            ("/auth", None),
            ("127.0.0.1:21150/auth", None),
            ("10.0.0.0/33", None),
            ("a.example", None),
            ("$secret://vault/1/a", None),
            ("$env://KEY", None),
            ("abc", None),
            ("true", None),
        ] {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn only_whole_texts_are_replaced() {
        assert_eq!(replace("support of port \"port\"", "port", "***"), "support of *** \"***\"");
        let message = "\"redis\" is not for redis_host of limit-redis";
        assert_eq!(replace(message, "redis", "***"), "\"***\" is not for redis_host of limit-redis");
        let long = "0123456789abcdefghij";
        assert_eq!(replace("got 0123456789abcdefg...", long, "***"), "got ***...");
        assert_eq!(replace("got 0123456789", long, "***"), "got 0123456789");
        let value = json!({"a": "ab\"cd\n"});
        let mut texts = Texts { keys_are_names: false, message: "with \"ab\\\"cd\\n\"", found: Vec::new() };
        texts.collect(&value, &|_| false);
        assert_eq!(texts.replaced(), "with \"***\"");
    }
}
