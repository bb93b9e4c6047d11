//! For which requests an object stands of whose keys some are given twice: for all that any of them names, and for those
//! that it stood for before.

use std::{collections::HashSet, fmt};

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};
use tidegate_model::{Document, Kind, Object, schemas};

/// Conditions that go together: a route whose host is in doubt must not be narrowed by the hosts of its service.
const CONDITIONS: [&[&str]; 5] = [
    &["host", "hosts", "service_id"],
    &["remote_addr", "remote_addrs"],
    &["methods"],
    &["vars"],
    &["filter_func"],
];

/// `None`: objects of this kind have no place.
pub(super) fn place(kind: Kind, bytes: &[u8], before: Option<&Object>) -> Option<Document> {
    let Ok(Fields(written)) = serde_json::from_slice(bytes) else { return None };
    let before = before.map(Object::place).filter(|before| before.get("status") != Some(&json!(0)));
    let before = before.as_deref().and_then(Value::as_object);
    let doubt = Doubt { written: &written, before };
    let place = match kind {
        Kind::Route => doubt.of_route(),
        Kind::Service => doubt.of_service(),
        Kind::Ssl => doubt.of_certificate(),
        Kind::StreamRoute => doubt.of_stream_route(),
        _ => return None,
    };
    Some(Value::Object(place).into())
}

/// The fields of the outermost object, in the order in which they are written.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Fields, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Fields;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(name) = access.next_key::<String>()? {
                    // Most of a large object is not about its place.
                    if name == "plugins" || name == "upstream" {
                        access.next_value::<IgnoredAny>()?;
                    } else {
                        fields.push((name, access.next_value()?));
                    }
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(All)
    }
}

struct Doubt<'a> {
    written: &'a [(String, Value)],
    before: Option<&'a Map<String, Value>>,
}

impl Doubt<'_> {
    fn of_route(&self) -> Map<String, Value> {
        let mut place = self.conditions(&CONDITIONS);
        let (mut seen, mut paths) = (HashSet::new(), Vec::new());
        for value in self.all("uri").chain(self.all("uris")) {
            // Anything but a text becomes a path that no request has: the route is known to have had another.
            texts(value, &mut |text| paths.extend(seen.insert(text).then(|| Value::from(text))));
        }
        place.insert("uris".to_owned(), paths.into());
        self.doubt_hosts(&mut place, CONDITIONS[0]);
        // Before any other one that one of them could have been meant to precede. One that is not a number is kept
        // unchanged.
        let rank = |value: &&Value| value.as_i64().unwrap_or(i64::MAX);
        if let Some(priority) = self.all("priority").max_by_key(rank).filter(|value| rank(value) > 0) {
            place.insert("priority".to_owned(), priority.clone());
        }
        self.keep_status(&mut place);
        place
    }

    fn of_service(&self) -> Map<String, Value> {
        let mut place = self.conditions(&[&["hosts"]]);
        self.doubt_hosts(&mut place, &["hosts"]);
        place
    }

    /// No host stands for hosts that cannot be read.
    fn doubt_hosts(&self, place: &mut Map<String, Value>, names: &[&str]) {
        if !names.iter().all(|name| self.is_certain(name)) {
            place.insert("hosts".to_owned(), json!([]));
        }
    }

    fn of_certificate(&self) -> Map<String, Value> {
        let mut place = self.conditions(&[&["type"]]);
        let names: Vec<Value> = self.all("sni").chain(self.all("snis")).cloned().collect();
        place.insert("snis".to_owned(), names.into());
        if let Some(client) = self.all("client").find(|client| !client.is_null()) {
            place.insert("client".to_owned(), client.clone());
        }
        self.keep_status(&mut place);
        place
    }

    /// All ports and names. Where one version has none, it is for all of them: then no port stands here, and no name for names
    /// that cannot be read.
    fn of_stream_route(&self) -> Map<String, Value> {
        let mut place = self.conditions(&[&["remote_addr"], &["server_addr"]]);
        let is_missing_before = |name: &str| self.before.is_some_and(|before| !before.contains_key(name));
        for (name, unless_all) in [("server_port", None), ("sni", Some(json!([])))] {
            let mut seen = Vec::new();
            for value in self.all(name).flat_map(items) {
                if !seen.contains(value) {
                    seen.push(value.clone());
                }
            }
            let is_written = self.written(name).next().is_some();
            let found = match (is_written, self.before.is_none() || !is_missing_before(name)) {
                (true, true) => Some(Value::Array(seen)),
                (false, _) if seen.is_empty() => None,
                _ => unless_all,
            };
            place.extend(found.map(|found| (name.to_owned(), found)));
        }
        let fields = self.written.iter().map(|(name, _)| (name.clone(), Value::Null));
        if schemas::unknown_fields(Kind::StreamRoute, &Value::Object(fields.collect())).next().is_some() {
            place.insert("sni".to_owned(), json!([]));
        }
        place
    }

    /// What of these is not in doubt: of each group all or nothing.
    fn conditions(&self, groups: &[&[&str]]) -> Map<String, Value> {
        let certain = |group: &&&[&str]| group.iter().all(|name| self.is_certain(name));
        let names = groups.iter().filter(certain).flat_map(|group| group.iter());
        let found = names.filter_map(|name| Some(((*name).to_owned(), self.written(name).next()?.clone())));
        found.collect()
    }

    /// Whether all say the same; those who say nothing do so as well.
    fn is_certain(&self, name: &str) -> bool {
        let mut written = self.written(name);
        let first = written.next();
        let same_before = self.before.is_none_or(|before| before.get(name) == first);
        same_before && written.all(|value| Some(value) == first)
    }

    /// What is switched off by every text that it has now has no place.
    fn keep_status(&self, place: &mut Map<String, Value>) {
        let mut written = self.written("status").peekable();
        if written.peek().is_some() && written.all(|status| *status == json!(0)) {
            place.insert("status".to_owned(), json!(0));
        }
    }

    fn written(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.written.iter().filter(move |(written, _)| written == name).map(|(_, value)| value)
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.written(name).chain(self.before.and_then(|before| before.get(name)))
    }
}

/// Of a list, or the only one.
fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        one => std::slice::from_ref(one),
    }
}

/// The texts of a value, in lists as well; an empty one for anything else.
fn texts<'a>(value: &'a Value, take: &mut dyn FnMut(&'a str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, take)),
        _ => take(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, text: &str, before: Option<Value>, expected: Value) {
        let before = before.map(|value| Object {
            kind,
            id: "1".into(),
            document: value.into(),
            created: 1,
            modified: 1,
            fault: None,
            unread: None,
        });
        let place = place(kind, text.as_bytes(), before.as_ref()).map(|place| place.value());
        assert_eq!(place.as_deref(), Some(&expected), "{text}");
    }

    #[test]
    fn places_of_routes() {
        check(Kind::Route, r#"{"uri":"/a","uri":"/b"}"#, None, json!({"uris": ["/a", "/b"]}));
        check(
            Kind::Route,
            r#"{"uri":"/b","uris":["/c","/b"],"host":"x","plugins":{},"plugins":{"a":1},"methods":["GET"]}"#,
            Some(json!({"uri": "/a", "host": "x"})),
            json!({"uris": ["/b", "/a", "/c"], "host": "x"}),
        );
        check(
            Kind::Route,
            r#"{"uri":"/a","host":"x","host":"y","service_id":"1","status":1,"status":0,"priority":1,"priority":7}"#,
            None,
            json!({"uris": ["/a"], "hosts": [], "priority": 7}),
        );
        check(
            Kind::Route,
            r#"{"uri":"/a","uri":"/b","status":0}"#,
            Some(json!({"uri": "/c", "status": 0})),
            json!({"uris": ["/a", "/b"], "status": 0}),
        );
    }

    #[test]
    fn places_of_stream_routes() {
        for (text, before, expected) in [
            (
                r#"{"server_port":1,"server_port":2,"remote_addr":"::1"}"#,
                None,
                json!({"server_port": [1, 2], "remote_addr": "::1"}),
            ),
            (
                r#"{"server_port":1,"server_port":2,"sni":"a.test"}"#,
                Some(json!({"server_port": 3, "remote_addr": "::1"})),
                json!({"server_port": [1, 2, 3], "sni": []}),
            ),
            (
                r#"{"name":"a","name":"b","server_port":1,"sni":"a.test"}"#,
                Some(json!({"sni": "b.test"})),
                json!({"sni": ["a.test", "b.test"]}),
            ),
            (
                r#"{"name":"a","name":"b"}"#,
                Some(json!({"sni": "b.test", "server_port": 1})),
                json!({"sni": []}),
            ),
            (r#"{"server_port":1,"snis":["a"],"snis":["b"]}"#, None, json!({"server_port": [1], "sni": []})),
            (r#"{"name":"a","name":"b"}"#, None, json!({})),
        ] {
            check(Kind::StreamRoute, text, before, expected);
        }
    }

    #[test]
    fn places_of_certificates_and_services() {
        check(
            Kind::Ssl,
            r#"{"sni":"a.test","sni":"b.test","client":{"ca":"x"},"client":null,"type":"server","type":"client"}"#,
            Some(json!({"snis": ["c.test"]})),
            json!({"snis": ["a.test", "b.test", ["c.test"]], "client": {"ca": "x"}}),
        );
        check(Kind::Service, r#"{"hosts":["a"],"hosts":["b"]}"#, None, json!({"hosts": []}));
        check(Kind::Service, r#"{"hosts":["a"],"name":"x","name":"y"}"#, None, json!({"hosts": ["a"]}));
    }
}
