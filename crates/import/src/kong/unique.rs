//! What Kong has once only: it refuses a file in which two entities of a kind have one name, key or place. One of them would be
//! left out here, and it might be the guard.

use std::collections::{BTreeMap, HashMap};

use tidegate_config::yaml::Node;

use super::{
    entities::Entities,
    node::{children, key_text, name},
};
use crate::fields;

/// A list at the top of the file, the lists that hold the same kind within others, and what is unique.
struct Kind {
    what: &'static str,
    list: &'static str,
    within: Option<&'static str>,
    keys: &'static [&'static str],
}

const fn kind(
    what: &'static str,
    list: &'static str,
    within: Option<&'static str>,
    keys: &'static [&'static str],
) -> Kind {
    Kind { what, list, within, keys }
}

const KINDS: [Kind; 13] = [
    kind("service", "services", None, &["name", "id"]),
    kind("route", "routes", Some("services"), &["name", "id"]),
    kind("upstream", "upstreams", None, &["name", "id"]),
    kind("consumer", "consumers", None, &["username", "custom_id", "id"]),
    kind("consumer group", "consumer_groups", None, &["name", "id"]),
    kind("certificate", "certificates", None, &["id"]),
    kind("SNI", "snis", Some("certificates"), &["name"]),
    kind("partial", "partials", None, &["name", "id"]),
    kind("vault", "vaults", None, &["prefix"]),
    kind("key of key-auth", "keyauth_credentials", Some("consumers"), &["key"]),
    kind("user of basic-auth", "basicauth_credentials", Some("consumers"), &["username"]),
    kind("key of jwt", "jwt_secrets", Some("consumers"), &["key"]),
    kind("user of hmac-auth", "hmacauth_credentials", Some("consumers"), &["username"]),
];

/// The error names both places.
pub(super) fn check(root: &Node) -> Result<(), String> {
    for Kind { what, list, within, keys } in &KINDS {
        let inner = within.iter().flat_map(|outer| children(root, outer)).flat_map(|one| children(one, list));
        let all: Vec<&Node> = children(root, list).iter().chain(inner).collect();
        for key in *keys {
            let values = all.iter().filter_map(|node| node.get(key).or((*list == "snis").then_some(*node)));
            require_unique(values, what)?;
        }
    }
    for upstream in children(root, "upstreams") {
        require_unique(
            children(upstream, "targets").iter().filter_map(|target| target.get("target")),
            "target",
        )?;
    }
    Ok(())
}

/// A plugin stands once at each place.
pub(super) fn plugins(entities: &Entities) -> Result<(), String> {
    let mut known: BTreeMap<(String, [Option<*const Node>; 4]), &Node> = BTreeMap::new();
    for plugin in &entities.plugins {
        let (Some(kind), None) = (key_text(plugin.node, "name"), plugin.node.get("filters")) else {
            continue;
        };
        let owners = [plugin.service, plugin.route, plugin.consumer, plugin.group];
        let place = owners.map(|owner| owner.map(std::ptr::from_ref));
        if let Some(first) = known.insert((kind, place), plugin.node) {
            let owner =
                owners.iter().flatten().next().map_or_else(|| "the file".to_owned(), |owner| name(owner));
            return Err(twice(plugin.node, first, &format!("plugin {} of {owner}", name(plugin.node))));
        }
    }
    Ok(())
}

fn require_unique<'a>(values: impl Iterator<Item = &'a Node>, what: &str) -> Result<(), String> {
    let mut values: Vec<&Node> = values.collect();
    values.sort_by_key(|value| (value.line, value.column));
    let mut known: HashMap<String, &Node> = HashMap::new();
    for value in values {
        let Some(text) = fields::text(value) else { continue };
        if let Some(first) = known.insert(text.clone(), value) {
            // Keys are secrets.
            let shown = if what.starts_with("key of") { String::new() } else { format!(" {text:?}") };
            return Err(twice(value, first, &format!("{what}{shown}")));
        }
    }
    Ok(())
}

fn twice(second: &Node, first: &Node, what: &str) -> String {
    format!(
        "{}:{}: duplicate {what}, first at {}:{}; Kong refuses such a file",
        second.line, second.column, first.line, first.column
    )
}
