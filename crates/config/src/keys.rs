//! Every key of config.yaml, declared once: its path, what it takes, its default, what it is for, and its fate.
//!
//! The checks, the defaults, the file conf/config.yaml and docs/config.md all come from this table. The keys are those
//! of APISIX 3.18 and a few of our own. A key that is [`Fate::Served`] has a test that sees its effect from outside
//! (`tests/e2e/config/config_keys/witnesses.rs`); a value that is not served is refused, or warned of with file and line.

mod apisix;
mod attributes;
mod deployment;
mod discovery;
pub mod forms;
pub(crate) mod key;
mod nginx;
mod plugins;

use serde_json::{Map, Value};

pub use self::key::{COUNT, Fate, Key, Otherwise, PORT, Preset, Takes};

/// All keys, in the order of conf/config.yaml.
pub fn all() -> impl Iterator<Item = &'static Key> {
    [deployment::KEYS, apisix::KEYS, nginx::KEYS, plugins::KEYS, discovery::KEYS, attributes::KEYS]
        .into_iter()
        .flatten()
}

/// By path, such as `apisix.ssl.enable`.
pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
}

/// Whether messages must not quote what stands at a path: `deployment.admin.admin_key[].role`.
pub fn is_secret(path: &str) -> bool {
    let at_or_below = |key: &Key| {
        path.strip_prefix(key.path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    all().any(|key| key.secret && at_or_below(key))
}

/// The names that may stand directly below `path` (empty: at the top).
pub fn children(path: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for key in all() {
        let rest = if path.is_empty() {
            Some(key.path)
        } else {
            key.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'))
        };
        let name = rest.and_then(|rest| rest.split(['.', '[']).next()).filter(|name| !name.is_empty());
        if let Some(name) = name
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// config.yaml when the user writes nothing. Which plugins are on then is in [`crate::Source::plugins`].
pub fn defaults() -> Value {
    let mut root = Value::Object(Map::new());
    for key in all() {
        if let Preset::Default(json) = key.value {
            set(&mut root, key.path, serde_json::from_str(json).unwrap_or(Value::Null));
        }
    }
    root
}

/// Puts a value at a dotted path, making the tables above it.
pub fn set(root: &mut Value, path: &str, value: Value) {
    let mut place = root;
    for name in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Value::Object(map) = place else { return };
        place = map.entry(name).or_insert(Value::Null);
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_is_sound() {
        let mut paths = HashSet::new();
        for key in all() {
            assert!(paths.insert(key.path), "{} is declared twice", key.path);
            assert!(!key.about.is_empty(), "{} says nothing", key.path);
            let (Preset::Default(json) | Preset::Example(json)) = key.value;
            let value: Value =
                serde_json::from_str(json).unwrap_or_else(|error| panic!("{}: {error}", key.path));
            assert!(
                !matches!((key.takes, key.fate), (Takes::Free, Fate::Served)),
                "{} takes everything, so that nobody tells of a wrong value",
                key.path
            );
            if !matches!(key.takes, Takes::Table) {
                let mut node = crate::yaml::parse(&serde_json::to_string(&value).unwrap()).unwrap();
                let mut found = crate::check::Findings::default();
                crate::check::value(&mut node, key.path, key.takes, &mut found);
                assert!(found.errors.is_empty(), "{}: {:?}", key.path, found.errors);
            }
        }
        assert_eq!(defaults()["nginx_config"]["http"]["upstream"]["keepalive"], 320);
        assert!(children("apisix.ssl").contains(&"listen"));
    }
}
