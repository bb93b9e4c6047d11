//! Every key of config.yaml, declared once: its path, what it takes, its default, what it is for.
//!
//! The checks, the defaults and the file conf/config.yaml all come from this table. The keys are those of APISIX
//! 3.18; keys that only make sense inside nginx are known, so that they load without complaint, and say so.

mod apisix;
mod deployment;
mod nginx;
mod plugins;

use serde_json::{Map, Value};

pub use plugins::{PLUGINS, STREAM_PLUGINS};

/// One key. `[]` in a path stands for each item of a list.
pub struct Key {
    pub path: &'static str,
    pub takes: Takes,
    /// JSON.
    pub value: Preset,
    pub about: &'static str,
}

#[derive(Clone, Copy)]
pub enum Preset {
    Default(&'static str),
    /// Not set unless the user does; conf/config.yaml shows this.
    Example(&'static str),
}

/// What a key takes.
#[derive(Clone, Copy)]
pub enum Takes {
    Bool,
    /// nginx's `on` and `off`, also as booleans.
    Switch,
    /// A whole number within these bounds.
    Integer(i64, i64),
    Text,
    Word(&'static [&'static str]),
    /// `60s`, `1m`, `500ms`; a bare number is seconds.
    Duration,
    /// `16k`, `1m`, `1g`; a bare number is bytes.
    Size,
    /// An IP address or a network, or nginx's `unix:`.
    Network,
    /// Further keys of this table.
    Table,
    /// A mapping that is passed on as it is.
    FreeTable,
    Free,
    List(&'static Takes),
    AnyOf(&'static [Takes]),
    /// nginx text that nobody can honour without nginx.
    Snippet,
}

pub const PORT: Takes = Takes::Integer(1, 65_535);
pub const COUNT: Takes = Takes::Integer(0, i64::MAX);

pub const fn key(path: &'static str, takes: Takes, default: &'static str, about: &'static str) -> Key {
    Key { path, takes, value: Preset::Default(default), about }
}

pub const fn unset(path: &'static str, takes: Takes, example: &'static str, about: &'static str) -> Key {
    Key { path, takes, value: Preset::Example(example), about }
}

pub fn all() -> impl Iterator<Item = &'static Key> {
    [deployment::KEYS, apisix::KEYS, nginx::KEYS, plugins::KEYS].into_iter().flatten()
}

pub fn find(path: &str) -> Option<&'static Key> {
    all().find(|key| key.path == path)
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

/// config.yaml when the user writes nothing.
pub fn defaults() -> Value {
    let mut root = Value::Object(Map::new());
    for key in all() {
        if let Preset::Default(json) = key.value {
            let value = match key.path {
                "plugins" => Value::from(PLUGINS.to_vec()),
                "stream_plugins" => Value::from(STREAM_PLUGINS.to_vec()),
                _ => serde_json::from_str(json).unwrap_or(Value::Null),
            };
            set(&mut root, key.path, value);
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
            if !matches!(key.takes, Takes::Table) {
                let mut node = crate::yaml::parse(&serde_json::to_string(&value).unwrap()).unwrap().root;
                let mut found = crate::check::Findings::default();
                crate::check::value(&mut node, key.path, key.takes, &mut found);
                assert!(found.errors.is_empty(), "{}: {:?}", key.path, found.errors);
            }
        }
        assert_eq!(defaults()["nginx_config"]["http"]["upstream"]["keepalive"], 320);
        assert!(children("apisix.ssl").contains(&"listen"));
    }
}
