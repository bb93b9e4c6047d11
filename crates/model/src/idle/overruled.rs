//! Settings that another one of the same object overrules.

use serde_json::Value;

use crate::{Kind, Object};

pub(super) fn of(object: &Object) -> Vec<String> {
    if !matches!(object.kind, Kind::Route | Kind::Service | Kind::StreamRoute | Kind::Upstream) {
        return Vec::new();
    }
    let value = object.value();
    let (path, upstream) = match object.kind {
        Kind::Upstream => ("", Some(&*value)),
        _ => ("upstream.", value.get("upstream").filter(|upstream| !upstream.is_null())),
    };
    let Some(upstream) = upstream else { return Vec::new() };
    let mut found = Vec::new();
    if object.kind != Kind::Upstream && value.get("upstream_id").is_some_and(|id| !id.is_null()) {
        found.push("upstream has no effect with upstream_id; remove one".to_owned());
        return found;
    }
    if upstream.get("retries").and_then(Value::as_u64) == Some(0)
        && upstream.get("retry_timeout").and_then(Value::as_f64).is_some_and(|seconds| seconds > 0.0)
    {
        found.push(format!("{path}retry_timeout has no effect with retries 0: a request is sent once"));
    }
    for kind in ["active", "passive"] {
        found.extend(both(upstream, kind).map(|status| {
            format!("{path}checks.{kind}: {status} is in healthy.http_statuses and in unhealthy.http_statuses; remove one")
        }));
    }
    found
}

/// A status that counts as healthy and as unhealthy.
fn both(upstream: &Value, kind: &str) -> Option<u64> {
    let checks = upstream.get("checks")?.get(kind)?;
    let list = |name: &str| checks.get(name)?.get("http_statuses")?.as_array();
    let (good, bad) = (list("healthy")?, list("unhealthy")?);
    good.iter().find(|status| bad.contains(status))?.as_u64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Document;

    fn check(kind: Kind, value: &Value, expected: &[&str]) {
        let document = Document::new(value);
        let object =
            Object { kind, id: "1".into(), document, created: 1, modified: 1, fault: None, unread: None };
        let found = of(&object);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(found.iter().zip(expected).all(|(found, expected)| found.starts_with(expected)), "{found:?}");
    }

    #[test]
    fn what_another_setting_overrules() {
        let nodes = json!({"a:1": 1});
        check(
            Kind::Route,
            &json!({"upstream": {"nodes": nodes}, "upstream_id": 1}),
            &["upstream has no effect with upstream_id"],
        );
        check(Kind::Route, &json!({"upstream": {"nodes": nodes}, "service_id": 1}), &[]);
        check(Kind::Route, &json!({"upstream": null, "upstream_id": 1}), &[]);
        check(Kind::Upstream, &json!({"retries": 0, "retry_timeout": 3}), &["retry_timeout has no effect"]);
        check(Kind::Upstream, &json!({"retries": 0, "retry_timeout": 0}), &[]);
        check(Kind::Upstream, &json!({"retries": 1, "retry_timeout": 3}), &[]);
        let checks = json!({"active": {"healthy": {"http_statuses": [200, 500]}, "unhealthy": {"http_statuses": [500]}}});
        check(
            Kind::Service,
            &json!({"upstream": {"checks": checks}}),
            &["upstream.checks.active: 500 is in"],
        );
        check(Kind::Consumer, &json!({"upstream": {}, "upstream_id": 1}), &[]);
    }
}
