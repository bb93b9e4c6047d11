//! Plugins that go by the client's address where every client chooses it, by a real-ip that trusts everybody.

use serde_json::Value;

use super::together::{is_disabled, plugins, together};
use crate::{Kind, Object, Objects};

const REAL_IP: &str = "real-ip";
const GUARDS: [&str; 4] = ["ip-restriction", "limit-count", "limit-req", "limit-conn"];

pub(super) fn of(object: &Object, all: &dyn Objects) -> Option<String> {
    if !GUARDS.iter().chain([&REAL_IP]).any(|name| object.document.may_have(name)) {
        return None;
    }
    let values = together(object, all);
    let find = |name: &str| {
        values.iter().find_map(|value| plugins(value)?.get(name)).filter(|conf| !is_disabled(conf))
    };
    let real_ip = find(REAL_IP).filter(|conf| trusts_everybody(conf))?;
    let source = real_ip.get("source").and_then(Value::as_str).filter(|source| is_chosen(source))?;
    let by_address =
        GUARDS.into_iter().filter(|name| find(name).is_some_and(|conf| goes_by_address(name, conf)));
    let named: Vec<&str> = by_address.collect();
    let also = if object.kind == Kind::GlobalRule { elsewhere(&named, all) } else { None };
    let named = if named.is_empty() { also? } else { named.join(", ") };
    Some(format!(
        "plugin {REAL_IP}: every client chooses the address that {named} goes by, with {source}; name the proxies in trusted_addresses"
    ))
}

/// A global rule runs before the plugins of all routes.
fn elsewhere(own: &[&str], all: &dyn Objects) -> Option<String> {
    let name = GUARDS.first().filter(|_| own.is_empty())?;
    let has = |object: Object| plugins(&object.value()).is_some_and(|plugins| plugins.contains_key(*name));
    all.with_field(name).into_iter().any(has).then(|| (*name).to_owned())
}

fn trusts_everybody(conf: &Value) -> bool {
    let Some(list) = conf.get("trusted_addresses") else { return true };
    list.as_array().into_iter().flatten().filter_map(Value::as_str).any(|network| network.ends_with("/0"))
}

/// What a client can send.
fn is_chosen(source: &str) -> bool {
    ["http_", "arg_", "cookie_", "post_arg"].iter().any(|family| source.starts_with(family))
}

fn goes_by_address(name: &str, conf: &Value) -> bool {
    let key = conf.get("key").and_then(Value::as_str);
    match name {
        "ip-restriction" => true,
        "limit-count" => key.is_none_or(|key| key == "remote_addr") && conf.get("rules").is_none(),
        _ => key == Some("remote_addr"),
    }
}
