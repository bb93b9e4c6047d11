//! Which requests a route is for, as far as that can be read of one that cannot be read as a whole.
//!
//! What is lost widens the route: a condition that cannot be read could hold for every request. A route without any
//! readable path has no place.

use serde_json::{Map, Value, json};
use tidegate_model::{
    Kind, host,
    idle::{Matching, doubt_of_path},
    nearest::nearest,
    resources, schemas,
};
use tidegate_routing::Methods;

/// What of a route has a part in its place besides its conditions. Everything else is about what becomes of its requests.
const PLACE: [&str; 6] = ["priority", "status", "service_id", "plugin_config_id", "id", "name"];

pub(super) fn of_route(value: &Value) -> resources::Route {
    let fields = resources::Route::CONDITIONS.iter().chain(&PLACE);
    let mut kept = readable(value, fields, |field| resources::Route::from_value(field).is_ok());
    // What is lost of one may be in the other.
    let addresses = ["remote_addr", "remote_addrs"];
    if addresses.iter().any(|field| value.get(field).is_some() && !kept.contains_key(*field)) {
        addresses.iter().for_each(|field| drop(kept.remove(*field)));
    }
    kept.remove("uri");
    kept.insert("uris".to_owned(), written_paths(value).filter(|path| path.is_string()).cloned().collect());
    keep_hosts(&mut kept, value);
    if !kept.contains_key("priority") && value.get("priority").is_some() {
        // Before any other one it could have been meant to precede.
        kept.insert("priority".to_owned(), json!(i64::MAX));
    }
    resources::Route::from_value(&Value::Object(kept)).unwrap_or_default()
}

/// A path is one whether it stands alone or in a list.
fn written_paths(value: &Value) -> impl Iterator<Item = &Value> {
    items(value, "uri").iter().chain(items(value, "uris"))
}

/// As [`written_paths`].
fn written_hosts(value: &Value) -> impl Iterator<Item = &Value> {
    items(value, "host").iter().chain(items(value, "hosts"))
}

/// Of a list, or the only one.
fn items<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    match value.get(field) {
        Some(Value::Array(items)) => items.as_slice(),
        Some(one) => std::slice::from_ref(one),
        None => &[],
    }
}

/// Whether there are paths, a request can have each of them, and no others are meant.
pub(super) fn reads_all_paths(value: &Value, matching: Matching) -> bool {
    let may_mean_paths = |(name, value): (&str, &Value)| {
        nearest(name, ["uri", "uris"]).is_some() || name.eq_ignore_ascii_case("paths") || holds_path(value)
    };
    let mut paths = written_paths(value).peekable();
    paths.peek().is_some()
        && paths.all(|path| path.as_str().is_some_and(|path| doubt_of_path(path, matching).is_none()))
        && !schemas::unknown_fields(Kind::Route, value).any(may_mean_paths)
}

fn holds_path(value: &Value) -> bool {
    match value {
        Value::String(text) => is_like_path(text),
        Value::Array(items) => items.iter().any(holds_path),
        Value::Object(members) => members.iter().any(|(name, value)| is_like_path(name) || holds_path(value)),
        _ => false,
    }
}

/// Whether what is written of the hosts is all in the form that requests have, and no other field may be meant for them.
pub(super) fn reads_all_hosts(kind: Kind, value: &Value, matching: Matching) -> bool {
    let is_list_empty = |field: &str| value.get(field).is_some() && items(value, field).is_empty();
    !may_be_misspelled(kind, value)
        && !["host", "hosts"].into_iter().any(is_list_empty)
        && written_hosts(value)
            .all(|host| host.as_str().is_some_and(|host| host::why_vain(host, matching.host_ports).is_none()))
}

/// Whether there is a field that objects of the kind do not have: any other one may be meant by it.
fn may_be_misspelled(kind: Kind, value: &Value) -> bool {
    schemas::unknown_fields(kind, value).next().is_some()
}

fn is_like_path(text: &str) -> bool {
    text.contains(['/', '*']) || text.to_ascii_lowercase().contains("%2f")
}

/// Whether a request can have this path: an empty text, or one without a slash in front, is not a path.
pub(super) fn may_match(path: &str) -> bool {
    path.starts_with(['/', '*'])
}

/// Hosts of which one is not a name in the form that requests have are left out: the route is for any host then. So are
/// methods of which one is none.
pub(super) fn widen(route: &mut resources::Route, written: &Value) {
    // Any field may be meant by one that is misspelled.
    if may_be_misspelled(Kind::Route, written) {
        let (uri, uris) = (route.uri.take(), std::mem::take(&mut route.uris));
        *route = resources::Route {
            uri,
            uris,
            status: route.status,
            priority: i64::MAX,
            id: route.id.take(),
            name: route.name.take(),
            service_id: route.service_id.take(),
            plugin_config_id: route.plugin_config_id.take(),
            ..Default::default()
        };
    }
    route.filter_func = None;
    if !route.host_names().all(is_host) {
        route.host = None;
        route.hosts.clear();
    }
    if route.methods.iter().any(|name| Methods::of(name).is_empty()) {
        route.methods.clear();
    }
}

/// As [`widen`].
pub(super) fn widen_service(service: &mut resources::Service) {
    if !service.hosts.iter().all(|host| is_host(host)) {
        service.hosts.clear();
    }
}

fn is_host(text: &str) -> bool {
    // A port is part of a host where requests are compared with it.
    host::why_vain(text, true).is_none()
}

/// All hosts, if each of them can be read: one that is lost may be any.
fn keep_hosts(kept: &mut Map<String, Value>, value: &Value) {
    kept.remove("host");
    let hosts: Vec<Value> = written_hosts(value).cloned().collect();
    let are_all = hosts.iter().all(|host| host.as_str().is_some_and(is_host));
    kept.insert("hosts".to_owned(), Value::Array(if are_all { hosts } else { Vec::new() }));
}

pub(super) fn of_service(value: &Value) -> resources::Service {
    let fields = ["id", "name"];
    let mut kept = readable(value, fields.iter(), |field| resources::Service::from_value(field).is_ok());
    keep_hosts(&mut kept, value);
    resources::Service::from_value(&Value::Object(kept)).unwrap_or_default()
}

/// The fields that can be read each for itself.
fn readable<'a>(
    value: &Value,
    fields: impl Iterator<Item = &'a &'static str>,
    reads: impl Fn(&Value) -> bool,
) -> Map<String, Value> {
    let found = fields.filter_map(|field| Some((*field, value.get(*field)?)));
    let alone = found.filter(|(field, value)| reads(&json!({ *field: value })));
    alone.map(|(field, value)| (field.to_owned(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_survive_what_cannot_be_read() {
        let route = of_route(&json!({
            "uris": ["/a", 5, "/b"], "hosts": ["a.com", 1], "methods": ["GET"], "priority": "high", "timeout": 3,
            "upstream": {"retries": 4_294_967_296_u64}, "service_id": 7
        }));
        assert_eq!(route.paths().collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!(route.hosts, Vec::<String>::new(), "any host");
        assert_eq!((route.methods.len(), route.priority), (1, i64::MAX));
        assert_eq!((route.service_id.as_deref(), route.is_enabled()), (Some("7"), true));
        assert_eq!(of_route(&json!({"uri": 17})).paths().count(), 0);
        let twins = json!({"uri": "/a", "remote_addrs": ["10.0.0.1"], "remote_addr": ["127.0.0.1"]});
        assert_eq!(of_route(&twins).client_addresses().count(), 0);
        assert_eq!(of_route(&json!({"uri": "/a", "hosts": "a.com"})).hosts, ["a.com"]);
        assert_eq!(of_route(&json!({"uri": "/a", "host": ["a.com", "b.com"]})).hosts, ["a.com", "b.com"]);
        for misplaced in
            [json!({"uri": ["/a", 1]}), json!({"uris": "/a"}), json!({"uri": "/a", "timeout": 3})]
        {
            assert_eq!(of_route(&misplaced).paths().collect::<Vec<_>>(), ["/a"], "{misplaced}");
        }
        for (paths, expected) in [
            (json!({"uri": "/a"}), true),
            (json!({"uris": ["/a", "*"], "timeout": 3}), true),
            (json!({"uris": ["/a", ""]}), false),
            (json!({"uri": "//a"}), false),
            (json!({"uri": "/%67/*"}), false),
            (json!({"uri": "/a,/b"}), false),
            (json!({"uri": "***"}), false),
            (json!({"uris": ["/a", ["/b"]]}), false),
            (json!({"uri": null, "uris": ["/a"]}), false),
            (json!({"uris": ["/a", "b"]}), false),
            (json!({"uri": "/a", "Uris": ["/b"]}), false),
            (json!({"uri": "/a", "paths": ["/b"]}), false),
            (json!({"uri": "/a", "Hosts": ["b"]}), true),
            (json!({"uri": "/a", "x": {"y": ["/b"]}}), false),
            (json!({"uri": "/a", "path": "b/*"}), false),
            (json!({"uri": "/a", "x": {"/b": 1}}), false),
            (json!({"uri": "/a\u{0}"}), false),
            (json!({"uri": "/a", "desc": "/b"}), true),
            (json!({"uris": []}), false),
            (json!({}), false),
        ] {
            assert_eq!(reads_all_paths(&paths, Matching::default()), expected, "{paths}");
        }
        for (hosts, expected) in [
            (json!({"uri": "/a"}), true),
            (json!({"host": "a.com", "hosts": ["*.b.com", "[::1]:80"], "timeout": 3}), true),
            (json!({"hosts": ["a.com"], "plugns": {}}), false),
            (json!({"hosts": ["*"]}), true),
            (json!({"hosts": ["a.*"]}), false),
            (json!({"hosts": ["**"]}), false),
            (json!({"hosts": ["a.com:"]}), false),
            (json!({"host": ["a.com"]}), true),
            (json!({"hosts": "a.com"}), true),
            (json!({"hosts": "a.com,b.com"}), false),
            (json!({"hosts": {"a.com": 1}}), false),
            (json!({"hosts": ["a.com", 5]}), false),
            (json!({"hosts": ["a.com "]}), false),
            (json!({"hosts": []}), false),
            (json!({"host": null}), false),
            (json!({"Hosts": ["a.com"]}), false),
        ] {
            assert_eq!(
                reads_all_hosts(Kind::Route, &hosts, Matching { host_ports: true, ..Matching::default() }),
                expected,
                "{hosts}"
            );
        }
        let misspelled = json!({"uri": "/a", "Priority": 1});
        let mut route = of_route(&misspelled);
        widen(&mut route, &misspelled);
        assert_eq!(route.priority, i64::MAX);
        let mut route = of_route(&json!({"uri": "/a", "methods": ["GET", "PSOT"]}));
        widen(&mut route, &json!({}));
        assert_eq!(route.methods, Vec::<String>::new(), "any method");
        assert_eq!(of_service(&json!({"hosts": ["a.com"], "upstream": 1})).hosts, ["a.com"]);
    }
}
