//! What is declared of one key.

use serde_json::Value;

use super::forms::Form;

/// One key. `[]` in a path stands for each item of a list.
pub struct Key {
    /// Names joined by dots; `[]` after the name of a list.
    pub path: &'static str,
    /// The values that are allowed.
    pub takes: Takes,
    /// JSON.
    pub value: Preset,
    /// What it does, for conf/config.yaml and docs/config.md.
    pub about: &'static str,
    /// What becomes of it.
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
    /// The start fails; the text says why.
    Refused(&'static str),
    /// This value (JSON) is refused for the first reason, any other is warned of for the second.
    RefusedIf(&'static str, &'static str, &'static str),
}

impl Key {
    pub(super) const fn no_effect(mut self, why: &'static str) -> Key {
        self.fate = Fate::NoEffect(why);
        self
    }

    pub(super) const fn only(mut self, value: &'static str, otherwise: Otherwise) -> Key {
        self.fate = Fate::Only(value, otherwise);
        self
    }

    pub(super) const fn not(mut self, value: &'static str, otherwise: Otherwise) -> Key {
        self.fate = Fate::Not(value, otherwise);
        self
    }

    pub(super) const fn secret(mut self) -> Key {
        self.secret = true;
        self
    }

    pub(super) const fn refused(mut self, why: &'static str) -> Key {
        self.fate = Fate::Refused(why);
        self
    }

    /// Whether a test has to see the key's effect: tables have none of their own.
    pub fn needs_witness(&self) -> bool {
        let served = matches!(self.fate, Fate::Served | Fate::Not(..));
        served && !matches!(self.takes, Takes::Table | Takes::List(Takes::Table))
    }

    /// The value of the key where it is not set; `None`: unset.
    pub fn default(&self) -> Option<Value> {
        match self.value {
            Preset::Default(json) => serde_json::from_str(json).ok(),
            Preset::Example(_) => None,
        }
    }
}

/// What holds where config.yaml does not set the key.
#[derive(Clone, Copy)]
pub enum Preset {
    /// This value, as JSON.
    Default(&'static str),
    /// Not set unless the user does; conf/config.yaml shows this.
    Example(&'static str),
}

/// What a key takes.
#[derive(Clone, Copy)]
pub enum Takes {
    /// true or false.
    Bool,
    /// nginx's `on` and `off`, also as booleans.
    Switch,
    /// A whole number within these bounds.
    Integer(i64, i64),
    /// Any text.
    Text,
    /// A text of a certain form.
    Form(&'static Form),
    /// A number above 0, perhaps with a fraction.
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    /// `60s`, `1m`, `500ms`; a bare number is seconds.
    Duration,
    /// `16k`, `1m`, `1g`; a bare number is bytes.
    Size,
    /// An IP address or a network, or nginx's `unix:`.
    Network,
    /// Further keys of this table.
    Table,
    /// A mapping that is passed on unchanged.
    FreeTable,
    /// Anything: the reader checks it.
    Free,
    /// A list of these values.
    List(&'static Takes),
    /// A value of one of these kinds.
    AnyOf(&'static [Takes]),
    /// Text for nginx.conf.
    Snippet,
}

pub(super) const ONLY_STREAM: &str = "write apisix.proxy_mode: stream";

/// A port of TCP or UDP.
pub const PORT: Takes = Takes::Integer(1, 65_535);

/// A whole number that is not negative.
pub const COUNT: Takes = Takes::Integer(0, i64::MAX);

pub(super) const fn key(path: &'static str, takes: Takes, default: &'static str, about: &'static str) -> Key {
    Key { path, takes, value: Preset::Default(default), about, fate: Fate::Served, secret: false }
}

pub(super) const fn unset(
    path: &'static str,
    takes: Takes,
    example: &'static str,
    about: &'static str,
) -> Key {
    Key { path, takes, value: Preset::Example(example), about, fate: Fate::Served, secret: false }
}
