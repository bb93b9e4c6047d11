//! Kong's routes with one path each, and what decides their order.

use std::cmp::Reverse;

use serde_json::json;
use tidegate_config::yaml::Node;

use super::super::{
    entities::Entities,
    expression,
    order::Path,
    pattern::{self, Pattern},
};
use crate::{
    fields::{self, Fields},
    imported::Imported,
    kong::{
        entry::{Entry, Rank},
        node::{key_text, label},
        priority::{Priorities, Weights},
    },
};

/// Conditions of a route without an expression.
const KINDS: [&str; 6] = ["methods", "hosts", "headers", "paths", "snis", "sources"];
/// Kong does not count these where it orders routes.
const UNCOUNTED: &str = "sources";

/// Fields that are read elsewhere, and those that choose no request.
#[rustfmt::skip]
const ELSEWHERE: [&str; 15] = [
    "id", "name", "service", "plugins", "filter_chains", "tags", "created_at", "updated_at", "strip_path", "preserve_host",
    "path_handling", "request_buffering", "response_buffering", "https_redirect_status_code", "regex_priority",
];

pub(super) fn expand<'a>(
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
                    rank: of_expression(priority, id(node), created),
                    priorities: Some(Priorities::of_expression(priority)),
                    conditions: choice.conditions,
                    is_rust: true,
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
    let entries = by_fields(entities, node, service, &fields, RouteDefaults { given, created, fault });
    fields.finish(&mut imported.report);
    entries
}

struct RouteDefaults {
    /// How many kinds of conditions count as given, where the fields do not show it.
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
    place: RouteDefaults,
) -> Vec<Entry<'a>> {
    let RouteDefaults { given, created, fault } = place;
    let hosts = fields.texts("hosts");
    let some = |node: &Node| !fields::list(node).is_empty() || !fields::entries(node).is_empty();
    // Before version 3 there was one order; a route with an unknown expression is closed before all others.
    let is_counted = given.is_none() && entities.regex_needs_tilde;
    let given = given.unwrap_or_else(|| {
        let counted = KINDS.iter().filter(|kind| **kind != UNCOUNTED);
        counted.filter(|kind| fields.get(kind).is_some_and(some)).count()
    });
    let headers = fields.get("headers").map_or(0, |headers| fields::entries(headers).len());
    let regex_priority = fields.integer("regex_priority").unwrap_or(0);
    let wild = hosts.iter().any(|host| host.contains('*'));
    let strips = fields.flag("strip_path").unwrap_or(true);
    let mut paths: Vec<Read> =
        fields.texts("paths").iter().map(|path| read_path(entities, path, strips)).collect();
    if paths.is_empty() {
        paths.push(read_path(entities, "/", strips));
    }
    let fault = fault.or_else(|| unknown_header(entities, fields));
    let mut kinds = paths.iter().map(|read| (!read.is_regex).then_some(read.length));
    let first = kinds.next();
    // Kong makes several routes of one whose paths rank differently, each with an id of its own.
    let is_one = kinds.all(|kind| Some(kind) == first);
    let id = id(node).filter(|_| is_one && entities.regex_needs_tilde);
    paths
        .into_iter()
        .map(|Read { path, is_regex: regex, length, fault: own }| {
            let fault = fault.clone().or(own);
            let plain = !hosts.is_empty() && !wild;
            let rank = (
                Reverse(given),
                !plain,
                Reverse(headers),
                !regex,
                Reverse(if regex { regex_priority } else { 0 }),
                // Expressions have no length from version 3 on.
                Reverse(if regex && entities.regex_needs_tilde { 0 } else { length }),
                Reverse(id),
                created,
            );
            let weights = Weights {
                kinds: given,
                has_sources: fields.get(UNCOUNTED).is_some_and(some),
                is_plain: plain,
                headers,
                is_regex: regex,
                regex_priority,
            };
            Entry {
                node,
                service,
                path,
                hosts: hosts.clone(),
                rank,
                priorities: is_counted.then(|| Priorities::of(weights)),
                conditions: Vec::new(),
                is_rust: entities.regex_needs_tilde,
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
fn of_expression(priority: i64, id: Option<u128>, created: usize) -> Rank {
    (Reverse(usize::MAX - 1), true, Reverse(0), true, Reverse(priority), Reverse(0), Reverse(id), created)
}

/// Of two routes that are alike in everything else Kong asks the one with the higher id first.
fn id(node: &Node) -> Option<u128> {
    let text = key_text(node, "id")?.replace('-', "");
    u128::from_str_radix(&text, 16).ok().filter(|_| text.len() == 32)
}

/// A path, and what decides its place in the order.
struct Read {
    path: Path,
    is_regex: bool,
    length: usize,
    fault: Option<String>,
}

fn read_path(entities: &Entities, path: &str, strips: bool) -> Read {
    let is_rust = entities.regex_needs_tilde;
    let plain = path.chars().all(|c| c.is_ascii_alphanumeric() || ".-_~/%".contains(c));
    let pattern = match path.strip_prefix('~') {
        None if plain || is_rust => None,
        rest => Some(rest.unwrap_or(path)),
    };
    let Some(pattern) = pattern else {
        let text = pattern::normal(path);
        let length = path.len();
        let path = match pattern::is_plain(&text) {
            true => Path::Prefix(text),
            false => Path::Regex(Pattern::literal(&text, false)),
        };
        let fault = unknown_rest(&path, strips);
        return Read { path, is_regex: false, length, fault };
    };
    let (found, fault) = match known(pattern, is_rust) {
        Ok(found) => found,
        // What may mean something else here takes all paths that come so far.
        Err(why) => (Pattern::all(), Some(why)),
    };
    let path = Path::Regex(found);
    let fault = fault.or_else(|| unknown_rest(&path, strips));
    Read { path, is_regex: true, length: pattern.len(), fault }
}

/// From version 3 on Kong's expressions are those of Rust, before they were PCRE.
fn known(pattern: &str, is_rust: bool) -> Result<(Pattern, Option<String>), String> {
    if !is_rust {
        return Pattern::of_pcre(pattern).map(|found| (found, None));
    }
    if !pattern::is_common(pattern) {
        return Err(format!("`{pattern}` does not mean the same here"));
    }
    let anchored = format!("^{pattern}");
    let found = Pattern::of_rust(&anchored)?;
    let fault = (!Pattern::anchors_all(&anchored))
        .then(|| format!("`{pattern}`: Kong's routers differ in where its alternatives begin"));
    Ok((found, fault))
}

fn unknown_rest(path: &Path, strips: bool) -> Option<String> {
    let is_known = !strips || !matches!(path, Path::Regex(Pattern { strip: None, .. }));
    (!is_known).then(|| "what `strip_path` takes away of an escaped path is not known".to_owned())
}

/// Expressions for headers that cannot be written out.
fn unknown_header(entities: &Entities, fields: &Fields) -> Option<String> {
    let headers = fields.get("headers").filter(|_| entities.regex_needs_tilde)?;
    let values =
        fields::entries(headers).iter().flat_map(|header| fields::texts(&header.value)).collect::<Vec<_>>();
    let mut patterns = values.iter().filter_map(|value| value.strip_prefix("~*"));
    patterns.find_map(|pattern| pattern::of_header(pattern).err())
}

fn sources_with_port(fields: &Fields) -> Option<String> {
    let has_port = |source: &&Node| source.get("port").is_some_and(|port| !port.is_null());
    fields.list("sources").iter().find(has_port).map(|_| "ports of `sources` are not converted".to_owned())
}
