//! `proxy_pass`, upstream groups, and what else stands beside them.

use serde_json::{Map, Value, json};

use super::{Context, Place, answers, limits, parse::Directive};
use crate::Report;

/// The directives of a name that count: those of the innermost block that has any.
pub fn effective<'a>(scopes: &[&'a [Directive]; 3], name: &str) -> Vec<&'a Directive> {
    let of = |scope: &&'a [Directive]| -> Vec<&'a Directive> {
        scope.iter().filter(|directive| directive.name == name).collect()
    };
    scopes.iter().map(of).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The upstream of a `proxy_pass`; `None` if it cannot be told.
pub fn pass(
    directive: &Directive,
    place: &Place,
    scopes: &[&[Directive]; 3],
    context: &Context,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) -> Option<Value> {
    let url = directive.argument(0);
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    if url.contains('$') || !["http", "https"].contains(&scheme) || rest.starts_with("unix:") {
        report.unsupported(directive.line, "proxy_pass", "variables and unix sockets are left out");
        return None;
    }
    let (authority, path) = rest.find('/').map_or((rest, None), |at| (&rest[..at], Some(&rest[at..])));
    let mut upstream = match context.groups.get(authority) {
        Some(group) => self::group(group, report),
        None => json!({"type": "roundrobin", "nodes": [node(authority, scheme, 1)]}),
    };
    upstream["scheme"] = scheme.into();
    host(scopes, authority, context.groups.contains_key(authority), &mut upstream);
    let seconds = |name: &str| {
        effective(scopes, name).first().and_then(|found| time(found.argument(0))).unwrap_or(60.0)
    };
    upstream["timeout"] = json!({
        "connect": seconds("proxy_connect_timeout"),
        "send": seconds("proxy_send_timeout"),
        "read": seconds("proxy_read_timeout"),
    });
    match (path, place) {
        (None, _) => {}
        (Some(base), Place::Exact(_)) => {
            plugins.insert("proxy-rewrite".to_owned(), json!({"uri": base}));
        }
        (Some(base), Place::Prefix { path, .. }) if base != path => {
            let pattern = format!("^{}(.*)$", regex::escape(path));
            plugins.insert("proxy-rewrite".to_owned(), json!({"regex_uri": [pattern, format!("{base}$1")]}));
        }
        (Some(_), Place::Prefix { .. }) => {}
        (Some(_), Place::Regex(_)) => {
            report.unsupported(directive.line, "proxy_pass", "nginx refuses a path here too");
            return None;
        }
    }
    Some(upstream)
}

fn node(address: &str, scheme: &str, weight: i64) -> Value {
    let default = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().unwrap_or(default)),
        None => (address, default),
    };
    json!({"host": host, "port": port, "weight": weight})
}

fn group(group: &Directive, report: &mut Report) -> Value {
    let mut upstream = json!({"type": "roundrobin"});
    let mut nodes = Vec::new();
    for directive in &group.block {
        match directive.name.as_str() {
            "server" => nodes.extend(member(directive, report)),
            "least_conn" => upstream["type"] = "least_conn".into(),
            "ip_hash" => {
                report.approximated(directive.line, "ip_hash", "hashed consistently, by the whole address");
                upstream["type"] = "chash".into();
                upstream["key"] = "remote_addr".into();
            }
            "keepalive" => {
                if let Ok(size) = directive.argument(0).parse::<u32>() {
                    upstream["keepalive_pool"] = json!({"size": size, "idle_timeout": 60, "requests": 1000});
                }
            }
            other => report.unsupported(directive.line, other, "this directive is left out"),
        }
    }
    upstream["nodes"] = nodes.into();
    report.converted(group.line, &format!("upstream {}", group.argument(0)));
    upstream
}

fn member(directive: &Directive, report: &mut Report) -> Option<Value> {
    let mut weight = 1;
    let mut priority = 0;
    for word in directive.arguments.iter().skip(1) {
        match word.split_once('=') {
            Some(("weight", number)) => weight = number.parse().unwrap_or(1),
            None if word == "backup" => priority = -1,
            None if word == "down" => return None,
            _ => report.unsupported(directive.line, "server", &format!("`{word}` is left out")),
        }
    }
    let mut node = node(directive.argument(0), "http", weight);
    node["priority"] = priority.into();
    Some(node)
}

/// Without a word on it nginx sends the name that `proxy_pass` has.
fn host(scopes: &[&[Directive]; 3], authority: &str, is_group: bool, upstream: &mut Value) {
    let headers = effective(scopes, "proxy_set_header");
    let given = headers.iter().find(|header| header.argument(0).eq_ignore_ascii_case("host"));
    let literal = match given.map(|header| header.argument(1)) {
        Some("$host" | "$http_host") => {
            upstream["pass_host"] = "pass".into();
            return;
        }
        Some(text) if !text.contains('$') => text,
        _ if is_group => authority,
        _ => {
            upstream["pass_host"] = "node".into();
            return;
        }
    };
    upstream["pass_host"] = "rewrite".into();
    upstream["upstream_host"] = literal.into();
}

/// `5`, `5s`, `500ms`, `1m`.
fn time(text: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

pub fn extras(
    scopes: &[&[Directive]; 3],
    context: &Context,
    plugins: &mut Map<String, Value>,
    report: &mut Report,
) {
    let (mut set, mut remove) = (Map::new(), Vec::new());
    for header in effective(scopes, "proxy_set_header") {
        let (name, value) = (header.argument(0), header.argument(1));
        // The gateway writes these itself, as this line would.
        let own = ["host", "connection", "upgrade"].contains(&name.to_lowercase().as_str());
        if own || value == "$proxy_add_x_forwarded_for" {
            continue;
        }
        match value {
            "" => remove.push(name.to_owned()),
            _ => _ = set.insert(name.to_owned(), value.into()),
        }
    }
    if !set.is_empty() || !remove.is_empty() {
        let rewrite = plugins.entry("proxy-rewrite").or_insert_with(|| json!({}));
        let mut headers = Map::new();
        if !set.is_empty() {
            headers.insert("set".to_owned(), set.into());
        }
        if !remove.is_empty() {
            headers.insert("remove".to_owned(), remove.into());
        }
        rewrite["headers"] = headers.into();
    }
    answers::headers(scopes, plugins, report);
    answers::gzip(scopes, plugins, report);
    if let Some(bytes) =
        effective(scopes, "client_max_body_size").first().and_then(|size| bytes(size.argument(0)))
    {
        plugins.insert("client-control".to_owned(), json!({"max_body_size": bytes}));
    }
    if effective(scopes, "proxy_request_buffering").first().is_some_and(|switch| switch.argument(0) == "off")
    {
        plugins.insert("proxy-control".to_owned(), json!({"request_buffering": false}));
    }
    limits::requests(scopes, &context.zones, plugins, report);
    limits::connections(scopes, &context.zones, plugins, report);
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.to_lowercase();
    let units = [("k", 1024), ("m", 1 << 20), ("g", 1 << 30), ("", 1)];
    units.iter().find_map(|(unit, factor)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*factor))
}
