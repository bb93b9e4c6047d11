//! What becomes of the values that the table of keys does not serve: refused, or warned of in few lines.

use serde_json::Value;

use crate::{
    keys::key::{Fate, Key, Otherwise, Takes},
    yaml::node::{Fault, Node},
};

/// A value that is not served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unserved {
    line: usize,
    column: usize,
    /// The key, with its value where another one would be served.
    shown: String,
    why: &'static str,
    is_default: bool,
}

/// What is to be said of a value.
pub(super) enum ValueFate {
    Served,
    Idle(Unserved),
    Refused(Unserved),
}

pub(super) fn value_fate(key: &Key, path: &str, node: &Node) -> ValueFate {
    let value = node.clone().into_value();
    let is = |json: &str| serde_json::from_str::<Value>(json).is_ok_and(|other| other == value);
    let with_value = || match &value {
        Value::Array(_) | Value::Object(_) => path.to_owned(),
        Value::String(text) => format!("{path}: {text}"),
        other => format!("{path}: {other}"),
    };
    let unserved = |shown: String, why| {
        let is_default = key.default().is_some_and(|default| default == value);
        Unserved { line: node.line, column: node.column, shown, why, is_default }
    };
    let otherwise = |otherwise| match otherwise {
        Otherwise::Ignored(why) => ValueFate::Idle(unserved(with_value(), why)),
        Otherwise::Refused(why) => ValueFate::Refused(unserved(with_value(), why)),
        Otherwise::RefusedIf(json, why, _) if is(json) => ValueFate::Refused(unserved(with_value(), why)),
        Otherwise::RefusedIf(_, _, why) => ValueFate::Idle(unserved(with_value(), why)),
    };
    match key.fate {
        Fate::NoEffect(why) if !is_empty(key.takes, &value) => {
            ValueFate::Idle(unserved(path.to_owned(), why))
        }
        Fate::Refused(why) if !is_empty(key.takes, &value) => {
            ValueFate::Refused(unserved(path.to_owned(), why))
        }
        Fate::Only(only, other) if !value.is_null() && !is(only) => otherwise(other),
        Fate::Not(not, other) if is(not) => otherwise(other),
        _ => ValueFate::Served,
    }
}

impl Unserved {
    /// What it says when it keeps the gateway from starting.
    pub(crate) fn refusal(&self) -> Fault {
        let message = format!("{} is refused: {}", self.shown, self.why);
        Fault { line: self.line, column: self.column, message }
    }
}

/// A value that asks for nothing. In text for nginx that is a comment: APISIX's own file has such.
fn is_empty(takes: Takes, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) if matches!(takes, Takes::Snippet) => {
            text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        }
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// One line for each reason, and one for all keys that only repeat their defaults.
pub(super) fn warnings(idle: &[Unserved]) -> Vec<Fault> {
    let mut groups: Vec<(bool, &'static str, Vec<&Unserved>)> = Vec::new();
    for idle in idle {
        let same = |(is_default, why, _): &(bool, &'static str, Vec<&Unserved>)| {
            *is_default == idle.is_default && (idle.is_default || *why == idle.why)
        };
        match groups.iter_mut().find(|group| same(group)) {
            Some((_, _, members)) => members.push(idle),
            None => groups.push((idle.is_default, idle.why, vec![idle])),
        }
    }
    groups.iter().filter_map(|(is_default, why, members)| line(*is_default, why, members)).collect()
}

fn line(is_default: bool, why: &str, members: &[&Unserved]) -> Option<Fault> {
    let (first, others) = members.split_first()?;
    let mut shown = first.shown.clone();
    for other in others {
        shown.push_str(&format!(", {} (line {})", other.shown, other.line));
    }
    let message = match (others.is_empty(), is_default) {
        (true, _) => format!("{shown} has no effect: {why}"),
        (false, false) => format!("no effect: {shown}: {why}"),
        (false, true) => format!("no effect, at their defaults: {shown}; docs/config.md says why"),
    };
    Some(Fault { line: first.line, column: first.column, message })
}
