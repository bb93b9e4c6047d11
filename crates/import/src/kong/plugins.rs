//! Which plugins count where, and what is closed for want of one.

mod table;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tidegate_config::yaml::Node;

use super::{
    authentication,
    converted::{PluginContext, name_of},
    entities::{Entities, Plugin},
    merge,
    node::{is_enabled, name},
};
use crate::{Conversion, closed, imported::Imported};

/// What becomes of a plugin where it stands.
enum Became {
    Plugins(Vec<(&'static str, Value)>),
    /// It guards nothing, or the user said so.
    LeftOut,
    /// Whatever it applies to is closed, and why.
    Closed(String),
}

/// Plugins without a counterpart that let every client through.
const HARMLESS: [&str; 6] = ["datadog", "statsd", "statsd-advanced", "loggly", "kafka-log", "app-dynamics"];

/// Plugins that are converted, and guard nothing: what is left out of them opens nothing.
const NO_GUARDS: [&str; 13] = [
    "cors",
    "correlation-id",
    "proxy-cache",
    "redirect",
    "grpc-gateway",
    "prometheus",
    "zipkin",
    "opentelemetry",
    "http-log",
    "tcp-log",
    "udp-log",
    "syslog",
    "file-log",
];

/// Guards that run behind the plugin which request-termination becomes.
const LATER_HERE: [&str; 6] = [
    "ip-restriction",
    "acl",
    "bot-detection",
    "rate-limiting",
    "rate-limiting-advanced",
    "request-size-limiting",
];

/// Plugins that authenticate: Kong's, and what they become.
const AUTHENTICATION: [&str; 4] = ["key-auth", "basic-auth", "jwt", "hmac-auth"];
const OURS: [&str; 4] = ["key-auth", "basic-auth", "jwt-auth", "hmac-auth"];

/// The plugins that belong to no route: what they count must not depend on one matching.
pub(super) fn everywhere(entities: &Entities, imported: &mut Imported) {
    for plugin in entities.plugins.iter().filter(|plugin| is_enabled(plugin.node)) {
        let number = [plugin.service, plugin.route, plugin.consumer, plugin.group].iter().flatten().count();
        if number == 0
            && name(plugin.node) == "prometheus"
            && let Became::Plugins(converted) =
                convert(entities, plugin.node, PluginContext::default(), imported)
        {
            for (ours, conf) in converted {
                imported.output.add("global_rules", ours, json!({"plugins": {ours: conf}}));
            }
        }
    }
}

/// The plugins of one consumer or group.
pub(crate) fn of_owner(entities: &Entities, imported: &mut Imported, owner: &Node) -> Map<String, Value> {
    let mut plugins = Map::new();
    for plugin in entities.plugins_of(owner).filter(|plugin| is_enabled(plugin.node)) {
        if plugin.service.is_none() && plugin.route.is_none() {
            let place =
                PluginContext { plugin: Some(plugin), service: None, authenticates: true, on_consumer: true };
            match convert(entities, plugin.node, place, imported) {
                Became::Plugins(converted) => {
                    converted.into_iter().for_each(|(ours, conf)| merge::add(&mut plugins, ours, conf));
                }
                Became::LeftOut => {}
                // This consumer or group must not pass.
                Became::Closed(why) => {
                    let subject = format!("plugin {}", name_of(plugin.node));
                    imported.report.closed(plugin.node.line, &subject, &why);
                    let id = closed::id(&name_of(plugin.node));
                    if let Value::Object(shut) = closed::plugins(&id) {
                        plugins.extend(shut);
                    }
                }
            }
        }
    }
    plugins
}

/// The plugins a route runs: of each kind the narrowest instance. The error says what closes it.
pub(super) fn of_route(
    entities: &Entities,
    route: &Node,
    service: Option<&Node>,
    imported: &mut Imported,
) -> Result<Map<String, Value>, String> {
    let same = |a: Option<&Node>, b: Option<&Node>| match (a, b) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        _ => false,
    };
    let mut effective: BTreeMap<String, (usize, &Plugin)> = BTreeMap::new();
    for plugin in entities.plugins_at(route, service) {
        let (on_service, on_route) = (plugin.service.is_some(), plugin.route.is_some());
        if (on_service && !same(plugin.service, service)) || (on_route && !same(plugin.route, Some(route))) {
            continue;
        }
        if !is_enabled(plugin.node) {
            continue;
        }
        if plugin.consumer.is_some() || plugin.group.is_some() {
            if (on_service || on_route) && may_guard(entities, plugin.node) {
                let kind = name_of(plugin.node);
                return Err(format!("plugin {kind} of line {} is for one consumer here", plugin.node.line));
            }
            continue;
        }
        let rank = usize::from(on_service) + 2 * usize::from(on_route);
        let name = name_of(plugin.node);
        if rank == 0 && name == "prometheus" {
            continue;
        }
        let present = effective.entry(name).or_insert((rank, plugin));
        if rank > present.0 {
            *present = (rank, plugin);
        }
    }
    if effective.contains_key("request-termination")
        && let Some(guard) = LATER_HERE.iter().find(|name| effective.contains_key(**name))
    {
        // Kong asks the guard first.
        return Err(format!("request-termination answers before {guard} here"));
    }
    let authenticates = AUTHENTICATION.iter().any(|name| effective.contains_key(*name));
    let mut plugins = Map::new();
    for (_, plugin) in effective.values() {
        let place = PluginContext { plugin: Some(plugin), service, authenticates, on_consumer: false };
        match convert(entities, plugin.node, place, imported) {
            Became::Plugins(converted) => {
                converted.into_iter().for_each(|(ours, conf)| merge::add(&mut plugins, ours, conf));
            }
            Became::LeftOut => {}
            Became::Closed(why) => return Err(why),
        }
    }
    if authenticates {
        let own = AUTHENTICATION.iter().find_map(|name| effective.get(*name));
        let line = own.map_or_else(Default::default, |(_, plugin)| plugin.node.line);
        identify(line, &mut plugins, imported)?;
    }
    Ok(plugins)
}

/// Plugins of ours that neither turn a client away nor say who it is.
const OPEN: [&str; 11] = [
    "cors",
    "request-id",
    "prometheus",
    "zipkin",
    "opentelemetry",
    "http-logger",
    "tcp-logger",
    "udp-logger",
    "syslog",
    "file-logger",
    "gzip",
];

pub(crate) fn guards_alone(mut plugins: Map<String, Value>) -> Map<String, Value> {
    plugins.retain(|name, _| !OPEN.contains(&name.as_str()));
    plugins
}

/// Whether a route identifies consumers.
pub(crate) fn know_consumers(plugins: &Map<String, Value>) -> bool {
    OURS.iter().any(|name| plugins.contains_key(*name))
}

/// Fields in which Kong identifies the client to upstreams, besides those that the gateway writes itself.
const IDENTITIES: [&str; 5] = [
    "X-Anonymous-Consumer",
    "X-Authenticated-Groups",
    "X-Authenticated-Scope",
    "X-Authenticated-Userid",
    "X-Credential-Username",
];

/// What upstreams learn about the client, where plugins authenticate. The error says why the route is closed.
fn identify(line: usize, plugins: &mut Map<String, Value>, imported: &mut Imported) -> Result<(), String> {
    let present: Vec<&Value> = OURS.iter().filter_map(|name| plugins.get(*name)).collect();
    let lets_others_in = present.iter().any(|conf| conf.get("anonymous_consumer").is_some());
    if present.len() > 1 && lets_others_in {
        // Here each plugin decides for itself: the second one would replace the consumer of the first.
        return Err("several plugins authenticate, and `anonymous` stands for the others".to_owned());
    }
    merge::add(plugins, "proxy-rewrite", json!({"headers": {"remove": IDENTITIES}}));
    if lets_others_in {
        let how = "upstreams do not get X-Anonymous-Consumer; X-Consumer-Username names the consumer";
        imported.report.approximated(line, "anonymous", how);
    }
    Ok(())
}

fn may_guard(entities: &Entities, node: &Node) -> bool {
    let kind = name_of(node);
    let left_out =
        [HARMLESS.as_slice(), NO_GUARDS.as_slice()].iter().any(|names| names.contains(&kind.as_str()));
    !left_out && !entities.allow_missing.contains(&kind)
}

/// With a separate report: what it lacks must count at each place of the plugin.
fn convert(entities: &Entities, node: &Node, place: PluginContext, imported: &mut Imported) -> Became {
    let outer = std::mem::take(&mut imported.report);
    let mut converted = table::convert_one(node, place, imported);
    if let Some(plugins) = &mut converted {
        authentication::name_anonymous(plugins, &entities.consumers, node, &mut imported.report);
    }
    let own = std::mem::replace(&mut imported.report, outer);
    let lacks = own.entries().iter().find(|entry| entry.outcome == Conversion::Unsupported);
    let kind = name_of(node);
    let line = node.line;
    let why = match (&converted, lacks) {
        (_, Some(lack)) => Some(format!("plugin {kind} of line {line}: {}", lack.note)),
        (None, None) => Some(format!("plugin {kind} of line {line} is not converted")),
        (Some(_), None) => None,
    };
    let is_left_out = !may_guard(entities, node);
    imported.report.absorb(own);
    match (converted, why) {
        (Some(converted), None) => Became::Plugins(converted),
        (Some(converted), Some(_)) if is_left_out => Became::Plugins(converted),
        (None, _) if is_left_out => Became::LeftOut,
        (_, why) => Became::Closed(why.unwrap_or_default()),
    }
}
