//! Fields of stream routes that are about requests: sessions have no host, no header fields and no consumers.

use std::net::IpAddr;

use serde_json::Value;

use super::{
    Matching,
    together::{is_disabled, plugins, upstream_of},
    without::each_inline_upstream,
};
use crate::{Kind, Object, Objects, PluginCatalog};

/// Variables that only requests have, and that keys of hashes may name.
const OF_REQUESTS: [&str; 6] = ["uri", "request_uri", "query_string", "host", "hostname", "server_name"];

pub(super) fn of(
    object: &Object,
    matching: Matching,
    catalog: &dyn PluginCatalog,
    all: &dyn Objects,
) -> Vec<String> {
    if object.kind != Kind::StreamRoute {
        return Vec::new();
    }
    let value = object.value();
    let mut found: Vec<String> = name(&value).into_iter().chain(port(&value, matching)).collect();
    found.extend(unread_name(&value, matching));
    found.extend(uncertified_name(&value, matching, all));
    found.extend(address(&value, matching));
    found.extend(of_service(&value, catalog, all));
    found.extend(without_format(&value, all));
    found.extend(of_udp(&value, matching, catalog, all));
    found.extend(without_port(&value, all));
    value.get("upstream").into_iter().for_each(|value| upstream(value, "upstream.", &mut found));
    if let Some(conf) = value.pointer("/plugins/traffic-split") {
        each_inline_upstream(conf, &mut |value, path| upstream(value, path, &mut found));
    }
    found
}

/// Plugins of a service guard its requests, and sessions only where they are for those, too.
fn of_service(value: &Value, catalog: &dyn PluginCatalog, all: &dyn Objects) -> Option<String> {
    let id = value.get("service_id").map(|id| id.as_str().map_or_else(|| id.to_string(), str::to_owned))?;
    let service = all.get(Kind::Service, &id)?.value();
    let plugins = service.get("plugins")?.as_object()?.keys();
    let names: Vec<&str> = plugins.map(String::as_str).filter(|name| catalog.facts(name).is_none()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "plugins of service {id} that are for requests do not run on its sessions: {}",
            names.join(", ")
        )
    })
}

/// Entries about requests have a form of their own; those about sessions have none.
fn without_format(value: &Value, all: &dyn Objects) -> Option<String> {
    let conf = value.pointer("/plugins/syslog")?;
    let metadata = all.get(Kind::PluginMetadata, "syslog").map(|object| object.value());
    let has_one = |value: &Value| value.get("log_format").is_some_and(|format| !format.is_null());
    let is_set = has_one(conf) || metadata.is_some_and(|value| has_one(&value));
    (!is_set).then(|| "plugins.syslog sends nothing without log_format, here or in its metadata".to_owned())
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
    is_udp(port, matching).then(|| {
        format!("sni {name} matches no session: port {port} is one of UDP, whose sessions have no name")
    })
}

fn is_udp(port: u64, matching: Matching) -> bool {
    matching.stream_ports.instead_of(port).is_none() && matching.tcp_ports.instead_of(port).is_some()
}

/// What sessions of UDP are closed for.
fn of_udp(value: &Value, matching: Matching, catalog: &dyn PluginCatalog, all: &dyn Objects) -> Vec<String> {
    let port = value.get("server_port").and_then(Value::as_u64);
    let Some(port) = port.filter(|port| matching.stream && is_udp(*port, matching)) else {
        return Vec::new();
    };
    let mut wrong = Vec::new();
    let scheme = upstream_of(value, all).and_then(|upstream| upstream.get("scheme").cloned());
    if scheme.is_some_and(|scheme| scheme == "tls") {
        wrong.push("scheme tls of its upstream is for TCP; write udp".to_owned());
    }
    if let Some(name) = value.pointer("/protocol/name").and_then(Value::as_str) {
        wrong.push(format!("protocol {name} is for TCP; write a port of apisix.stream_proxy.tcp"));
    }
    let own = plugins(value).into_iter().flatten().filter(|(_, conf)| !is_disabled(conf));
    let only_tcp = own.filter(|(name, _)| catalog.facts(name).is_some_and(|facts| facts.only_tcp));
    wrong.extend(
        only_tcp
            .map(|(name, _)| format!("plugin {name} is for TCP; write a port of apisix.stream_proxy.tcp")),
    );
    wrong
        .iter()
        .map(|wrong| format!("sessions at port {port}, which is one of UDP, are closed: {wrong}"))
        .collect()
}

/// Nodes of sessions have no port that goes without saying.
fn without_port(value: &Value, all: &dyn Objects) -> Option<String> {
    let upstream = upstream_of(value, all)?;
    let nodes = upstream.get("nodes")?;
    let has_port = |address: &str| {
        let (host, end) = address.rsplit_once(':').unwrap_or((address, ""));
        let is_whole = host.contains(':') && !host.ends_with(']');
        !is_whole && end.parse::<u16>().is_ok()
    };
    let keys = nodes.as_object().into_iter().flatten().map(|(address, _)| address.as_str());
    let listed =
        nodes.as_array().into_iter().flatten().filter(|node| node.get("port").is_none_or(Value::is_null));
    let mut names = keys.chain(listed.filter_map(|node| node.get("host")?.as_str()));
    let name = names.find(|name| !has_port(name))?;
    let port = if upstream.get("scheme").is_some_and(|scheme| scheme == "tls") { 443 } else { 80 };
    Some(format!("its node {name} has no port, so sessions go to port {port}; write {name}:PORT"))
}

/// Where TLS ends, a handshake for a name that no certificate is for fails before a route is chosen.
fn uncertified_name(value: &Value, matching: Matching, all: &dyn Objects) -> Option<String> {
    let name = value.get("sni")?.as_str().filter(|_| matching.stream)?;
    let ends = match value.get("server_port").and_then(Value::as_u64) {
        Some(port) => matching.tls_ports.has(port),
        None => !matching.tls_ports.is_unknown() && !matching.tls_ports.is_none(),
    };
    let is_certified = || {
        let objects = ["snis", "sni"].into_iter().flat_map(|field| all.with_field(field));
        objects.filter(|object| object.kind == Kind::Ssl).any(|object| serves(&object.value(), name))
    };
    (ends && !is_certified()).then(|| {
        format!("sni {name} matches no session: no ssl object has the name, so the TLS handshakes for it fail; write one")
    })
}

/// Whether an ssl object is for names that `name` stands for.
fn serves(ssl: &Value, name: &str) -> bool {
    let is_off = ssl.get("status").and_then(Value::as_u64) == Some(0);
    let is_client = ssl.get("type").and_then(Value::as_str) == Some("client");
    let names = ssl.get("snis").and_then(Value::as_array).into_iter().flatten().chain(ssl.get("sni"));
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let covers = |own: &str| {
        let own = own.trim_end_matches('.').to_ascii_lowercase();
        let below =
            |pattern: &str, name: &str| pattern.strip_prefix('*').is_some_and(|end| name.ends_with(end));
        own == name || below(&own, &name) || below(&name, &own)
    };
    !is_off && !is_client && names.filter_map(Value::as_str).any(covers)
}

/// The listeners name their addresses, and none is in the range of the route.
fn address(value: &Value, matching: Matching) -> Option<String> {
    let range = value.get("server_addr")?.as_str().filter(|_| matching.stream)?;
    let own = matching.stream_listeners.addresses(value.get("server_port").and_then(Value::as_u64))?;
    let has = |address: &IpAddr| contains(range, *address).unwrap_or(true);
    if own.iter().any(has) {
        return None;
    }
    let mut shown: Vec<String> = own.iter().map(IpAddr::to_string).collect();
    shown.dedup();
    Some(format!(
        "server_addr {range} matches no session: the gateway listens for them on {} only; add the address to apisix.stream_proxy",
        shown.join(", ")
    ))
}

/// Whether an address or network has an address; `None`: it is neither.
fn contains(range: &str, address: IpAddr) -> Option<bool> {
    let (network, bits) =
        range.split_once('/').map_or((range, None), |(network, bits)| (network, Some(bits)));
    let network: IpAddr = network.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
    let (own, network, width) = match (address.to_canonical(), network.to_canonical()) {
        (IpAddr::V4(own), IpAddr::V4(network)) => {
            (u128::from(own.to_bits()), u128::from(network.to_bits()), 32)
        }
        (IpAddr::V6(own), IpAddr::V6(network)) => (own.to_bits(), network.to_bits(), 128),
        _ => return Some(false),
    };
    let bits: u32 = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width)?;
    let cut = |bits_of: u128| bits_of.checked_shr(width - bits).unwrap_or(0);
    Some(cut(own) == cut(network))
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

    struct Nothing;

    impl Objects for Nothing {
        fn get(&self, _: Kind, _: &str) -> Option<Object> {
            None
        }

        fn with_field(&self, _: &str) -> Vec<Object> {
            Vec::new()
        }

        fn of_kind(&self, _: Kind) -> Vec<Object> {
            Vec::new()
        }
    }

    #[test]
    fn addresses_in_ranges() {
        for (range, address, expected) in [
            ("10.1.0.0/16", "10.1.2.3", Some(true)),
            ("10.1.0.0/16", "10.2.2.3", Some(false)),
            ("0.0.0.0/0", "10.2.2.3", Some(true)),
            ("10.1.2.3", "10.1.2.3", Some(true)),
            ("::/0", "2001:db8::1", Some(true)),
            ("::1", "10.1.2.3", Some(false)),
            ("10.1.2.3/33", "10.1.2.3", None),
        ] {
            assert_eq!(contains(range, address.parse().expect("an address")), expected, "{range}");
        }
    }

    #[test]
    fn names_of_certificates() {
        for (ssl, name, expected) in [
            (json!({"snis": ["A.test"]}), "a.test", true),
            (json!({"sni": "*.test"}), "a.test", true),
            (json!({"sni": "a.test"}), "*.test", true),
            (json!({"snis": ["b.test"]}), "a.test", false),
            (json!({"snis": ["a.test"], "status": 0}), "a.test", false),
            (json!({"snis": ["a.test"], "type": "client"}), "a.test", false),
        ] {
            assert_eq!(serves(&ssl, name), expected, "{ssl}");
        }
    }

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
            let found = of(&object, Matching::default(), &crate::check::tests::Catalog, &Nothing);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            for (found, expected) in found.iter().zip(*expected) {
                assert!(found.starts_with(*expected), "{found}");
            }
        }
    }
}
