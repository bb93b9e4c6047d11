//! A mapping whose reader keeps count: a key that no converter reads ends in the report instead of being lost.

use std::cell::RefCell;

use serde_json::Value;
use tidegate_config::yaml::{Content, Entry, Node};

use crate::Report;

pub(crate) struct Fields<'a> {
    node: Option<&'a Node>,
    line: usize,
    subject: String,
    read: RefCell<Vec<String>>,
    /// Keys with a value of another kind than was asked for: such a value must not pass for the default.
    wrong: RefCell<Vec<String>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(node: &'a Node, subject: impl Into<String>) -> Self {
        Fields::maybe(Some(node), node.line, subject)
    }

    /// A mapping that may be missing: then everything in it is, and the line is the given one.
    pub(crate) fn maybe(node: Option<&'a Node>, line: usize, subject: impl Into<String>) -> Self {
        Fields {
            node,
            line: node.map_or(line, |node| node.line),
            subject: subject.into(),
            read: RefCell::default(),
            wrong: RefCell::default(),
        }
    }

    pub(crate) fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.read.borrow_mut().push(key.to_owned());
        self.node?.get(key).filter(|node| !node.is_null())
    }

    /// Text as the file has it: `1` is `"1"`.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(text)
    }

    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.get(key).and_then(number)
    }

    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        let number = self.number(key)?;
        // Truncation is what is wanted: times in whole units.
        #[allow(clippy::cast_possible_truncation)]
        number.is_finite().then_some(number as i64)
    }

    /// What is neither true nor false is a fault, which [`Fields::finish`] reports.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match &self.get(key)?.content {
            Content::Scalar { value: Value::Bool(flag), .. } => Some(*flag),
            _ => {
                self.wrong.borrow_mut().push(key.to_owned());
                None
            }
        }
    }

    /// The texts of a list; a single text is a list of one.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.get(key).map(texts).unwrap_or_default()
    }

    pub(crate) fn list(&self, key: &str) -> &'a [Node] {
        self.get(key).map(list).unwrap_or_default()
    }

    pub(crate) fn inner(&self, key: &str) -> Fields<'a> {
        Fields::maybe(self.get(key), self.line, format!("{}: {key}", self.subject))
    }

    /// Keys that change nothing in how requests are served.
    pub(crate) fn skip(&self, keys: &[&str]) {
        self.read.borrow_mut().extend(keys.iter().map(|key| (*key).to_owned()));
    }

    /// Keys without a counterpart that say what holds anyway. Another value is reported as left out.
    pub(crate) fn skip_defaults(&self, defaults: &[(&str, &str)]) {
        for (key, default) in defaults {
            let node = self.node.and_then(|node| node.get(key));
            if node.is_some_and(|node| texts(node).join(",") == *default) {
                self.skip(&[key]);
            }
        }
    }

    /// Reports the keys that no converter asked for, unless they are empty, and those with a wrong value.
    pub(crate) fn finish(&self, report: &mut Report) {
        for key in self.wrong.borrow().iter() {
            let line = self.node.and_then(|node| node.get(key)).map_or(self.line, |node| node.line);
            report.unsupported(line, &self.subject, &format!("`{key}` is neither true nor false"));
        }
        let read = self.read.borrow();
        for entry in self.node.map(entries).unwrap_or_default() {
            if !is_empty(&entry.value) && !read.contains(&entry.key) {
                report.unsupported(entry.line, &self.subject, &format!("`{}` is left out", entry.key));
            }
        }
    }
}

/// Whether it says nothing: nor does a mapping of such.
pub(crate) fn is_empty(node: &Node) -> bool {
    match &node.content {
        Content::Scalar { value, .. } => *value == Value::Null || *value == Value::Bool(false),
        Content::List(items) => items.is_empty(),
        Content::Map(entries) => entries.iter().all(|entry| is_empty(&entry.value)),
    }
}

pub(crate) fn text(node: &Node) -> Option<String> {
    match &node.content {
        Content::Scalar { value: Value::String(text), .. } => Some(text.clone()),
        Content::Scalar { value: Value::Null, .. } => None,
        Content::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}

pub(crate) fn number(node: &Node) -> Option<f64> {
    match &node.content {
        Content::Scalar { value, text } => value.as_f64().or_else(|| text.parse().ok()),
        _ => None,
    }
}

pub(crate) fn list(node: &Node) -> &[Node] {
    match &node.content {
        Content::List(items) => items,
        _ => &[],
    }
}

pub(crate) fn texts(node: &Node) -> Vec<String> {
    match &node.content {
        Content::List(items) => items.iter().filter_map(text).collect(),
        _ => text(node).into_iter().collect(),
    }
}

pub(crate) fn entries(node: &Node) -> &[Entry] {
    match &node.content {
        Content::Map(entries) => entries,
        _ => &[],
    }
}
