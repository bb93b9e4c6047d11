//! Reads checked values by their dotted paths.

use std::time::Duration;

use serde_json::Value;

use super::listener::Listener;
use crate::units;

/// Values of a checked configuration, by path. A value of another type reads as unset.
pub struct Reader<'a> {
    root: &'a Value,
}

impl<'a> Reader<'a> {
    /// `root`: config.yaml over the defaults, or a part of it.
    pub fn new(root: &'a Value) -> Self {
        Self { root }
    }

    /// `None`: unset or null.
    pub fn value(&self, path: &str) -> Option<&'a Value> {
        path.split('.').try_fold(self.root, |place, name| place.get(name)).filter(|value| !value.is_null())
    }

    /// False when unset.
    pub fn bool(&self, path: &str) -> bool {
        self.value(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// `on` is true.
    pub fn switch(&self, path: &str) -> bool {
        self.value(path).and_then(Value::as_str) == Some("on")
    }

    pub(crate) fn unsigned(&self, path: &str) -> Option<u64> {
        self.value(path)?.as_u64()
    }

    /// `None` if it is not a port number.
    pub fn port(&self, path: &str) -> Option<u16> {
        self.unsigned(path)?.try_into().ok()
    }

    /// A text that is not empty; numbers and booleans as text.
    pub fn text(&self, path: &str) -> Option<String> {
        match self.value(path)? {
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text.clone()),
            Value::Array(_) | Value::Object(_) => None,
            other => Some(other.to_string()),
        }
    }

    /// Such as `60s`, `1m` or `500ms`.
    pub fn duration(&self, path: &str) -> Option<Duration> {
        units::duration(&self.text(path)?)
    }

    /// A whole number of seconds.
    pub fn seconds(&self, path: &str) -> Option<Duration> {
        self.unsigned(path).map(Duration::from_secs)
    }

    /// Bytes; such as `16k` or `1m`.
    pub fn size(&self, path: &str) -> Option<u64> {
        units::size(&self.text(path)?)
    }

    /// The items of a list; a single value counts as a list of one.
    pub fn list(&self, path: &str) -> &'a [Value] {
        match self.value(path) {
            Some(Value::Array(items)) => items,
            Some(single) => std::slice::from_ref(single),
            None => &[],
        }
    }

    /// The texts of a list; empty if unset.
    pub fn texts(&self, path: &str) -> Vec<String> {
        self.list(path).iter().filter_map(|item| Reader::new(item).own_text()).collect()
    }

    /// `{ip, port}` below a path.
    pub fn listener(&self, path: &str, ip: &str, port: Option<u16>) -> Option<Listener> {
        let port = self.port(&format!("{path}.port")).or(port)?;
        let ip = self.text(&format!("{path}.ip")).unwrap_or_else(|| ip.to_owned());
        Some(Listener::new(ip.trim_start_matches('[').trim_end_matches(']'), port))
    }

    fn own_text(&self) -> Option<String> {
        match self.root {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }
}
