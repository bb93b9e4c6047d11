//! Services and upstreams to upstreams, certificates to ssls.

use serde_json::{Map, Value, json};
use tidegate_config::yaml::Node;

use super::{
    converted::vault_reference,
    entities::Entities,
    node::{children, key_text, label, name},
};
use crate::{
    fields::{self, Fields},
    imported::Imported,
};

/// Where a service sends requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    pub protocol: String,
    pub host: String,
    pub port: i64,
    /// Without a slash at the end; empty for the root.
    pub path: String,
    /// Whether there is one.
    pub has_slash: bool,
}

/// Reads a service; `None` says that its protocol is not HTTP.
pub(super) fn target(service: &Node, imported: &mut Imported) -> Option<Target> {
    let subject = label("service", service);
    let (mut protocol, mut host, mut port, mut path) = ("http".to_owned(), String::new(), None, None);
    if let Some(url) = key_text(service, "url") {
        let (scheme, rest) = url.split_once("://").unwrap_or(("http", &url));
        let (authority, tail) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (name, number) = split_port(authority);
        (protocol, host, port) = (scheme.to_owned(), name, number);
        path = Some(tail.to_owned());
    }
    protocol = key_text(service, "protocol").unwrap_or(protocol);
    host = key_text(service, "host").unwrap_or(host);
    path = key_text(service, "path").or(path);
    #[allow(clippy::cast_possible_truncation)]
    let given = service.get("port").and_then(fields::number).map(|port| port as i64);
    if !["http", "https", "grpc", "grpcs"].contains(&protocol.as_str()) {
        let why = format!("protocol {protocol} is left out; http, https, grpc and grpcs are converted");
        imported.report.unsupported(service.line, &subject, &why);
        return None;
    }
    if host.is_empty() {
        imported.report.unsupported(service.line, &subject, "it has neither `url` nor `host`");
        return None;
    }
    let default = if matches!(protocol.as_str(), "https" | "grpcs") && key_text(service, "url").is_some() {
        443
    } else {
        80
    };
    let path = path.unwrap_or_default();
    let has_slash = path.ends_with('/');
    let path = path.trim_end_matches('/').to_owned();
    Some(Target { protocol, host, port: given.or(port).unwrap_or(default), path, has_slash })
}

/// The upstream object of a service.
pub(super) fn upstream(
    entities: &Entities,
    service: &Node,
    target: &Target,
    preserve_host: bool,
    imported: &mut Imported,
) -> Value {
    let fields = Fields::new(service, label("service", service));
    fields.skip(&[
        "id",
        "name",
        "url",
        "protocol",
        "host",
        "port",
        "path",
        "routes",
        "plugins",
        "filter_chains",
        "tags",
    ]);
    fields.skip(&["enabled", "created_at", "updated_at"]);
    let seconds = |key: &str| fields.number(key).unwrap_or(60_000.0) / 1000.0;
    let mut object = json!({
        "scheme": target.protocol,
        "retries": fields.integer("retries").unwrap_or(5),
        "timeout": {
            "connect": seconds("connect_timeout"),
            "send": seconds("write_timeout"),
            "read": seconds("read_timeout"),
        },
        "pass_host": if preserve_host { "pass" } else { "node" },
    });
    let encrypts = matches!(target.protocol.as_str(), "https" | "grpcs");
    if fields.flag("tls_verify") == Some(true) && encrypts {
        object["tls"] = json!({"verify": true});
    }
    let balanced = entities.upstreams.named(&target.host);
    if encrypts {
        present_certificate(entities, &fields, balanced, &mut object, imported);
    }
    fields.finish(&mut imported.report);
    match balanced {
        Some(upstream) => balance(entities, upstream, preserve_host, &mut object, imported),
        None => {
            object["type"] = "roundrobin".into();
            object["nodes"] = json!([{"host": target.host, "port": target.port, "weight": 1}]);
        }
    }
    object
}

const CLIENT_CERTIFICATE: &str = "client_certificate";

/// What nodes are shown: the certificate of the service, else that of its upstream.
fn present_certificate(
    entities: &Entities,
    service: &Fields,
    balanced: Option<&Node>,
    object: &mut Value,
    imported: &mut Imported,
) {
    let own = service.get(CLIENT_CERTIFICATE);
    let wanted = own.or_else(|| balanced?.get(CLIENT_CERTIFICATE).filter(|node| !node.is_null()));
    let Some(wanted) = wanted else { return };
    let found = entities.certificates.find(Some(wanted));
    let pair = found.and_then(|node| key_text(node, "cert").zip(key_text(node, "key")));
    let Some((cert, key)) = pair.filter(|_| found.and_then(vault_reference).is_none()) else {
        let why = "`client_certificate` is not a certificate of the file with `cert` and `key`; nodes are shown none";
        imported.report.unsupported(wanted.line, service.subject(), why);
        return;
    };
    object["tls"]["client_cert"] = cert.into();
    object["tls"]["client_key"] = key.into();
}

/// The certificates that services and upstreams show to nodes.
fn shown_to_nodes<'a>(entities: &Entities<'a>) -> Vec<&'a Node> {
    let owners = entities.services.iter().chain(entities.upstreams.iter());
    owners.filter_map(|owner| entities.certificates.find(owner.get(CLIENT_CERTIFICATE))).collect()
}

fn balance(
    entities: &Entities,
    node: &Node,
    preserve_host: bool,
    object: &mut Value,
    imported: &mut Imported,
) {
    let subject = label("upstream", node);
    let fields = Fields::new(node, &subject);
    fields.skip(&["id", "name", "tags", "slots", "created_at", "updated_at"]);
    fields.skip_defaults(&[
        ("hash_fallback", "none"),
        ("hash_on_cookie_path", "/"),
        ("sticky_sessions_cookie_path", "/"),
    ]);
    let own = fields.list("targets").iter();
    let loose = entities.loose_targets.of(node).iter().copied();
    let nodes: Vec<Value> = own
        .chain(loose)
        .filter_map(|target| {
            let (host, port) = split_port(&key_text(target, "target")?);
            let weight = target.get("weight").and_then(fields::number).unwrap_or(100.0);
            #[allow(clippy::cast_possible_truncation)]
            Some(json!({"host": host, "port": port.unwrap_or(8000), "weight": weight as i64}))
        })
        .collect();
    object["nodes"] = nodes.into();
    let algorithm = fields.text("algorithm").unwrap_or_else(|| "round-robin".to_owned());
    let hashed = fields.text("hash_on").unwrap_or_else(|| "none".to_owned());
    object["type"] = match algorithm.as_str() {
        "least-connections" => "least_conn",
        "latency" => "ewma",
        // Before 2.0 hashing was asked for by `hash_on` alone.
        _ if hashed != "none" => "chash",
        _ => "roundrobin",
    }
    .into();
    if object["type"] == "chash" {
        hash_on(&hashed, &fields, object, imported);
    }
    if let Some(host) = fields.text("host_header").filter(|_| !preserve_host) {
        object["pass_host"] = "rewrite".into();
        object["upstream_host"] = host.into();
    }
    let checks = checks(&fields.inner("healthchecks"), imported);
    let probes_tls =
        checks.as_ref().and_then(|checks| checks.pointer("/active/type")) == Some(&json!("https"));
    if object.pointer("/tls/client_cert").is_some()
        && let Some(own) = fields.get(CLIENT_CERTIFICATE)
        && probes_tls
    {
        let how = "probes show no `client_certificate`";
        imported.report.approximated(own.line, &subject, how);
    }
    if let Some(checks) = checks {
        object["checks"] = checks;
    }
    fields.finish(&mut imported.report);
    imported.report.converted(node.line, &subject);
}

fn hash_on(hashed: &str, fields: &Fields, object: &mut Value, imported: &mut Imported) {
    let (on, key) = match hashed {
        "consumer" => ("consumer", None),
        "ip" => ("vars", Some("remote_addr".to_owned())),
        "path" => ("vars", Some("uri".to_owned())),
        "header" => ("header", fields.text("hash_on_header")),
        "cookie" => ("cookie", fields.text("hash_on_cookie")),
        "query_arg" => ("vars", fields.text("hash_on_query_arg").map(|name| format!("arg_{name}"))),
        other => {
            let why = format!("hash_on {other} is left out; requests are hashed by the client's address");
            imported.report.unsupported(fields.line(), fields.subject(), &why);
            ("vars", Some("remote_addr".to_owned()))
        }
    };
    fields.skip(&["hash_on_cookie_path"]);
    if fields.text("hash_fallback").is_some_and(|fallback| fallback != "none") {
        let how = "without the value to hash by, the client's address is taken";
        imported.report.approximated(fields.line(), fields.subject(), how);
        fields.skip(&["hash_fallback_header", "hash_fallback_query_arg"]);
    }
    object["hash_on"] = on.into();
    if let Some(key) = key {
        object["key"] = key.into();
    }
}

/// Zero means off in Kong, for each of the counters and both intervals.
fn checks(fields: &Fields, imported: &mut Imported) -> Option<Value> {
    let active = fields.inner("active");
    let passive = fields.inner("passive");
    fields.skip(&["threshold"]);
    let side = |half: &Fields, name: &str, keys: &[(&str, &str)]| {
        let inner = half.inner(name);
        let mut object = Map::new();
        for (theirs, ours) in keys {
            if let Some(value) = inner.integer(theirs).filter(|value| *value > 0) {
                object.insert((*ours).to_owned(), value.into());
            }
        }
        let statuses: Vec<i64> =
            inner.texts("http_statuses").iter().filter_map(|text| text.parse().ok()).collect();
        if !statuses.is_empty() {
            object.insert("http_statuses".to_owned(), statuses.into());
        }
        object
    };
    let good = [("interval", "interval"), ("successes", "successes")];
    let bad = [
        ("interval", "interval"),
        ("http_failures", "http_failures"),
        ("tcp_failures", "tcp_failures"),
        ("timeouts", "timeouts"),
    ];
    let (healthy, unhealthy) = (side(&active, "healthy", &good), side(&active, "unhealthy", &bad));
    let probes = healthy.contains_key("interval") || unhealthy.contains_key("interval");
    let (up, down) = (side(&passive, "healthy", &good[1..]), side(&passive, "unhealthy", &bad[1..]));
    let watches = ["http_failures", "tcp_failures", "timeouts"].iter().any(|key| down.contains_key(*key));
    let kind = active.text("type").unwrap_or_else(|| "http".to_owned());
    let mut checks = Map::new();
    if probes || watches {
        let mut object = json!({
            "type": kind,
            "http_path": active.text("http_path").unwrap_or_else(|| "/".to_owned()),
            "timeout": active.number("timeout").unwrap_or(1.0),
            "concurrency": active.integer("concurrency").unwrap_or(10),
            "healthy": healthy,
            "unhealthy": unhealthy,
        });
        if kind == "https" {
            object["https_verify_certificate"] =
                active.flag("https_verify_certificate").unwrap_or(true).into();
        }
        if !probes {
            let how = "passive checks need probes to take a node back; they are on with their defaults";
            imported.report.approximated(fields.line(), fields.subject(), how);
        }
        checks.insert("active".to_owned(), object);
    }
    if watches {
        let kind = passive.text("type").unwrap_or(kind);
        checks.insert("passive".to_owned(), json!({"type": kind, "healthy": up, "unhealthy": down}));
    }
    (!checks.is_empty()).then_some(Value::Object(checks))
}

pub(super) fn certificates(entities: &Entities, imported: &mut Imported) {
    let shown = shown_to_nodes(entities);
    for node in entities.certificates.iter() {
        let subject = label("certificate", node);
        let fields = Fields::new(node, &subject);
        fields.skip(&["id", "tags", "created_at", "updated_at"]);
        let own = children(node, "snis")
            .iter()
            .filter_map(|sni| key_text(sni, "name").or_else(|| fields::text(sni)));
        let loose = entities.loose_snis.of(node).iter();
        let snis: Vec<String> = own.chain(loose.filter_map(|sni| key_text(sni, "name"))).collect();
        fields.skip(&["snis"]);
        let (cert, key) = (fields.text("cert"), fields.text("key"));
        fields.finish(&mut imported.report);
        match (cert, key) {
            (Some(cert), Some(key)) if !snis.is_empty() => {
                let id = imported.output.id("ssls", &name(node));
                imported.output.add("ssls", &id, json!({"cert": cert, "key": key, "snis": snis}));
                imported.report.made("ssls", &id, node.line);
                imported.report.converted(node.line, &subject);
            }
            // It is in the upstreams.
            (Some(_), Some(_)) if shown.iter().any(|other| std::ptr::eq(*other, *node)) => {
                imported.report.converted(node.line, &subject);
            }
            _ => imported.report.unsupported(
                node.line,
                &subject,
                "it needs `cert`, `key` and at least one sni",
            ),
        }
    }
}

/// `host:port`, `[::1]:port`.
fn split_port(authority: &str) -> (String, Option<i64>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host.to_owned(), port.parse().ok())
        }
        _ => (authority.to_owned(), None),
    }
}
