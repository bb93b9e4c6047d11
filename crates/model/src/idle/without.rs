//! Settings that have no effect because of another one.

use serde_json::Value;

use super::branches;
use crate::{Kind, Object, PluginCatalog, header_text::is_token};

/// An object without any of these fields has no such setting.
const WORDS: [&str; 9] = [
    "tls",
    "upstream_host",
    "hash_on",
    "key",
    "checks",
    "discovery_args",
    "discovery_type",
    "policy",
    "retries",
];

/// Messages for settings of upstreams and plugins that have no effect beside others.
pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut found = Vec::new();
    let of_plugins = object.document.may_hold("redis") || object.document.may_hold("sentinel");
    if !of_plugins && !WORDS.iter().any(|word| object.document.may_have(word)) {
        return found;
    }
    let value = object.value();
    let is_stream = object.kind == Kind::StreamRoute;
    let upstream =
        |value: &Value, path: &str, found: &mut Vec<String>| upstream(value, path, is_stream, found);
    match object.kind {
        Kind::Upstream => upstream(&value, "", &mut found),
        _ => value.get("upstream").into_iter().for_each(|value| upstream(value, "upstream.", &mut found)),
    }
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        let Some(facts) = catalog.facts(name) else { continue };
        found.extend(branches::of(facts.schema, conf).iter().map(|text| format!("plugins.{name}.{text}")));
        for nested in (facts.nested)(conf) {
            let Some(facts) = catalog.facts(nested.name) else { continue };
            let texts = branches::of(facts.schema, nested.conf);
            found.extend(texts.iter().map(|text| format!("plugins.{name}.{}.{text}", nested.path)));
        }
        if name == "traffic-split" {
            each_inline_upstream(conf, &mut |value, path| upstream(value, path, &mut found));
        }
    }
    found
}

/// The upstreams inside of a configuration of traffic-split, each with the path to it.
pub(super) fn each_inline_upstream(conf: &Value, take: &mut dyn FnMut(&Value, &str)) {
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    for (rule, value) in list(conf, "rules").iter().enumerate() {
        for (at, weighted) in list(value, "weighted_upstreams").iter().enumerate() {
            let path = format!("plugins.traffic-split.rules[{rule}].weighted_upstreams[{at}].upstream.");
            weighted.get("upstream").into_iter().for_each(|value| take(value, &path));
        }
    }
}

fn upstream(value: &Value, path: &str, is_stream: bool, found: &mut Vec<String>) {
    let text = |name: &str, default| match value.get(name) {
        None => Some(default),
        Some(value) => value.as_str(),
    };
    let has = |name: &str| value.pointer(name).is_some_and(|value| !value.is_null());
    let mut say = |name: &str, why: String| found.push(format!("{path}{name} has no effect {why}"));
    if let Some(scheme @ ("http" | "grpc")) = text("scheme", "http") {
        let secure = if is_stream { "tls".to_owned() } else { format!("{scheme}s") };
        let why = format!("with scheme {scheme}: nothing is encrypted; write {secure}");
        for name in ["client_cert", "client_cert_id"] {
            if has(&format!("/tls/{name}")) {
                say(&format!("tls.{name}"), why.clone());
            }
        }
        if value.pointer("/tls/verify") == Some(&Value::Bool(true)) {
            say("tls.verify", why);
        }
    }
    if let Some(pass @ ("pass" | "node")) = text("pass_host", "pass")
        && text("upstream_host", "").is_some_and(|host| !host.is_empty())
    {
        say("upstream_host", format!("with pass_host {pass}; write pass_host rewrite"));
    }
    if let Some(kind) = text("type", "roundrobin").filter(|kind| *kind != "chash") {
        // The schema's default may have been filled in.
        for name in ["hash_on", "key"] {
            if has(&format!("/{name}")) && text(name, "") != Some("vars") {
                say(name, format!("with type {kind}; write type chash"));
            }
        }
    }
    for name in ["discovery_type", "discovery_args"] {
        if has(&format!("/{name}")) && !has("/service_name") {
            say(name, "without service_name".to_owned());
        }
    }
    probes(value, &mut say);
}

fn probes(value: &Value, say: &mut impl FnMut(&str, String)) {
    let Some(active) = value.pointer("/checks/active") else { return };
    let kind = active.get("type").map_or(Some("http"), Value::as_str);
    if kind == Some("tcp") && active.get("http_path").is_some_and(|path| path != "/") {
        say("checks.active.http_path", "with type tcp: only a connection is made".to_owned());
    }
    if let Some(path) = active.get("http_path").and_then(Value::as_str)
        && kind != Some("tcp")
        && !path.starts_with('/')
    {
        say(
            "checks.active.http_path",
            format!("as a path: it is sent literally, and servers answer 400; write /{path}"),
        );
    }
    let lines = active.get("req_headers").and_then(Value::as_array).into_iter().flatten();
    for line in lines.filter_map(Value::as_str).filter(|line| !is_field(line)) {
        let line = line.escape_debug();
        say(
            "checks.active.req_headers",
            format!("as a header with {line}, and servers answer 400; write Name: value"),
        );
    }
    if kind != Some("https") && active.get("https_verify_certificate") == Some(&Value::Bool(false)) {
        say("checks.active.https_verify_certificate", "without type https".to_owned());
    }
}

/// Whether a text is a field line as RFC 9112 section 5 has it.
fn is_field(line: &str) -> bool {
    line.split_once(':').is_some_and(|(name, _)| is_token(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_upstreams() {
        for (value, expected) in [
            (
                json!({"nodes": {"a:1": 1}, "scheme": "http", "pass_host": "pass", "hash_on": "vars", "type": "roundrobin",
                "tls": {"verify": false}, "checks": {"active": {"type": "tcp", "http_path": "/", "https_verify_certificate": true}}}),
                Vec::new(),
            ),
            (json!({"scheme": "https", "tls": {"verify": true, "client_cert": "c"}}), Vec::new()),
            (json!({"tls": {"verify": true}}), vec!["u.tls.verify"]),
            (json!({"scheme": "grpc", "tls": {"client_cert_id": "1"}}), vec!["u.tls.client_cert_id"]),
            (json!({"upstream_host": "h"}), vec!["u.upstream_host"]),
            (json!({"upstream_host": "h", "pass_host": "rewrite"}), Vec::new()),
            (json!({"type": "ewma", "key": "uri", "hash_on": "header"}), vec!["u.hash_on", "u.key"]),
            (json!({"type": "chash", "key": "uri", "hash_on": "header"}), Vec::new()),
            (json!({"discovery_args": {}}), vec!["u.discovery_args"]),
            (json!({"discovery_type": "dns", "nodes": {"a:1": 1}}), vec!["u.discovery_type"]),
            (json!({"discovery_type": "dns", "service_name": "a"}), Vec::new()),
            (
                json!({"checks": {"active": {"type": "tcp", "http_path": "/x"}}}),
                vec!["u.checks.active.http_path"],
            ),
            (
                json!({"checks": {"active": {"http_path": "x", "req_headers": ["A: b", "User-Agent curl", ": x"]}}}),
                vec![
                    "u.checks.active.http_path",
                    "u.checks.active.req_headers",
                    "u.checks.active.req_headers",
                ],
            ),
        ] {
            let mut found = Vec::new();
            upstream(&value, "u.", false, &mut found);
            assert_eq!(found.len(), expected.len(), "{value}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{value}: {found}");
            }
        }
    }
}
