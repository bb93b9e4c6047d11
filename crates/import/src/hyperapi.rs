//! hyperapi's configuration, in the three shapes in circulation: the code's, the older documentation's (settings
//! beside the type, maps for headers, paths without slash, milliseconds) and the one of its published load test.

mod clients;
mod filters;

use serde_json::{Map, Value, json};
use tidegate_config::yaml::Node;

use crate::{
    Report,
    fields::{self, Fields},
    imported::Imported,
    literal,
    names::{folded, words_of_path},
};
use clients::Client;

pub(crate) fn convert(root: &Node, imported: &mut Imported) -> Result<(), String> {
    literal::require_plain_texts(root)?;
    let top = Fields::new(root, "file");
    if top.get("services").is_none() {
        return Err(format!("{}: no list `services`; hyperapi's configuration has one", root.line));
    }
    let clients = clients::convert(top.list("clients"), imported);
    for node in top.list("services") {
        service(node, &clients, imported);
    }
    top.finish(&mut imported.report);
    Ok(())
}

fn service(node: &Node, clients: &[Client], imported: &mut Imported) {
    let id = node.get("service_id").and_then(fields::text).unwrap_or_else(|| {
        let path = node.get("path").and_then(fields::text).unwrap_or_default();
        format!("{}-{:04x}", words_of_path(&path), folded(&path))
    });
    let subject = format!("service {id}");
    let fields = Fields::new(node, &subject);
    fields.skip(&["service_id", "protocol"]);
    let Some(path) = fields.text("path") else {
        return imported.report.unsupported(node.line, &subject, "`path` is missing");
    };
    let path = format!("/{}", path.trim_matches('/'));
    let (upstream, base, mut plugins) = upstream(&fields, &mut imported.report);
    let Some(upstream) = upstream else {
        return imported.report.unsupported(node.line, &subject, "no upstream of it has a usable `target`");
    };
    let base = literal::in_replacement(&base);
    let bare = if base.is_empty() { "/" } else { &base };
    plugins.insert(
        "proxy-rewrite".to_owned(),
        json!({"regex_uri": ["^/[^/]+$", bare, "^/[^/]+(/.*)$", format!("{base}$1")]}),
    );
    let members: Vec<(&str, &str)> = clients.iter().filter_map(|client| client.on(&id)).collect();
    let authenticates = authentication(&fields, &members, &mut plugins, &mut imported.report);
    let mut rules = Vec::new();
    for filter in fields.list("filters") {
        filters::on_service(filter, &path, &mut plugins, &mut rules, &mut imported.report);
    }
    for sla in fields.list("sla") {
        let name = sla.get("name").and_then(fields::text).unwrap_or_default();
        let names: Vec<&str> =
            members.iter().filter(|(_, member)| *member == name).map(|(client, _)| *client).collect();
        for filter in sla.get("filters").map(fields::list).unwrap_or_default() {
            if authenticates && !names.is_empty() {
                let level = (name.as_str(), names.as_slice());
                filters::on_sla(filter, &path, level, &mut plugins, &mut rules, &mut imported.report);
            }
        }
    }
    filters::members(&mut plugins, &members);
    if !rules.is_empty() {
        plugins.insert("workflow".to_owned(), json!({"rules": rules}));
    }
    fields.finish(&mut imported.report);
    let route_id = imported.output.id("routes", &id);
    let uris = [path.clone(), format!("{path}/*")];
    for collection in ["upstreams", "routes"] {
        imported.report.made(collection, &route_id, node.line);
    }
    imported.output.add("upstreams", &route_id, upstream);
    imported.output.add(
        "routes",
        &route_id,
        json!({"uris": uris, "plugins": plugins, "upstream_id": route_id}),
    );
    imported.report.converted(node.line, &subject);
}

/// Whether there will be a consumer.
fn authentication(
    fields: &Fields,
    members: &[(&str, &str)],
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> bool {
    let auth = fields.get("auth");
    let kind = auth.and_then(|auth| auth.get("type").and_then(fields::text).or_else(|| fields::text(auth)));
    match kind.as_deref() {
        Some("AppKey") => _ = plugins.insert("app-key".to_owned(), json!({"rejected_code": 502})),
        Some("JWT") => {
            let how = "a request without a valid token is answered 401 and not 502";
            report.approximated(fields.line(), fields.subject(), how);
            let conf = json!({"key_claim_name": "sub", "claims_to_verify": ["exp"]});
            plugins.insert("jwt-auth".to_owned(), conf);
        }
        None | Some("None") => return false,
        Some(other) => {
            // The file does not ask for a route that is open to all.
            let why = format!("auth {other} is not known; all requests are refused");
            report.unsupported(fields.line(), fields.subject(), &why);
            plugins.insert("app-key".to_owned(), json!({"rejected_code": 502}));
        }
    }
    let known = sla_names(fields);
    let mut allowed: Vec<&str> = members
        .iter()
        .filter(|(_, sla)| known.iter().any(|name| name == sla))
        .map(|(client, _)| *client)
        .collect();
    if allowed.is_empty() {
        // The list must not be empty; no consumer has this name, which is not valid for one.
        allowed.push("(nobody)");
    }
    plugins.insert("consumer-restriction".to_owned(), json!({"whitelist": allowed, "rejected_code": 502}));
    true
}

fn sla_names(fields: &Fields) -> Vec<String> {
    fields.list("sla").iter().filter_map(|sla| sla.get("name").and_then(fields::text)).collect()
}

/// The upstream, the path that all targets have in common, and the plugins that guard it.
fn upstream(fields: &Fields, report: &mut Report) -> (Option<Value>, String, Map<String, Value>) {
    let (mut nodes, mut base, mut plugins) = (Vec::new(), None, Map::new());
    let mut scheme = "http";
    for node in fields.list("upstreams") {
        let one = Fields::new(node, format!("{}: upstream", fields.subject()));
        one.skip(&["id", "version", "timeout"]);
        let Some(target) = one.text("target") else {
            report.unsupported(one.line(), one.subject(), "`target` is missing");
            continue;
        };
        let (protocol, rest) = target.split_once("://").unwrap_or(("http", &target));
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let path = path.trim_end_matches('/').to_owned();
        if base.as_ref().is_some_and(|base| *base != path) {
            report.unsupported(
                one.line(),
                one.subject(),
                "its path differs from the first one's; it is left out",
            );
            continue;
        }
        base = Some(path);
        if protocol == "https" {
            scheme = "https";
        }
        let default = if protocol == "https" { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse::<u16>().unwrap_or(default)),
            None => (authority, default),
        };
        let mut node = json!({"host": host, "port": port, "weight": one.integer("weight").unwrap_or(100)});
        if let Some(limit) = one.integer("max_conn").filter(|limit| *limit > 0) {
            node["max_conn"] = limit.into();
        }
        nodes.push(node);
        breaker(&one, &mut plugins, report);
        one.finish(report);
    }
    let given = fields.number("timeout").unwrap_or(3.0);
    // No upstream is given a quarter of an hour: it is the older shape, in milliseconds.
    let seconds = if given >= 1000.0 { given / 1000.0 } else { given };
    let mut object = json!({
        "scheme": scheme,
        "nodes": nodes,
        "timeout": {"connect": seconds, "send": seconds, "read": seconds},
        "type": "roundrobin",
    });
    let several = nodes.len() > 1;
    match fields.text("load_balance").as_deref() {
        Some("conn") if several => object["type"] = "least_conn".into(),
        Some("load") if several => object["type"] = "ewma".into(),
        Some("hash") if several => {
            let how = "hash: consistent, and without X-LB-HASH by the client's address";
            report.approximated(fields.line(), fields.subject(), how);
            object["type"] = "chash".into();
            object["hash_on"] = "header".into();
            object["key"] = "X-LB-HASH".into();
        }
        _ => {}
    }
    ((!nodes.is_empty()).then_some(object), base.unwrap_or_default(), plugins)
}

/// The first upstream's values count for all, as in hyperapi.
fn breaker(one: &Fields, plugins: &mut Map<String, Value>, report: &mut Report) {
    let (threshold, delay) =
        (one.integer("error_threshold").unwrap_or(0), one.integer("retry_delay").unwrap_or(3));
    one.skip(&["error_reset"]);
    if threshold <= 0 || plugins.contains_key("api-breaker") {
        return;
    }
    let how = "the circuit breaker: errors in a row are counted, and it stays open for 2 seconds and then longer, \
               up to retry_delay (at least 3 s)";
    report.approximated(one.line(), one.subject(), how);
    let conf = json!({
        "break_response_code": 502,
        "max_breaker_sec": delay.max(3),
        "unhealthy": {"http_statuses": [500, 501, 502, 503, 504], "failures": threshold},
        "healthy": {"http_statuses": [200, 201, 204, 301, 302, 304, 400, 401, 403, 404], "successes": 1},
    });
    plugins.insert("api-breaker".to_owned(), conf);
}
