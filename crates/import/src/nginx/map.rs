//! A `map`, `geo` or `split_clients` as it was read.

use std::cell::Cell;

use super::{
    made::{Made, Stop},
    networks::Networks,
    patterns,
};

#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub name: String,
    pub(super) source: Source,
    /// In the order in which they count: texts before expressions.
    pub(super) cases: Vec<(Key, String)>,
    pub(super) default: String,
    pub(super) networks: Networks,
    /// How many networks stand in conditions by now.
    pub(super) written: Cell<usize>,
    /// Why it cannot be used.
    pub(super) fault: Option<String>,
}

#[derive(Clone, Debug)]
pub(super) enum Source {
    Text(String),
    /// `geo`: the client's address, or that of a variable.
    Address(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Key {
    Text(String),
    /// Of a `map` with `hostnames`, or of one without.
    Regex(String),
}

impl Key {
    pub(super) fn fits(&self, text: &str) -> Made<bool> {
        match self {
            Key::Text(own) => Ok(own.eq_ignore_ascii_case(text)),
            Key::Regex(pattern) => patterns::compile(pattern)
                .map(|regex| regex.is_match(text))
                .ok_or_else(|| Stop::closed(format!("what `{pattern}` matches is unknown"))),
        }
    }
}
