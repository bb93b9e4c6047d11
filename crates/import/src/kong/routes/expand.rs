//! Kong's routes with one path each, and what decides their order.

use std::cmp::Reverse;

use serde_json::json;
use tidegate_backtrack::{Expression, pcre};
use tidegate_config::yaml::Node;
use tidegate_protocol::uri::percent_decode;

use super::{
    super::{
        entities::{Entities, label},
        expression,
        order::Path,
    },
    Entry, Rank,
};
use crate::{
    Imported,
    fields::{self, Fields},
};

/// Conditions of a route without an expression.
const KINDS: [&str; 6] = ["methods", "hosts", "headers", "paths", "snis", "sources"];

/// Fields that are read elsewhere, and those that choose no request.
#[rustfmt::skip]
const ELSEWHERE: [&str; 15] = [
    "id", "name", "service", "plugins", "filter_chains", "tags", "created_at", "updated_at", "strip_path", "preserve_host",
    "path_handling", "request_buffering", "response_buffering", "https_redirect_status_code", "regex_priority",
];

pub fn expand<'a>(
    entities: &Entities,
    node: &'a Node,
    service: Option<&'a Node>,
    created: usize,
    imported: &mut Imported,
) -> Vec<Entry<'a>> {
    let subject = label("route", node);
    let fields = Fields::new(node, &subject);
    fields.skip(&ELSEWHERE);
    let protocols = fields.texts("protocols");
    if !protocols.is_empty()
        && !protocols.iter().any(|name| ["http", "https", "grpc", "grpcs"].contains(&name.as_str()))
    {
        imported.report.unsupported(node.line, &subject, "routes of TCP, TLS and UDP are left out");
        return Vec::new();
    }
    let mut fault = None;
    if entities.has_lost_its_service(node) {
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
                    differs: false,
                };
                return choices.into_iter().map(entry).collect();
            }
            // Which requests it takes is not known: all of them, before other routes.
            Err(why) => {
                fault = Some(format!("`expression` is not converted: {why}; what it may take is closed"));
            }
        }
    }
    if let Some(source) = sources_with_port(&fields) {
        fault = Some(source);
    }
    let given = expression.map(|_| usize::MAX);
    let entries = by_fields(entities, node, service, &fields, Place { given, created, fault });
    fields.finish(&mut imported.report);
    entries
}

struct Place {
    /// How many kinds of conditions count as given, where the fields do not tell.
    given: Option<usize>,
    created: usize,
    fault: Option<String>,
}

/// One entry for each path.
fn by_fields<'a>(
    entities: &Entities,
    node: &'a Node,
    service: Option<&'a Node>,
    fields: &Fields<'_>,
    place: Place,
) -> Vec<Entry<'a>> {
    let Place { given, created, fault } = place;
    let hosts = fields.texts("hosts");
    let some = |node: &Node| !fields::list(node).is_empty() || !fields::entries(node).is_empty();
    let given =
        given.unwrap_or_else(|| KINDS.iter().filter(|kind| fields.get(kind).is_some_and(some)).count());
    let headers = fields.get("headers").map_or(0, |headers| fields::entries(headers).len());
    let regex_priority = fields.integer("regex_priority").unwrap_or(0);
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
            let (path, unknown) = known(entities, path);
            let fault = fault.clone().or(unknown);
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
                fault,
                differs: false,
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

/// An expression that may mean something else here takes all paths that come so far. From version 3 on Kong's are those of
/// Rust, before they were PCRE.
fn known(entities: &Entities, path: Path) -> (Path, Option<String>) {
    let Path::Regex(pattern) = &path else { return (path, None) };
    let read = pcre::translate(pattern, pcre::Units::Bytes);
    let is_other = entities.regex_needs_tilde && read.is_ok_and(|read| !read.is_common);
    let why = match Expression::new(pattern, false) {
        Err(why) => format!("`{pattern}` is not supported: {why}"),
        Ok(_) if is_other => format!("`{pattern}` does not mean the same here"),
        Ok(_) => return (path, None),
    };
    (Path::Regex(String::new()), Some(why))
}

fn sources_with_port(fields: &Fields) -> Option<String> {
    let has_port = |source: &&Node| source.get("port").is_some_and(|port| !port.is_null());
    fields.list("sources").iter().find(has_port).map(|_| "ports of `sources` are not converted".to_owned())
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
    String::from_utf8(percent_decode(path.as_bytes(), false)).unwrap_or_else(|_| path.to_owned())
}
