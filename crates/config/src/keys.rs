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
mod nginx;
mod plugins;

use serde_json::{Map, Value};

use self::forms::Form;

/// One key. `[]` in a path stands for each item of a list.
pub struct Key {
    pub path: &'static str,
    pub takes: Takes,
    /// JSON.
    pub value: Preset,
    pub about: &'static str,
    pub fate: Fate,
    /// Messages quote nothing of what stands here or below.
    pub secret: bool,
}

/// What becomes of what the user writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It does what it says.
    Served,
    /// It changes nothing; why.
    NoEffect(&'static str),
    /// Only this value (JSON) is what happens.
    Only(&'static str, Otherwise),
    /// All values but this one (JSON) are served.
    Not(&'static str, Otherwise),
    /// The start is refused; why, and what to do.
    Refused(&'static str),
}

/// What becomes of a value that is not served; why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It is warned of.
    Ignored(&'static str),
    Refused(&'static str),
    /// This value (JSON) is refused for the first reason, any other is warned of for the second.
    RefusedIf(&'static str, &'static str, &'static str),
}

impl Key {
    const fn no_effect(mut self, why: &'static str) -> Key {
        self.fate = Fate::NoEffect(why);
        self
    }

    const fn only(mut self, value: &'static str, otherwise: Otherwise) -> Key {
        self.fate = Fate::Only(value, otherwise);
        self
    }

    const fn not(mut self, value: &'static str, otherwise: Otherwise) -> Key {
        self.fate = Fate::Not(value, otherwise);
        self
    }

    const fn secret(mut self) -> Key {
        self.secret = true;
        self
    }

    const fn refused(mut self, why: &'static str) -> Key {
        self.fate = Fate::Refused(why);
        self
    }

    /// Whether a test has to see the key's effect: tables have none of their own.
    pub fn needs_witness(&self) -> bool {
        let served = matches!(self.fate, Fate::Served | Fate::Not(..));
        served && !matches!(self.takes, Takes::Table | Takes::List(Takes::Table))
    }

    /// The value that the key has when nobody sets it; `None`: unset.
    pub fn default(&self) -> Option<Value> {
        match self.value {
            Preset::Default(json) => serde_json::from_str(json).ok(),
            Preset::Example(_) => None,
        }
    }
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
    /// A text of a certain form.
    Form(&'static Form),
    /// A number above 0, perhaps with a fraction.
    Number,
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
    /// Text for nginx.conf.
    Snippet,
}

const NO_STREAM: &str = "TCP and UDP are not proxied";
const NO_STREAM_PORTS: &str = "TCP and UDP are not proxied; nothing listens on these ports, HTTP is served";
const ONLY_STREAM: &str =
    "TCP and UDP are not proxied, so nothing would be served; take the key away to serve HTTP";

pub const PORT: Takes = Takes::Integer(1, 65_535);
pub const COUNT: Takes = Takes::Integer(0, i64::MAX);

const fn key(path: &'static str, takes: Takes, default: &'static str, about: &'static str) -> Key {
    Key { path, takes, value: Preset::Default(default), about, fate: Fate::Served, secret: false }
}

const fn unset(path: &'static str, takes: Takes, example: &'static str, about: &'static str) -> Key {
    Key { path, takes, value: Preset::Example(example), about, fate: Fate::Served, secret: false }
}

pub fn all() -> impl Iterator<Item = &'static Key> {
    [deployment::KEYS, apisix::KEYS, nginx::KEYS, plugins::KEYS, discovery::KEYS, attributes::KEYS]
        .into_iter()
        .flatten()
}

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
