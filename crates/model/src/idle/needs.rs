//! Configurations of plugins that do nothing, and fields in them that have no effect without another one.

use serde_json::{Value, json};

/// A plugin that does nothing without one of these fields.
struct Idle {
    plugin: &'static str,
    without: &'static [&'static str],
}

const IDLE: [Idle; 5] = [
    Idle { plugin: "data-mask", without: &["request"] },
    Idle {
        plugin: "proxy-rewrite",
        without: &["uri", "method", "regex_uri", "host", "headers", "use_real_request_uri_unsafe"],
    },
    Idle { plugin: "response-rewrite", without: &["status_code", "body", "headers", "filters"] },
    Idle { plugin: "traffic-label", without: &["rules"] },
    Idle { plugin: "traffic-split", without: &["rules"] },
];

/// A field that counts only beside another one.
struct Need {
    /// Empty: of all plugins.
    plugins: &'static [&'static str],
    field: &'static str,
    /// Whether it says something: APISIX stores defaults.
    says: fn(&Value) -> bool,
    is_met: fn(&Value) -> bool,
    /// Follows "has no effect without".
    other: &'static str,
}

const LIMITS: &[&str] = &["limit-count", "limit-req", "limit-conn", "graphql-limit-count"];
const REDIS: &str = "policy redis, redis-cluster or redis-sentinel";

const NEEDS: [Need; 10] = [
    Need {
        plugins: &[],
        field: "include_req_body_expr",
        says: |value| !value.is_null(),
        is_met: |conf| is(conf, "include_req_body"),
        other: "include_req_body: true",
    },
    Need {
        plugins: &[],
        field: "include_resp_body_expr",
        says: |value| !value.is_null(),
        is_met: |conf| is(conf, "include_resp_body"),
        other: "include_resp_body: true",
    },
    Need {
        plugins: &[],
        field: "max_req_body_bytes",
        says: is_other_size,
        is_met: |conf| is(conf, "include_req_body"),
        other: "include_req_body: true",
    },
    Need {
        plugins: &[],
        field: "max_resp_body_bytes",
        says: is_other_size,
        is_met: |conf| is(conf, "include_resp_body"),
        other: "include_resp_body: true",
    },
    Need {
        plugins: &["tcp-logger"],
        field: "tls_options",
        says: |value| !value.is_null(),
        is_met: |conf| is(conf, "tls"),
        other: "tls: true",
    },
    Need {
        plugins: &["proxy-mirror"],
        field: "path_concat_mode",
        says: |value| value == "prefix",
        is_met: |conf| conf.get("path").is_some(),
        other: "path",
    },
    Need {
        plugins: &["request-id"],
        field: "range_id",
        says: |value| !is_default_range(value),
        is_met: |conf| conf.get("algorithm").is_some_and(|algorithm| algorithm == "range_id"),
        other: "algorithm range_id",
    },
    Need {
        plugins: &["syslog"],
        field: "tls",
        says: |value| *value == Value::Bool(true),
        is_met: |conf| conf.get("sock_type").is_none_or(|kind| kind != "udp"),
        other: "sock_type tcp: entries go out unencrypted",
    },
    Need { plugins: LIMITS, field: "sync_interval", says: is_number, is_met: is_shared, other: REDIS },
    Need {
        plugins: LIMITS,
        field: "allow_degradation",
        says: |value| *value == Value::Bool(true),
        is_met: is_shared,
        other: REDIS,
    },
];

/// Messages about one configuration of a plugin.
pub(super) fn of(plugin: &str, conf: &Value) -> Vec<String> {
    let idle = IDLE.iter().filter(|idle| idle.plugin == plugin);
    let idle = idle.filter(|idle| idle.without.iter().all(|name| conf.get(name).is_none_or(is_nothing)));
    let mut found: Vec<String> =
        idle.map(|idle| format!("it has no effect without {}", listed(idle.without))).collect();
    if plugin == "request-validation" && has_no_check(conf) {
        found.push("it has no effect: header_schema checks nothing, and body_schema is missing".to_owned());
    }
    let needs = NEEDS.iter().filter(|need| need.plugins.is_empty() || need.plugins.contains(&plugin));
    let vain = needs.filter(|need| conf.get(need.field).is_some_and(need.says) && !(need.is_met)(conf));
    found.extend(vain.map(|need| format!("{} has no effect without {}", need.field, need.other)));
    if plugin == "proxy-rewrite" && ["uri", "regex_uri"].iter().all(|name| conf.get(name).is_some()) {
        found.push("regex_uri has no effect beside uri, which goes before it; write one of them".to_owned());
    }
    if plugin == "traffic-split" {
        found.extend(split_rules(conf));
    }
    if plugin != "redirect" {
        found.extend(literal_hosts(conf));
    }
    found
}

/// Fields of plugins that have the address of a service.
const ADDRESSES: [&str; 14] = [
    "uri",
    "host",
    "endpoint",
    "endpoint_addr",
    "endpoint_addrs",
    "function_uri",
    "api_host",
    "server",
    "idp_uri",
    "discovery",
    "token_endpoint",
    "introspection_endpoint",
    "auth_service_uri",
    "hosts",
];

/// Addresses of services whose host is looked up with its `$`. Redirects send the client to theirs.
fn literal_hosts(conf: &Value) -> Vec<String> {
    let texts = |name: &'static str| {
        let value = conf.get(name);
        let items = value.and_then(Value::as_array).into_iter().flatten();
        value.into_iter().chain(items).filter_map(Value::as_str).map(move |text| (name, text))
    };
    let found = ADDRESSES.into_iter().flat_map(texts).filter_map(|(name, text)| {
        let host = text.split_once("://")?.1.split(['/', '?', '#']).next()?;
        host.contains('$').then(|| {
            format!("{name}: {host} is looked up as it is written: no variable is put into the address of a service; write its host")
        })
    });
    found.collect()
}

fn listed(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

fn is(conf: &Value, name: &str) -> bool {
    conf.get(name) == Some(&Value::Bool(true))
}

fn is_number(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

/// Another one than the default of loggers.
fn is_other_size(value: &Value) -> bool {
    value.as_u64().is_some_and(|bytes| bytes != 512 << 10)
}

/// Absent, off, or empty. A text may be empty and say so.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A policy that cannot be read, such as a reference, may be any.
fn is_shared(conf: &Value) -> bool {
    conf.get("policy").is_some_and(|policy| policy != "local")
}

/// An empty `body_schema` asks for JSON.
fn has_no_check(conf: &Value) -> bool {
    conf.get("body_schema").is_none_or(Value::is_null) && conf.get("header_schema").is_some_and(is_nothing)
}

fn is_default_range(value: &Value) -> bool {
    let default = |name: &str, default: Value| value.get(name).is_none_or(|value| *value == default);
    let letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIGKLMNOPQRSTUVWXYZ0123456789";
    default("length", json!(16)) && default("char_set", json!(letters))
}

/// The first rule that applies counts, and one without `match` always does.
fn split_rules(conf: &Value) -> Vec<String> {
    let rules = conf.get("rules").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let takes_all = |rule: &Value| rule.get("match").is_none_or(is_nothing);
    let reached = rules.iter().position(takes_all).map_or(rules.len(), |at| at + 1);
    let mut found = Vec::new();
    if reached < rules.len() {
        let at = reached - 1;
        found.push(format!(
            "the rules behind rules[{at}] are never reached: it has no match and always applies"
        ));
    }
    let is_own = |target: &Value| ["upstream", "upstream_id"].iter().all(|name| target.get(name).is_none());
    let keeps_own = |rule: &Value| match rule.get("weighted_upstreams").and_then(Value::as_array) {
        Some(targets) => targets.iter().all(is_own),
        None => true,
    };
    if let Some(last) = reached.checked_sub(1)
        && rules.get(last).is_some_and(keeps_own)
    {
        found.push(format!("rules[{last}] has no effect: it names no upstream but the route's own"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_without_effect() {
        let split = |rules: Value| json!({"rules": rules});
        let to = json!([{"upstream_id": 1, "weight": 1}, {"weight": 1}]);
        let cases = [
            (
                "proxy-rewrite",
                json!({"use_real_request_uri_unsafe": false}),
                Some("it has no effect without uri, method,"),
            ),
            ("proxy-rewrite", json!({"host": ""}), None),
            ("response-rewrite", json!({"headers": []}), Some("it has no effect without status_code")),
            ("response-rewrite", json!({"body": ""}), None),
            ("data-mask", json!({"request": []}), Some("it has no effect without request")),
            ("request-validation", json!({"header_schema": {}}), Some("it has no effect: header_schema")),
            ("request-validation", json!({"body_schema": {}}), None),
            (
                "http-logger",
                json!({"include_req_body_expr": []}),
                Some("include_req_body_expr has no effect"),
            ),
            ("http-logger", json!({"include_req_body_expr": [], "include_req_body": true}), None),
            ("tcp-logger", json!({"tls": false, "tls_options": "x"}), Some("tls_options has no effect")),
            ("proxy-mirror", json!({"path_concat_mode": "replace"}), None),
            ("proxy-mirror", json!({"path_concat_mode": "prefix"}), Some("path_concat_mode has no effect")),
            ("request-id", json!({"range_id": {"length": 8}}), Some("range_id has no effect")),
            ("request-id", json!({"range_id": {"length": 16}}), None),
            (
                "limit-count",
                json!({"sync_interval": 1}),
                Some("sync_interval has no effect without policy redis,"),
            ),
            ("limit-count", json!({"sync_interval": 1, "policy": "redis"}), None),
            (
                "limit-conn",
                json!({"allow_degradation": true, "policy": "local"}),
                Some("allow_degradation has no"),
            ),
            ("limit-conn", json!({"allow_degradation": false}), None),
            (
                "forward-auth",
                json!({"uri": "http://$arg_h/"}),
                Some("uri: $arg_h is looked up as it is written"),
            ),
            ("forward-auth", json!({"uri": "http://a/$arg_h"}), None),
            ("opa", json!({"host": "https://$http_x:1"}), Some("host: $http_x:1 is looked up")),
            ("redirect", json!({"uri": "https://$host/"}), None),
            ("traffic-split", json!({}), Some("it has no effect without rules")),
            ("traffic-split", split(json!([{"weighted_upstreams": to}])), None),
            ("traffic-split", split(json!([{}])), Some("rules[0] has no effect")),
            // An exception before the others.
            ("traffic-split", split(json!([{"match": [{}]}, {"weighted_upstreams": to}])), None),
            (
                "traffic-split",
                split(json!([{"weighted_upstreams": to}, {"match": [{}], "weighted_upstreams": to}])),
                Some("the rules behind rules[0] are never reached"),
            ),
        ];
        check(cases);
    }

    #[test]
    fn loggers_without_effect() {
        check([
            (
                "syslog",
                json!({"tls": true, "sock_type": "udp"}),
                Some("tls has no effect without sock_type tcp"),
            ),
            ("syslog", json!({"tls": true}), None),
            (
                "http-logger",
                json!({"max_req_body_bytes": 5}),
                Some("max_req_body_bytes has no effect without"),
            ),
            ("http-logger", json!({"max_req_body_bytes": 5, "include_req_body": true}), None),
            ("http-logger", json!({"max_resp_body_bytes": 524_288}), None),
            ("proxy-rewrite", json!({"uri": "/a", "regex_uri": ["a", "b"]}), Some("regex_uri has no effect")),
        ]);
    }

    fn check<const N: usize>(cases: [(&str, Value, Option<&str>); N]) {
        for (plugin, conf, expected) in cases {
            let found = of(plugin, &conf);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{plugin} {conf}: {found:?}");
            assert!(found.iter().all(|text| text.starts_with(expected.unwrap_or_default())), "{found:?}");
        }
    }
}
