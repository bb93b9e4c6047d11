//! Which requests or sessions a route takes, as its own fields say.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use tidegate_model::Kind;

/// Conditions that are compared as they stand.
const OTHERS: [&str; 7] =
    ["vars", "filter_func", "remote_addr", "remote_addrs", "server_addr", "server_port", "sni"];

/// Of a route; equal for routes that take the same requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    uris: BTreeSet<String>,
    hosts: BTreeSet<String>,
    methods: BTreeSet<String>,
    /// As JSON.
    others: String,
}

impl Place {
    /// `None`: objects of this kind take no requests.
    pub(super) fn of(kind: Kind, value: &Value) -> Option<Place> {
        if !matches!(kind, Kind::Route | Kind::StreamRoute) {
            return None;
        }
        let mut others = Map::new();
        for name in OTHERS {
            let given = value.get(name).filter(|given| !is_empty(given));
            others.extend(given.map(|given| (name.to_owned(), given.clone())));
        }
        let mut others = Value::Object(others);
        others.sort_all_objects();
        Some(Place {
            uris: widest(texts(value, ["uri", "uris"], str::to_owned)),
            hosts: texts(value, ["host", "hosts"], str::to_lowercase),
            methods: texts(value, ["methods", "methods"], str::to_owned),
            others: others.to_string(),
        })
    }

    /// For messages.
    pub(super) fn text(&self) -> String {
        let list = |texts: &BTreeSet<String>| texts.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut text = if self.uris.is_empty() { "sessions".to_owned() } else { list(&self.uris) };
        if !self.methods.is_empty() {
            text = format!("{} {text}", list(&self.methods));
        }
        if !self.hosts.is_empty() {
            text.push_str(&format!(" of {}", list(&self.hosts)));
        }
        if self.others != "{}" {
            text.push_str(&format!(" where {}", self.others));
        }
        shortened(text)
    }

    /// Whether a request may be for both, as far as path, host and method tell.
    pub(super) fn may_meet(&self, other: &Place) -> bool {
        any(&self.uris, &other.uris, paths_meet)
            && any(&self.hosts, &other.hosts, hosts_meet)
            && any(&self.methods, &other.methods, |one, other| one == other)
    }
}

const LONGEST_TEXT: usize = 200;

fn shortened(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn texts(value: &Value, names: [&str; 2], form: fn(&str) -> String) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for given in names.iter().filter_map(|name| value.get(*name)) {
        all.extend(given.as_str().map(form));
        all.extend(given.as_array().into_iter().flatten().filter_map(Value::as_str).map(form));
    }
    all
}

/// Without paths that begin with another one of these: they only say which of several routes comes first.
fn widest(uris: BTreeSet<String>) -> BTreeSet<String> {
    let prefix = |uri: &str| {
        let prefix = uri.strip_suffix('*')?;
        (!prefix.contains(['*', ':'])).then(|| prefix.to_owned())
    };
    let prefixes: Vec<String> = uris.iter().filter_map(|uri| prefix(uri)).collect();
    let is_within = |uri: &String| {
        prefixes.iter().any(|wide| uri.starts_with(wide.as_str()) && *uri != format!("{wide}*"))
    };
    uris.iter().filter(|uri| !is_within(uri)).cloned().collect()
}

/// Without a condition everything meets.
fn any(one: &BTreeSet<String>, other: &BTreeSet<String>, meet: fn(&str, &str) -> bool) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|one| other.iter().any(|other| meet(one, other)))
}

fn paths_meet(one: &str, other: &str) -> bool {
    let fixed = |path: &str| path.find(['*', ':']).unwrap_or(path.len());
    let (own, theirs) = (fixed(one), fixed(other));
    let (own_text, their_text) =
        (one.get(..own).unwrap_or_default(), other.get(..theirs).unwrap_or_default());
    match (own < one.len(), theirs < other.len()) {
        (false, false) => one == other,
        (true, false) => other.starts_with(own_text),
        (false, true) => one.starts_with(their_text),
        (true, true) => own_text.starts_with(their_text) || their_text.starts_with(own_text),
    }
}

fn hosts_meet(one: &str, other: &str) -> bool {
    match (one.strip_prefix('*'), other.strip_prefix('*')) {
        (None, None) => one == other || one.contains('*') || other.contains('*'),
        (Some(end), None) => other.ends_with(end),
        (None, Some(end)) => one.ends_with(end),
        (Some(one), Some(other)) => one.ends_with(other) || other.ends_with(one),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(value: Value) -> Place {
        Place::of(Kind::Route, &value).expect("a route")
    }

    #[test]
    fn places_that_are_one() {
        let one = json!({"uri": "/a/*", "hosts": ["A.test"], "vars": [["x", "==", 1]], "plugins": {}});
        let same = json!({"uris": ["/a/*"], "host": "a.test", "vars": [["x", "==", 1]], "priority": 4});
        assert_eq!(place(one.clone()), place(same));
        let entered = json!({"uris": ["/a/*", "/a/b*", "/a/c"], "host": "a.test", "vars": [["x", "==", 1]]});
        assert_eq!(place(one.clone()), place(entered));
        for (name, other) in [
            ("uri", json!("/b/*")),
            ("uri", json!("/*")),
            ("hosts", json!([])),
            ("vars", json!([["x", "==", 2]])),
            ("methods", json!(["GET"])),
            ("remote_addrs", json!(["10.0.0.0/8"])),
        ] {
            let mut changed = one.clone();
            changed[name] = other;
            assert_ne!(place(one.clone()), place(changed), "{name}");
        }
        assert_eq!(Place::of(Kind::Upstream, &one), None);
    }

    #[test]
    fn places_that_meet() {
        for (one, other, wanted) in [
            (json!({"uri": "/a/*"}), json!({"uri": "/*"}), true),
            (json!({"uri": "/a"}), json!({"uris": ["/b", "/a*"]}), true),
            (json!({"uri": "/a"}), json!({"uri": "/b"}), false),
            (json!({"uri": "/a/*"}), json!({"uri": "/b/*"}), false),
            (json!({"uri": "/u/:id"}), json!({"uri": "/u/7"}), true),
            (json!({"uri": "/a", "host": "*.test"}), json!({"uri": "/a", "host": "x.test"}), true),
            (json!({"uri": "/a", "host": "y.test"}), json!({"uri": "/a", "host": "x.test"}), false),
            (json!({"uri": "/a", "methods": ["GET"]}), json!({"uri": "/a", "methods": ["PUT"]}), false),
            (json!({"uri": "/a", "methods": ["GET"]}), json!({"uri": "/a"}), true),
        ] {
            assert_eq!(place(one.clone()).may_meet(&place(other.clone())), wanted, "{one} {other}");
            assert_eq!(place(other.clone()).may_meet(&place(one.clone())), wanted, "{other} {one}");
        }
    }
}
