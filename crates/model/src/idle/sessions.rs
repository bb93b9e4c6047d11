//! Fields of stream routes that are about requests: sessions have no host, no header fields and no consumers.

use serde_json::Value;

use super::{Matching, without::each_inline_upstream};
use crate::{Kind, Object};

/// Variables that only requests have, and that keys of hashes may name.
const OF_REQUESTS: [&str; 6] = ["uri", "request_uri", "query_string", "host", "hostname", "server_name"];

pub(super) fn of(object: &Object, matching: Matching) -> Vec<String> {
    if object.kind != Kind::StreamRoute {
        return Vec::new();
    }
    let value = object.value();
    let mut found: Vec<String> = name(&value).into_iter().chain(port(&value, matching)).collect();
    found.extend(unread_name(&value, matching));
    value.get("upstream").into_iter().for_each(|value| upstream(value, "upstream.", &mut found));
    if let Some(conf) = value.pointer("/plugins/traffic-split") {
        each_inline_upstream(conf, &mut |value, path| upstream(value, path, &mut found));
    }
    found
}

/// An address is not a server name (RFC 6066, section 3).
fn name(value: &Value) -> Option<String> {
    let name = value.get("sni")?.as_str()?;
    let bare = name.trim_start_matches('[').trim_end_matches([']', '.']);
    let is_address = bare.parse::<std::net::IpAddr>().is_ok();
    is_address.then(|| format!("sni {name} matches no session: clients send no address as a server name"))
}

/// Names are read where TLS ends, and in handshakes at ports of TCP that a route with a name has.
fn unread_name(value: &Value, matching: Matching) -> Option<String> {
    let name = value.get("sni")?.as_str().filter(|_| matching.stream)?;
    let Some(port) = value.get("server_port").and_then(Value::as_u64) else {
        return matching.tls_ports.is_none().then(|| {
            format!(
                "sni {name} matches no session: TLS ends at no port of apisix.stream_proxy.tcp; add server_port, or tls: true to a port"
            )
        });
    };
    let is_udp =
        matching.stream_ports.instead_of(port).is_none() && matching.tcp_ports.instead_of(port).is_some();
    is_udp.then(|| {
        format!("sni {name} matches no session: port {port} is one of UDP, whose sessions have no name")
    })
}

fn port(value: &Value, matching: Matching) -> Option<String> {
    let port = value.get("server_port")?.as_u64()?;
    let instead = matching.stream_ports.instead_of(port).filter(|_| matching.stream)?;
    Some(format!(
        "server_port {port} matches no session: the gateway listens for sessions on {instead}; add the port to apisix.stream_proxy"
    ))
}

fn upstream(value: &Value, path: &str, found: &mut Vec<String>) {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let mut say =
        |what: &str, why: &str| found.push(format!("{path}{what} has no effect on sessions: {why}"));
    if let Some(scheme @ ("https" | "grpc" | "grpcs" | "kafka")) = text("scheme") {
        say(&format!("scheme {scheme}"), "bytes are passed on as they are; write tls for TLS to nodes");
    }
    if let Some(pass @ ("node" | "rewrite")) = text("pass_host") {
        say(&format!("pass_host {pass}"), "they have no host");
        if text("upstream_host").is_some() {
            say("upstream_host", "they have no host");
        }
    }
    if value.get("keepalive_pool").is_some_and(|pool| !pool.is_null()) {
        say("keepalive_pool", "each has a connection of its own");
    }
    if text("type") != Some("chash") {
        return;
    }
    let address =
        "the client's address is hashed; write hash_on vars with a key that they have, like remote_addr";
    match (text("hash_on").unwrap_or("vars"), text("key").unwrap_or_default()) {
        (hash_on @ ("header" | "cookie" | "consumer"), _) => say(&format!("hash_on {hash_on}"), address),
        ("vars", key) if OF_REQUESTS.contains(&key) || key.starts_with("arg_") => {
            say(&format!("key {key}"), address);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Document;

    #[test]
    fn fields_of_requests() {
        let cases: &[(Value, &[&str])] = &[
            (json!({"sni": "a.test", "upstream": {"scheme": "tls", "pass_host": "pass"}}), &[]),
            (json!({"sni": "127.0.0.1"}), &["sni 127.0.0.1 matches no session"]),
            (json!({"sni": "[::1]"}), &["sni [::1] matches no session"]),
            (
                json!({"upstream": {"scheme": "https", "pass_host": "rewrite", "upstream_host": "a", "keepalive_pool": {"size": 1}}}),
                &[
                    "upstream.scheme https has no effect",
                    "upstream.pass_host rewrite has no effect",
                    "upstream.upstream_host has no effect",
                    "upstream.keepalive_pool has no effect",
                ],
            ),
            (
                json!({"upstream": {"type": "chash", "hash_on": "header", "key": "x"}}),
                &["upstream.hash_on header has no effect"],
            ),
            (json!({"upstream": {"type": "chash", "key": "uri"}}), &["upstream.key uri has no effect"]),
            (json!({"upstream": {"type": "chash", "key": "remote_addr"}}), &[]),
            (
                json!({"plugins": {"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream": {"pass_host": "node"}}]}]}}}),
                &[
                    "plugins.traffic-split.rules[0].weighted_upstreams[0].upstream.pass_host node has no effect",
                ],
            ),
        ];
        for (value, expected) in cases {
            let object = Object {
                kind: Kind::StreamRoute,
                id: "1".into(),
                document: Document::new(value),
                created: 1,
                modified: 1,
                fault: None,
                unread: None,
            };
            let found = of(&object, Matching::default());
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(*expected) {
                assert!(found.starts_with(*expected), "{found}");
            }
        }
    }
}
