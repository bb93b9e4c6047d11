//! Which requests a route is for, as far as that can be read of one that cannot be read as a whole.
//!
//! What is lost widens the route: a condition that nobody can read could hold for every request. A route without any
//! readable path has no place.

use serde_json::{Map, Value, json};
use tidegate_model::resources;

/// What of a route has a part in its place besides its conditions. Everything else is about what becomes of its requests.
const PLACE: [&str; 6] = ["priority", "status", "service_id", "plugin_config_id", "id", "name"];

pub(super) fn of_route(value: &Value) -> resources::Route {
    let fields = resources::Route::CONDITIONS.iter().chain(&PLACE);
    let mut kept = readable(value, fields, |field| resources::Route::from_value(field).is_ok());
    // A path is one whether it stands alone or in a list.
    let items = |field: &str| match value.get(field) {
        Some(Value::Array(items)) => items.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    kept.remove("uri");
    let paths = items("uri").into_iter().chain(items("uris"));
    kept.insert("uris".to_owned(), paths.filter(Value::is_string).collect());
    if value.get("priority").is_some() && !kept.contains_key("priority") {
        // Before any other one it could have been meant to precede.
        kept.insert("priority".to_owned(), json!(i64::MAX));
    }
    resources::Route::from_value(&Value::Object(kept)).unwrap_or_default()
}

/// Hosts of which one is not a name in the form that requests have are left out: the route is for any host then.
pub(super) fn widen(route: &mut resources::Route) {
    let is_name = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"*-._:[]".contains(&byte))
    };
    if !route.host_names().all(is_name) {
        route.host = None;
        route.hosts.clear();
    }
}

pub(super) fn of_service(value: &Value) -> resources::Service {
    let fields = ["hosts", "id", "name"];
    let kept = readable(value, fields.iter(), |field| resources::Service::from_value(field).is_ok());
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
        for misplaced in
            [json!({"uri": ["/a", 1]}), json!({"uris": "/a"}), json!({"uri": "/a", "timeout": 3})]
        {
            assert_eq!(of_route(&misplaced).paths().collect::<Vec<_>>(), ["/a"], "{misplaced}");
        }
        assert_eq!(of_service(&json!({"hosts": ["a.com"], "upstream": 1})).hosts, ["a.com"]);
    }
}
