//! Routes, in the order in which Kong would try them.
//!
//! Kong asks routes with more kinds of conditions first, then exact hosts, more headers, regular expressions by
//! their priority, longer paths, and what was made first. Our router goes by the longest path and among equal paths
//! by priority. So each of Kong's routes becomes one of ours per path, with its rank as priority, and a route that
//! comes before one with a longer path is entered under that path too.

use std::cmp::Reverse;

use config::yaml::Node;
use serde_json::{Map, Value, json};

use super::{
    entities::{Entities, key_text, label, name},
    grpc_gateway, merge, plugins,
    upstreams::{self, Target},
};
use crate::{
    Imported,
    fields::{self, Fields},
};

struct Entry<'a> {
    node: &'a Node,
    service: Option<&'a Node>,
    path: Path,
    hosts: Vec<String>,
    rank: Rank,
}

#[derive(Clone, PartialEq)]
enum Path {
    Prefix(String),
    Regex(String),
}

/// Smaller is asked first.
type Rank = (Reverse<usize>, bool, Reverse<usize>, bool, Reverse<i64>, Reverse<usize>, usize);

/// Priorities of a route: its own, and above it those of the rules of grpc-gateway.
const BAND: usize = 1000;

pub fn convert(entities: &Entities, files: &dyn Fn(&str) -> Result<String, String>, imported: &mut Imported) {
    let mut entries = Vec::new();
    for (created, (node, service)) in entities.routes.iter().enumerate() {
        entries.extend(expand(entities, node, *service, created, imported));
    }
    entries.sort_by_key(|entry| entry.rank);
    let native = hosts_are_native(&entries);
    let count = entries.len();
    let mut upstreams: Vec<(*const Node, bool, String)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let mut uris = vec![uri(&entry.path)];
        for later in entries.get(index + 1..).unwrap_or_default() {
            let other = uri(&later.path);
            let reaches = match (&entry.path, &later.path) {
                (Path::Prefix(own), Path::Prefix(longer)) => longer.starts_with(own.as_str()),
                (Path::Regex(_), _) => true,
                _ => false,
            };
            if reaches && !uris.contains(&other) {
                uris.push(other);
            }
        }
        let mut route = json!({"name": name(entry.node), "uris": uris, "priority": (count - index) * BAND});
        conditions(entry, native, &mut route, imported);
        let mut plugins = plugins::of_route(entities, entry.node, entry.service, imported);
        if key_text(entry.node, "request_buffering").as_deref() == Some("false") {
            merge::add(&mut plugins, "proxy-control", json!({"request_buffering": false}));
        }
        if let Some(service) = entry.service {
            let Some(target) = upstreams::target(service, imported) else { continue };
            let preserve = key_text(entry.node, "preserve_host").as_deref() == Some("true");
            let known = upstreams.iter().find(|known| std::ptr::eq(known.0, service) && known.1 == preserve);
            let id = match known {
                Some((_, _, id)) => id.clone(),
                None => {
                    let id = imported.output.id("upstreams", &name(service));
                    let object = upstreams::upstream(entities, service, &target, preserve, imported);
                    imported.output.add("upstreams", &id, object);
                    imported.report.converted(service.line, &label("service", service));
                    upstreams.push((service, preserve, id.clone()));
                    id
                }
            };
            route["upstream_id"] = id.into();
            rewrite(entry, &target, &mut plugins, imported);
        }
        let gateway = plugins.remove("grpc-gateway");
        if !plugins.is_empty() {
            route["plugins"] = plugins.into();
        }
        if let Some(gateway) = gateway {
            grpc_gateway::add_routes(&gateway, &name(entry.node), &mut route, BAND, files, imported);
        }
        let id = imported.output.id("routes", &name(entry.node));
        imported.output.add("routes", &id, route);
        imported.report.converted(entry.node.line, &label("route", entry.node));
    }
}

fn expand<'a>(
    entities: &Entities,
    node: &'a Node,
    service: Option<&'a Node>,
    created: usize,
    imported: &mut Imported,
) -> Vec<Entry<'a>> {
    let subject = label("route", node);
    let fields = Fields::new(node, &subject);
    fields.skip(&["id", "name", "service", "plugins", "tags", "created_at", "updated_at", "strip_path"]);
    fields.skip(&["preserve_host", "path_handling", "request_buffering", "response_buffering"]);
    fields.skip(&["https_redirect_status_code", "regex_priority"]);
    let protocols = fields.texts("protocols");
    if !protocols.is_empty()
        && !protocols.iter().any(|name| ["http", "https", "grpc", "grpcs"].contains(&name.as_str()))
    {
        imported.report.unsupported(node.line, &subject, "routes of TCP, TLS and UDP are left out");
        return Vec::new();
    }
    if fields.text("expression").is_some() {
        imported.report.unsupported(node.line, &subject, "`expression` is left out with its route");
        return Vec::new();
    }
    let hosts = fields.texts("hosts");
    let kinds = ["methods", "hosts", "headers", "paths", "snis", "sources"];
    let some = |node: &Node| !fields::list(node).is_empty() || !fields::entries(node).is_empty();
    let given = kinds.iter().filter(|kind| fields.get(kind).is_some_and(some)).count();
    let headers = fields.get("headers").map_or(0, |headers| fields::entries(headers).len());
    let priority = fields.integer("regex_priority").unwrap_or(0);
    fields.finish(&mut imported.report);
    let wild = hosts.iter().any(|host| host.contains('*'));
    let mut paths: Vec<Path> = fields.texts("paths").iter().map(|path| read_path(entities, path)).collect();
    if paths.is_empty() {
        paths.push(Path::Prefix("/".to_owned()));
    }
    paths
        .into_iter()
        .filter_map(|path| {
            let (regex, length) = match &path {
                Path::Regex(pattern) => (true, pattern.len()),
                Path::Prefix(prefix) => (false, prefix.len()),
            };
            if let Path::Regex(pattern) = &path
                && let Err(error) = regex::Regex::new(pattern)
            {
                let why = format!(
                    "path {pattern:?} cannot be read as a regular expression and is left out: {error}"
                );
                imported.report.unsupported(node.line, &subject, &why);
                return None;
            }
            let plain = !hosts.is_empty() && !wild;
            let rank = (
                Reverse(given),
                !plain,
                Reverse(headers),
                !regex,
                Reverse(if regex { priority } else { 0 }),
                Reverse(length),
                created,
            );
            Some(Entry { node, service, path, hosts: hosts.clone(), rank })
        })
        .collect()
}

fn read_path(entities: &Entities, path: &str) -> Path {
    if let Some(pattern) = path.strip_prefix('~') {
        return Path::Regex(pattern.to_owned());
    }
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || ".-_~/%".contains(c));
    if plain || entities.regex_needs_tilde {
        Path::Prefix(path.to_owned())
    } else {
        Path::Regex(path.to_owned())
    }
}

fn uri(path: &Path) -> String {
    match path {
        Path::Prefix(prefix) => format!("{prefix}*"),
        Path::Regex(_) => "/*".to_owned(),
    }
}

/// Whether our order of hosts (exact, with a wildcard, any) is the order of these ranks. If not, hosts become
/// conditions like any other.
fn hosts_are_native(entries: &[Entry]) -> bool {
    let class = |entry: &Entry| {
        if entry.hosts.is_empty() {
            return Some(2);
        }
        let wild = entry.hosts.iter().filter(|host| host.contains('*')).count();
        let leftmost = entry.hosts.iter().all(|host| !host.contains('*') || host.starts_with("*."));
        match wild {
            0 => Some(0),
            _ if leftmost && wild == entry.hosts.len() => Some(1),
            _ => None,
        }
    };
    let classes: Option<Vec<i32>> = entries.iter().map(class).collect();
    classes.is_some_and(|classes| classes.is_sorted())
}

fn conditions(entry: &Entry, native: bool, route: &mut Value, imported: &mut Imported) {
    let fields = Fields::new(entry.node, label("route", entry.node));
    let mut vars: Vec<Value> = Vec::new();
    let hosts: Vec<String> =
        entry.hosts.iter().map(|host| host.split(':').next().unwrap_or_default().to_lowercase()).collect();
    if entry.hosts.iter().any(|host| host.contains(':')) {
        imported.report.approximated(fields.line(), fields.subject(), "ports of `hosts` are not looked at");
    }
    if native && !hosts.is_empty() {
        route["hosts"] = hosts.into();
    } else if !hosts.is_empty() {
        let patterns: Vec<String> =
            hosts.iter().map(|host| regex::escape(host).replace("\\*", ".+")).collect();
        vars.push(json!(["host", "~~", format!("^({})$", patterns.join("|"))]));
    }
    let methods = fields.texts("methods");
    if !methods.is_empty() {
        route["methods"] = methods.into();
    }
    if let Some(headers) = fields.get("headers") {
        for header in fields::entries(headers) {
            let variable = format!("http_{}", header.key.to_lowercase().replace('-', "_"));
            let values = fields::texts(&header.value);
            let pattern = match values.as_slice() {
                [one] if one.starts_with("~*") => one.trim_start_matches("~*").to_owned(),
                all => {
                    format!(
                        "^({})$",
                        all.iter().map(|value| regex::escape(value)).collect::<Vec<_>>().join("|")
                    )
                }
            };
            vars.push(json!([variable, "~*", pattern]));
        }
    }
    let snis = fields.texts("snis");
    if !snis.is_empty() {
        vars.push(json!(["ssl_server_name", "in", snis]));
    }
    let mut addresses = Vec::new();
    for source in fields.list("sources") {
        addresses.extend(key_text(source, "ip"));
        if source.get("port").is_some_and(|port| !port.is_null()) {
            imported.report.unsupported(source.line, fields.subject(), "ports of `sources` are left out");
        }
    }
    if !addresses.is_empty() {
        route["remote_addrs"] = addresses.into();
    }
    match &entry.path {
        Path::Regex(pattern) => vars.push(json!(["uri", "~~", anchored(pattern)])),
        Path::Prefix(_) => {}
    }
    if !vars.is_empty() {
        route["vars"] = vars.into();
    }
}

fn anchored(pattern: &str) -> String {
    format!("^(?:{})", pattern.trim_start_matches('^'))
}

/// From the path of the request to the path at the upstream.
fn rewrite(entry: &Entry, target: &Target, plugins: &mut Map<String, Value>, imported: &mut Imported) {
    let fields = Fields::new(entry.node, label("route", entry.node));
    let strips = fields.flag("strip_path").unwrap_or(true);
    let glued = fields.text("path_handling").as_deref() == Some("v1");
    let protocols = fields.texts("protocols");
    if !protocols.is_empty() && protocols.iter().all(|name| name == "https" || name == "grpcs") {
        let how = "plain HTTP is redirected to HTTPS with 301";
        imported.report.approximated(fields.line(), fields.subject(), how);
        merge::add(plugins, "redirect", json!({"http_to_https": true}));
    }
    if plugins.get("proxy-rewrite").is_some_and(|conf| conf.get("uri").is_some()) {
        return;
    }
    let base = &target.path;
    let slash = if glued && !base.is_empty() { "" } else { "/" };
    let pairs: Vec<String> = match (&entry.path, strips) {
        (_, false) if base.is_empty() => return,
        (Path::Prefix(prefix), true) if prefix == "/" && base.is_empty() => return,
        (_, false) => vec!["^/(.*)$".to_owned(), format!("{base}{slash}$1")],
        (path, true) => {
            let (pattern, groups) = match path {
                Path::Prefix(prefix) => (format!("^{}", regex::escape(prefix)), 0),
                Path::Regex(pattern) => {
                    let groups = regex::Regex::new(pattern).map_or(1, |regex| regex.captures_len());
                    (anchored(pattern), groups.saturating_sub(1))
                }
            };
            let bare = if base.is_empty() { "/" } else { base.as_str() };
            let rest = format!("{base}{slash}${}", groups + 1);
            vec![format!("{pattern}$"), bare.to_owned(), format!("{pattern}/?(.*)$"), rest]
        }
    };
    merge::add(plugins, "proxy-rewrite", json!({"regex_uri": pairs}));
}
