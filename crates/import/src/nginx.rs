//! nginx.conf: servers that proxy, redirect, answer or serve files. Certificates and rewrites are reported.
//!
//! nginx takes an exact location, else the longest prefix unless a regular expression matches and the prefix is not
//! `^~`. Our router goes by the longest path: regular expressions are entered under every prefix they beat.

mod files;
mod parse;
mod proxy;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{Imported, Report};
use parse::Directive;

/// Directives that set up the process or what is ours anyway: nothing is lost with them.
const QUIET: [&str; 19] = [
    "worker_processes",
    "worker_connections",
    "user",
    "pid",
    "events",
    "include",
    "sendfile",
    "tcp_nopush",
    "tcp_nodelay",
    "keepalive_timeout",
    "error_log",
    "types_hash_max_size",
    "server_tokens",
    "multi_accept",
    "use",
    "daemon",
    "listen",
    "proxy_http_version",
    "proxy_buffering",
];

pub fn convert(text: &str, imported: &mut Imported) -> Result<(), String> {
    let all = parse::parse(text)?;
    let http = all.iter().find(|directive| directive.name == "http");
    let body = http.map_or(all.as_slice(), |http| http.block.as_slice());
    for directive in all.iter().filter(|directive| http.is_some() && directive.name != "http") {
        left_out(directive, &mut imported.report);
    }
    let mut context = Context { groups: BTreeMap::new(), zones: BTreeMap::new() };
    for directive in body {
        match directive.name.as_str() {
            "server" => {}
            "upstream" => _ = context.groups.insert(directive.argument(0).to_owned(), directive),
            "limit_req_zone" => zone(directive, &mut context, &mut imported.report),
            name if is_inherited(name) => {}
            _ => left_out(directive, &mut imported.report),
        }
    }
    let servers: Vec<&Directive> = body.iter().filter(|directive| directive.name == "server").collect();
    if servers.is_empty() {
        return Err("1:1: no `server` block; give the whole nginx.conf or a file with servers".to_owned());
    }
    let chosen = servers.iter().position(|server| {
        server.all("listen").any(|listen| listen.arguments.iter().any(|word| word == "default_server"))
    });
    for (index, server) in servers.iter().enumerate() {
        let is_default = index == chosen.unwrap_or(0);
        serve(server, body, is_default, &context, imported);
    }
    Ok(())
}

struct Context<'a> {
    groups: BTreeMap<String, &'a Directive>,
    /// Zone of limit_req: variable, requests per second.
    zones: BTreeMap<String, (String, f64)>,
}

/// Counts for inner blocks that do not have it themselves.
const INHERITED: [&str; 9] = [
    "proxy_set_header",
    "add_header",
    "gzip",
    "client_max_body_size",
    "proxy_connect_timeout",
    "proxy_send_timeout",
    "proxy_read_timeout",
    "limit_req",
    "limit_req_status",
];

fn is_inherited(name: &str) -> bool {
    INHERITED.contains(&name) || files::INHERITED.contains(&name)
}

fn left_out(directive: &Directive, report: &mut Report) {
    if !QUIET.contains(&directive.name.as_str()) {
        report.unsupported(directive.line, &directive.name, "this directive is left out");
    }
}

fn zone<'a>(directive: &'a Directive, context: &mut Context<'a>, report: &mut Report) {
    let variable = directive.argument(0).trim_start_matches('$').replace("binary_remote_addr", "remote_addr");
    let named = |key: &str| directive.arguments.iter().find_map(|word| word.strip_prefix(key));
    let name = named("zone=").and_then(|zone| zone.split(':').next());
    let rate = named("rate=").and_then(|rate| {
        let (number, per) = rate.split_once("r/")?;
        let number: f64 = number.parse().ok()?;
        Some(if per == "m" { number / 60.0 } else { number })
    });
    match (name, rate) {
        (Some(name), Some(rate)) if rate > 0.0 => {
            context.zones.insert(name.to_owned(), (variable, rate));
            report.converted(directive.line, &format!("limit_req_zone {name}"));
        }
        _ => left_out(directive, report),
    }
}

/// How a location matches.
#[derive(Clone, PartialEq)]
enum Place {
    Exact(String),
    Prefix { path: String, ends: bool },
    Regex(String),
}

fn place(location: &Directive) -> Option<Place> {
    let second = location.argument(1).to_owned();
    Some(match location.argument(0) {
        "=" => Place::Exact(second),
        "^~" => Place::Prefix { path: second, ends: true },
        "~" => Place::Regex(second),
        "~*" => Place::Regex(format!("(?i){second}")),
        path if path.starts_with('/') => Place::Prefix { path: path.to_owned(), ends: false },
        _ => return None,
    })
}

fn uri(place: &Place) -> String {
    match place {
        Place::Exact(path) => path.clone(),
        Place::Prefix { path, .. } => format!("{path}*"),
        Place::Regex(_) => "/*".to_owned(),
    }
}

fn serve(
    server: &Directive,
    http: &[Directive],
    is_default: bool,
    context: &Context,
    imported: &mut Imported,
) {
    let hosts = hosts(server, imported);
    let name = hosts.first().cloned().unwrap_or_else(|| "default".to_owned());
    let hosts = if is_default { Vec::new() } else { hosts };
    if !is_default && hosts.is_empty() {
        let why = "it is not the default server and has no usable `server_name`";
        return imported.report.unsupported(server.line, &format!("server {name}"), why);
    }
    for directive in &server.block {
        let known = ["location", "server_name", "return", "listen"].contains(&directive.name.as_str());
        let files = directive.name == "try_files";
        if !known && !files && !is_inherited(&directive.name) {
            left_out(directive, &mut imported.report);
        }
    }
    let locations: Vec<(&Directive, Place)> =
        server.all("location").filter_map(|location| Some((location, place(location)?))).collect();
    for location in server.all("location").filter(|location| place(location).is_none()) {
        imported.report.unsupported(location.line, "location", "named and relative locations are left out");
    }
    let add = |name: &str, uris: Vec<String>, priority: usize, mut route: Value, imported: &mut Imported| {
        if !hosts.is_empty() {
            route["hosts"] = hosts.clone().into();
        }
        route["uris"] = uris.into();
        route["priority"] = priority.into();
        let id = imported.output.id("routes", name);
        imported.output.add("routes", &id, route);
    };
    if let Some(answer) = server.one("return") {
        // It answers before any location is looked for.
        if let Some(plugins) = answered(answer, &mut imported.report) {
            add(&name, vec!["/*".to_owned()], 0, json!({"plugins": plugins}), imported);
        }
        return;
    }
    let mut everything = false;
    for (index, (location, place)) in locations.iter().enumerate() {
        let mut uris = vec![uri(place)];
        if let Place::Regex(_) = place {
            uris.extend(locations.iter().filter_map(|(_, other)| match other {
                Place::Prefix { ends: false, path } if path != "/" => Some(uri(other)),
                _ => None,
            }));
        }
        let scopes = [location.block.as_slice(), server.block.as_slice(), http];
        let converted = locate(location, place, &scopes, context, imported);
        let whole = converted.is_some();
        // Left out, its requests would go to the next shorter location, past whatever guarded this one.
        let mut route = converted.unwrap_or_else(|| json!({"plugins": not_converted()}));
        if let Place::Regex(pattern) = place {
            route["vars"] = json!([["uri", "~~", pattern]]);
        }
        everything |= matches!(place, Place::Prefix { path, .. } if path == "/");
        let priority = if matches!(place, Place::Regex(_)) { 1 + locations.len() - index } else { 0 };
        add(&format!("{name}-{}", location.line), uris, priority, route, imported);
        if whole {
            imported.report.converted(location.line, &format!("location {}", location.arguments.join(" ")));
        }
    }
    let own_files = [server.block.as_slice(), server.block.as_slice(), http];
    if !everything && files::serves(&own_files) {
        // What no location takes comes from the server's own directory.
        let rest = Place::Prefix { path: "/".to_owned(), ends: false };
        let closed = guard(&own_files).is_some_and(|guard| {
            let why =
                format!("`{}` of line {} is not converted: its files answer 501", guard.name, guard.line);
            imported.report.unsupported(server.line, &format!("server {name}"), &why);
            true
        });
        let converted = if closed {
            None
        } else {
            files::convert(server.line, &rest, &own_files, context, &mut imported.report)
        };
        let route = converted.unwrap_or_else(|| json!({"plugins": not_converted()}));
        add(&format!("{name}-files"), vec!["/*".to_owned()], 0, route, imported);
    } else if !everything && !is_default {
        // Its hosts must not end up at the default server.
        let abort = json!({"fault-injection": {"abort": {"http_status": 404}}});
        add(&format!("{name}-else"), vec!["/*".to_owned()], 0, json!({"plugins": abort}), imported);
    }
}

fn hosts(server: &Directive, imported: &mut Imported) -> Vec<String> {
    let mut hosts = Vec::new();
    for directive in server.all("server_name") {
        for name in &directive.arguments {
            match name.strip_prefix('.') {
                Some(domain) => hosts.extend([domain.to_owned(), format!("*.{domain}")]),
                None if name == "_" || name.is_empty() => {}
                None if name.starts_with('~') || name.ends_with('*') => {
                    let why = format!("{name}: names, and wildcards in front, are converted");
                    imported.report.unsupported(directive.line, "server_name", &why);
                }
                None => hosts.push(name.to_lowercase()),
            }
        }
    }
    hosts
}

/// Directives that say who may come in, or that choose by request. None is converted: without them a location would let
/// in more than it did.
const GUARDS: [&str; 12] = [
    "allow",
    "deny",
    "satisfy",
    "auth_basic",
    "auth_request",
    "auth_jwt",
    "internal",
    "if",
    "limit_except",
    "valid_referers",
    "secure_link",
    "ssl_verify_client",
];

fn guard<'a>(scopes: &[&'a [Directive]; 3]) -> Option<&'a Directive> {
    let opens = |directive: &Directive| match directive.name.as_str() {
        "allow" | "satisfy" => directive.argument(0) == "all",
        _ => directive.argument(0) == "off",
    };
    let mut all = scopes.iter().flat_map(|scope| scope.iter());
    all.find(|directive| GUARDS.contains(&directive.name.as_str()) && !opens(directive))
}

fn not_converted() -> Value {
    json!({"fault-injection": {"abort": {"http_status": 501, "body": "this location was not converted"}}})
}

/// A route without its place, `None` if the location does nothing that is converted, or is guarded by what is not.
fn locate(
    location: &Directive,
    place: &Place,
    scopes: &[&[Directive]; 3],
    context: &Context,
    imported: &mut Imported,
) -> Option<Value> {
    for directive in &location.block {
        let name = directive.name.as_str();
        let known = ["proxy_pass", "return"].contains(&name) || files::OWN.contains(&name);
        if !known && !is_inherited(name) {
            left_out(directive, &mut imported.report);
        }
    }
    if let Some(answer) = location.one("return") {
        return answered(answer, &mut imported.report).map(|plugins| json!({"plugins": plugins}));
    }
    let pass = location.one("proxy_pass");
    if pass.is_none() && !files::serves(scopes) {
        let why = "it has neither `proxy_pass` nor `return` nor a `root`: it answers 501";
        imported.report.unsupported(location.line, "location", why);
        return None;
    }
    if let Some(guard) = guard(scopes) {
        let why = format!("`{}` of line {} is not converted: it answers 501", guard.name, guard.line);
        imported.report.unsupported(location.line, "location", &why);
        return None;
    }
    let Some(pass) = pass else {
        return files::convert(location.line, place, scopes, context, &mut imported.report);
    };
    let mut plugins = Map::new();
    let upstream = proxy::pass(pass, place, scopes, context, &mut plugins, &mut imported.report)?;
    proxy::extras(scopes, context, &mut plugins, &mut imported.report);
    Some(json!({"upstream": upstream, "plugins": plugins}))
}

fn answered(directive: &Directive, report: &mut Report) -> Option<Map<String, Value>> {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (status, text) = match first.parse::<u16>() {
        Ok(status) => (status, second),
        Err(_) => (302, first),
    };
    if !(200..600).contains(&status) || status == 444 {
        report.unsupported(directive.line, "return", &format!("status {first} is left out"));
        return None;
    }
    let conf = match status {
        301 | 302 | 303 | 307 | 308 if !text.is_empty() => {
            let uri = text.replace("$uri", "${uri}");
            ("redirect", json!({"uri": uri, "ret_code": status}))
        }
        _ if text.is_empty() => ("fault-injection", json!({"abort": {"http_status": status}})),
        _ => ("fault-injection", json!({"abort": {"http_status": status, "body": text}})),
    };
    let mut plugins = Map::new();
    plugins.insert(conf.0.to_owned(), conf.1);
    report.converted(directive.line, "return");
    Some(plugins)
}
