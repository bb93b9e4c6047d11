//! Routes, in the order in which Kong would try them.
//!
//! Kong asks routes with more kinds of conditions first, then exact hosts, more headers, regular expressions by
//! their priority, longer paths, and what was made first. Our router goes by the longest path and among equal paths
//! by priority. So each of Kong's routes becomes one of ours per path, with its rank as priority, and a route that
//! comes before one with a longer path is entered under that path too.

use std::{cmp::Reverse, collections::HashMap};

use config::yaml::Node;
use serde_json::{Value, json};

use super::{
    conditions::{conditions, rewrite},
    entities::{Entities, key_text, label, name},
    expression, grpc_gateway, merge,
    order::{Order, Path},
    plugins, upstreams,
};
use crate::{
    Imported, Outcome, closed,
    fields::{self, Fields},
};

pub struct Entry<'a> {
    pub node: &'a Node,
    pub service: Option<&'a Node>,
    pub path: Path,
    pub hosts: Vec<String>,
    pub rank: Rank,
    /// What its `expression` asks besides the path.
    pub conditions: Vec<Value>,
    /// Why it is closed, where its own fields say so.
    pub fault: Option<String>,
}

/// Smaller is asked first.
type Rank = (Reverse<usize>, bool, Reverse<usize>, bool, Reverse<i64>, Reverse<usize>, usize);

/// Conditions of a route without an expression.
const KINDS: [&str; 6] = ["methods", "hosts", "headers", "paths", "snis", "sources"];

/// Priorities of a route: its own, and above it those of the rules of grpc-gateway.
const BAND: usize = 1000;

pub fn convert(entities: &Entities, files: &dyn Fn(&str) -> Result<String, String>, imported: &mut Imported) {
    let mut entries = Vec::new();
    for (created, (node, service)) in entities.routes.iter().enumerate() {
        entries.extend(expand(entities, node, *service, created, imported));
    }
    entries.sort_by_key(|entry| entry.rank);
    let order = Order::of(entries.iter().map(|entry| &entry.path));
    let native = !order.is_flat && hosts_are_native(&entries);
    let count = entries.len();
    let mut upstreams = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let uris = order.uris(&entry.path, index);
        let mut route = json!({"name": name(entry.node), "uris": uris, "priority": (count - index) * BAND});
        conditions(entry, native, order.is_flat, &mut route, imported);
        let id = imported.output.id("routes", &name(entry.node));
        let outcome = match serve(entities, entry, &mut route, &mut upstreams, files, imported) {
            Ok(()) => Outcome::Converted,
            Err(why) => {
                let subject = label("route", entry.node);
                imported.report.closed(entry.node.line, &subject, &format!("{why} ({})", closed::id(&id)));
                close(&mut route, &closed::id(&id), &format!("{subject}: {why}"));
                Outcome::Closed
            }
        };
        imported.output.add("routes", &id, route);
        imported.report.part(entry.node.line, outcome);
        if outcome == Outcome::Converted {
            imported.report.converted(entry.node.line, &label("route", entry.node));
        }
    }
}

/// Its place stays, and answers 501.
fn close(route: &mut Value, id: &str, why: &str) {
    if let (Value::Object(fields), Value::Object(shut)) = (route, closed::route(id, why)) {
        fields.remove("upstream_id");
        fields.extend(shut);
    }
}

/// What a route does. The error says why it is closed.
fn serve<'a>(
    entities: &Entities,
    entry: &Entry<'a>,
    route: &mut Value,
    upstreams: &mut HashMap<(*const Node, bool), String>,
    files: &dyn Fn(&str) -> Result<String, String>,
    imported: &mut Imported,
) -> Result<(), String> {
    if let Some(fault) = &entry.fault {
        return Err(fault.clone());
    }
    let mut plugins = plugins::of_route(entities, entry.node, entry.service, imported)?;
    if entry.service.is_none() && plugins.is_empty() {
        plugins.insert("fault-injection".to_owned(), nobody());
    }
    if key_text(entry.node, "request_buffering").as_deref() == Some("false") {
        merge::add(&mut plugins, "proxy-control", json!({"request_buffering": false}));
    }
    if let Some(service) = entry.service {
        let target = upstreams::target(service, imported)
            .ok_or_else(|| format!("{} is not converted", label("service", service)))?;
        let preserve = key_text(entry.node, "preserve_host").as_deref() == Some("true");
        let known = upstreams.entry((std::ptr::from_ref(service), preserve)).or_insert_with(|| {
            let id = imported.output.id("upstreams", &name(service));
            let object = upstreams::upstream(entities, service, &target, preserve, imported);
            imported.output.add("upstreams", &id, object);
            imported.report.converted(service.line, &label("service", service));
            id
        });
        route["upstream_id"] = known.clone().into();
        rewrite(entry, &target, &mut plugins, imported);
    }
    let gateway = plugins.remove("grpc-gateway");
    if !plugins.is_empty() {
        route["plugins"] = plugins.into();
    }
    if let Some(gateway) = gateway {
        grpc_gateway::add_routes(&gateway, &name(entry.node), route, BAND, files, imported);
    }
    Ok(())
}

/// What Kong answers on a route without a service.
fn nobody() -> Value {
    let body = json!({"message": "no Service found with those values"}).to_string();
    let headers = json!({"Content-Type": "application/json; charset=utf-8"});
    json!({"abort": {"http_status": 503, "body": body, "headers": headers}})
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
    fields.skip(&[
        "id",
        "name",
        "service",
        "plugins",
        "filter_chains",
        "tags",
        "created_at",
        "updated_at",
        "strip_path",
    ]);
    fields.skip(&["preserve_host", "path_handling", "request_buffering", "response_buffering"]);
    fields.skip(&["https_redirect_status_code", "regex_priority"]);
    let protocols = fields.texts("protocols");
    if !protocols.is_empty()
        && !protocols.iter().any(|name| ["http", "https", "grpc", "grpcs"].contains(&name.as_str()))
    {
        imported.report.unsupported(node.line, &subject, "routes of TCP, TLS and UDP are left out");
        return Vec::new();
    }
    let mut fault = None;
    if entities.lost_routes.iter().any(|lost| std::ptr::eq(*lost, node)) {
        fault = Some("its service is not in the file".to_owned());
    }
    if fields.get("destinations").is_some_and(|node| !fields::list(node).is_empty()) {
        fault = Some("`destinations` is not converted".to_owned());
    }
    let priority = fields.integer("priority").unwrap_or(0);
    let expression = fields.text("expression").filter(|text| !text.trim().is_empty());
    if let Some(text) = &expression {
        match by_expression(text, &fields, imported) {
            Ok(choices) => {
                fields.finish(&mut imported.report);
                let entry = |choice: expression::Choice| Entry {
                    node,
                    service,
                    path: choice.path,
                    hosts: Vec::new(),
                    rank: of_expression(priority, created),
                    conditions: choice.conditions,
                    fault: fault.clone(),
                };
                return choices.into_iter().map(entry).collect();
            }
            // Which requests it takes is not known: all of them, before other routes.
            Err(why) => {
                fault = Some(format!("`expression` is not converted: {why}; what it may take is closed"));
            }
        }
    }
    let hosts = fields.texts("hosts");
    let some = |node: &Node| !fields::list(node).is_empty() || !fields::entries(node).is_empty();
    let given = match &expression {
        Some(_) => usize::MAX,
        None => KINDS.iter().filter(|kind| fields.get(kind).is_some_and(some)).count(),
    };
    let headers = fields.get("headers").map_or(0, |headers| fields::entries(headers).len());
    let regex_priority = fields.integer("regex_priority").unwrap_or(0);
    fields.finish(&mut imported.report);
    let wild = hosts.iter().any(|host| host.contains('*'));
    let mut paths: Vec<Path> = fields.texts("paths").iter().map(|path| read_path(entities, path)).collect();
    if paths.is_empty() {
        paths.push(Path::Prefix("/".to_owned()));
    }
    paths
        .into_iter()
        .map(|path| {
            let (regex, length) = match &path {
                Path::Regex(pattern) => (true, pattern.len()),
                Path::Prefix(prefix) => (false, prefix.len()),
            };
            let plain = !hosts.is_empty() && !wild;
            let rank = (
                Reverse(given),
                !plain,
                Reverse(headers),
                !regex,
                Reverse(if regex { regex_priority } else { 0 }),
                Reverse(length),
                created,
            );
            Entry {
                node,
                service,
                path,
                hosts: hosts.clone(),
                rank,
                conditions: Vec::new(),
                fault: fault.clone(),
            }
        })
        .collect()
}

/// What an expression takes. Kong has no route with an expression and other conditions.
fn by_expression(
    text: &str,
    fields: &Fields,
    imported: &mut Imported,
) -> Result<Vec<expression::Choice>, String> {
    for kind in KINDS {
        let some = |node: &&Node| !fields::list(node).is_empty() || !fields::entries(node).is_empty();
        if fields.get(kind).as_ref().is_some_and(some) {
            return Err(format!("it stands beside `{kind}`"));
        }
    }
    let mut choices = expression::read(text, fields.flag("strip_path").unwrap_or(true))?;
    let protocols = fields.texts("protocols");
    if !protocols.is_empty() && protocols.iter().all(|name| name == "http" || name == "grpc") {
        choices.iter_mut().for_each(|choice| choice.conditions.push(json!(["scheme", "==", "http"])));
    }
    if expression::looks_into_lists(text) {
        let how = "`any()`: a line of a header that is a list counts by its members";
        imported.report.approximated(fields.line(), fields.subject(), how);
    }
    Ok(choices)
}

/// Before all routes with other conditions, as in Kong from 3.7 on.
fn of_expression(priority: i64, created: usize) -> Rank {
    (Reverse(usize::MAX - 1), true, Reverse(0), true, Reverse(priority), Reverse(0), created)
}

fn read_path(entities: &Entities, path: &str) -> Path {
    if let Some(pattern) = path.strip_prefix('~') {
        return Path::Regex(pattern.to_owned());
    }
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || ".-_~/%".contains(c));
    if plain || entities.regex_needs_tilde {
        Path::Prefix(decoded(path))
    } else {
        Path::Regex(path.to_owned())
    }
}

/// Kong compares paths as they come, this gateway decoded.
pub fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
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
