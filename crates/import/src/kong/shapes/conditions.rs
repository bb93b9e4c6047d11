//! The conditions of a route.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use super::place::at;
use crate::fields;

/// Conditions that are lists of texts.
const TEXTS: [&str; 5] = ["methods", "hosts", "paths", "snis", "protocols"];
const NETWORKS: [&str; 2] = ["sources", "destinations"];
const NUMBERS: [&str; 2] = ["priority", "regex_priority"];

const HTTP: [&str; 6] = ["http", "https", "grpc", "grpcs", "ws", "wss"];
const STREAMS: [&str; 4] = ["tcp", "tls", "udp", "tls_passthrough"];

pub(super) fn check(route: &Node) -> Result<(), String> {
    for name in TEXTS {
        if let Some(given) = present(route, name) {
            texts(given, name)?;
        }
    }
    for (name, given) in NETWORKS.iter().filter_map(|name| Some((name, present(route, name)?))) {
        let Content::List(items) = &given.content else {
            return Err(at(given, &format!("{name} is a list")));
        };
        items.iter().try_for_each(|item| network(item, name))?;
    }
    for (name, given) in NUMBERS.iter().filter_map(|name| Some((name, present(route, name)?))) {
        if !matches!(&given.content, Content::Scalar { value: Value::Number(number), .. } if !number.is_f64())
        {
            return Err(at(given, &format!("{name} is a whole number")));
        }
    }
    headers(route)?;
    for path in present(route, "paths").map(fields::texts).unwrap_or_default() {
        if !path.starts_with(['/', '~']) {
            return Err(at(route, &format!("the path {path:?} begins with neither `/` nor `~`")));
        }
    }
    protocols(route)
}

fn present<'a>(route: &'a Node, name: &str) -> Option<&'a Node> {
    route.get(name).filter(|node| !node.is_null())
}

/// A single text is a list of one.
fn texts(given: &Node, name: &str) -> Result<(), String> {
    let is_text = |node: &Node| fields::text(node).is_some_and(|text| !text.is_empty());
    let bad = match &given.content {
        Content::List(items) => items.iter().find(|item| !is_text(item)),
        _ => Some(given).filter(|given| !is_text(given)),
    };
    bad.map_or(Ok(()), |bad| Err(at(bad, &format!("{name} is a list of texts"))))
}

fn network(item: &Node, name: &str) -> Result<(), String> {
    let is_known = |key: &str| ["ip", "port"].contains(&key);
    let entries = fields::entries(item);
    let is_some = entries.iter().any(|entry| fields::text(&entry.value).is_some());
    let is_fine = entries
        .iter()
        .all(|entry| is_known(&entry.key) && (entry.value.is_null() || fields::text(&entry.value).is_some()));
    match is_some && is_fine {
        true => Ok(()),
        false => Err(at(item, &format!("{name} has mappings with `ip`, `port` or both"))),
    }
}

fn headers(route: &Node) -> Result<(), String> {
    let Some(given) = present(route, "headers") else { return Ok(()) };
    let Content::Map(entries) = &given.content else {
        return Err(at(given, "headers is a mapping of names to lists of texts"));
    };
    entries.iter().try_for_each(|entry| texts(&entry.value, "a header"))
}

/// Those of HTTP have a condition, and stand apart from those of TCP.
fn protocols(route: &Node) -> Result<(), String> {
    let given = present(route, "protocols");
    let names = given.map(fields::texts).unwrap_or_default();
    if let Some(given) = given {
        let is_known = |name: &String| HTTP.contains(&name.as_str()) || STREAMS.contains(&name.as_str());
        if names.is_empty() || !names.iter().all(is_known) {
            return Err(at(
                given,
                "protocols are http, https, grpc, grpcs, tcp, tls, udp, tls_passthrough, ws and wss",
            ));
        }
    }
    let streams = names.iter().filter(|name| STREAMS.contains(&name.as_str())).count();
    if streams > 0 {
        return match (streams == names.len(), given) {
            (false, Some(given)) => Err(at(given, "protocols of HTTP stand beside those of TCP")),
            _ => Ok(()),
        };
    }
    let says = |name: &str| {
        present(route, name).is_some_and(|given| match &given.content {
            Content::List(items) => !items.is_empty(),
            Content::Map(entries) => !entries.is_empty(),
            Content::Scalar { .. } => true,
        })
    };
    let all = ["methods", "hosts", "headers", "paths", "snis", "sources", "destinations", "expression"];
    match all.into_iter().any(says) {
        true => Ok(()),
        false => Err(at(route, "a route needs a condition: methods, hosts, headers, paths or snis")),
    }
}
