//! Which plugins count where, and the table of who converts what.

use std::collections::BTreeMap;

use config::yaml::{Content, Node};
use serde_json::{Map, Value, json};

use super::{
    authentication,
    entities::{Entities, Plugin, key_text, name},
    grpc_gateway, loggers, merge, rate_limiting, traffic, transform,
};
use crate::{Imported, Outcome, closed, fields::Fields};

/// What a converter makes of a plugin. `None`: nothing, and the report says why.
pub type Converted = Option<Vec<(&'static str, Value)>>;

/// What becomes of a plugin where it stands.
enum Became {
    Plugins(Vec<(&'static str, Value)>),
    /// It guards nothing, or the user said so.
    LeftOut,
    /// Whatever it applies to is closed, and why.
    Closed(String),
}

/// Plugins without a counterpart that let everybody through.
const HARMLESS: [&str; 6] = ["datadog", "statsd", "statsd-advanced", "loggly", "kafka-log", "app-dynamics"];

/// Plugins that are converted, and guard nothing: what is left out of them opens nothing.
const NO_GUARDS: [&str; 14] = [
    "cors",
    "correlation-id",
    "proxy-cache",
    "redirect",
    "grpc-web",
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

/// What Kong writes out where nobody set it, and what only tunes how records are sent.
const DEFAULTS: &[(&str, &str)] = &[
    ("allow_origin_absent", "true"),
    ("connect_timeout", "2000"),
    ("connect_timeout", "1000"),
    ("default_header_type", "b3"),
    ("header_type", "preserve"),
    ("http_span_name", "method"),
    ("include_credential", "true"),
    ("phase_duration_flavor", "annotations"),
    ("read_timeout", "5000"),
    ("sampling_strategy", "parent_drop_probability_fallback"),
    ("send_timeout", "5000"),
    ("tags_header", "Zipkin-Tags"),
    ("traceid_byte_count", "16"),
];

/// What a converter may need to know about the place of the plugin.
#[derive(Clone, Copy, Default)]
pub struct Place<'a> {
    /// With whom it belongs to.
    pub plugin: Option<&'a Plugin<'a>>,
    /// Of the route at hand.
    pub service: Option<&'a Node>,
    /// A plugin beside it authenticates consumers.
    pub authenticates: bool,
    /// It stands on a consumer or a group of them.
    pub on_consumer: bool,
}

/// Guards that run behind the plugin which request-termination becomes.
const LATER_HERE: [&str; 6] = [
    "ip-restriction",
    "acl",
    "bot-detection",
    "rate-limiting",
    "rate-limiting-advanced",
    "request-size-limiting",
];

const AUTHENTICATION: [&str; 4] = ["key-auth", "basic-auth", "jwt", "hmac-auth"];

/// The plugins that belong to no route: what they count must not depend on one matching.
pub fn everywhere(entities: &Entities, imported: &mut Imported) {
    for plugin in entities.plugins.iter().filter(|plugin| is_enabled(plugin.node)) {
        let number = [plugin.service, plugin.route, plugin.consumer, plugin.group].iter().flatten().count();
        if number == 0
            && name(plugin.node) == "prometheus"
            && let Became::Plugins(converted) = convert(entities, plugin.node, Place::default(), imported)
        {
            for (ours, conf) in converted {
                imported.output.add("global_rules", ours, json!({"plugins": {ours: conf}}));
            }
        }
    }
}

/// The plugins of one consumer or group.
pub fn of_owner(
    entities: &Entities,
    imported: &mut Imported,
    owns: impl Fn(&Plugin) -> bool,
) -> Map<String, Value> {
    let mut plugins = Map::new();
    for plugin in entities.plugins.iter().filter(|plugin| is_enabled(plugin.node) && owns(plugin)) {
        if plugin.service.is_none() && plugin.route.is_none() {
            let place = Place { plugin: Some(plugin), service: None, authenticates: true, on_consumer: true };
            match convert(entities, plugin.node, place, imported) {
                Became::Plugins(converted) => {
                    converted.into_iter().for_each(|(ours, conf)| merge::add(&mut plugins, ours, conf));
                }
                Became::LeftOut => {}
                // Whoever it is may not pass.
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
pub fn of_route(
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
    for plugin in &entities.plugins {
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
        let place = Place { plugin: Some(plugin), service, authenticates, on_consumer: false };
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

/// Fields by which Kong tells upstreams who asks, besides those that the gateway writes itself.
const IDENTITIES: [&str; 5] = [
    "X-Anonymous-Consumer",
    "X-Authenticated-Groups",
    "X-Authenticated-Scope",
    "X-Authenticated-Userid",
    "X-Credential-Username",
];

/// What upstreams are told of who asks, where plugins authenticate. The error says why the route is closed.
fn identify(line: usize, plugins: &mut Map<String, Value>, imported: &mut Imported) -> Result<(), String> {
    let ours = ["key-auth", "basic-auth", "jwt-auth", "hmac-auth"];
    let present: Vec<&Value> = ours.iter().filter_map(|name| plugins.get(*name)).collect();
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

/// A secret that the gateway cannot ask for.
pub fn vault_reference(node: &Node) -> Option<String> {
    match &node.content {
        Content::Scalar { text, .. } => text.contains("{vault://").then(|| text.clone()),
        Content::List(items) => items.iter().find_map(vault_reference),
        Content::Map(entries) => entries.iter().find_map(|entry| vault_reference(&entry.value)),
    }
}

/// Only what Kong takes for no: a text switches nothing off.
fn is_enabled(node: &Node) -> bool {
    let enabled = node.get("enabled").map(|enabled| &enabled.content);
    !matches!(enabled, Some(Content::Scalar { value: Value::Bool(false), .. }))
}

/// A filter chain may be named like a plugin, and is none.
fn name_of(node: &Node) -> String {
    let name = key_text(node, "name").unwrap_or_default();
    if node.get("filters").is_some() { format!("filter chain {name}").trim_end().to_owned() } else { name }
}

/// With a report of its own: what it lacks must count at each place of the plugin.
fn convert(entities: &Entities, node: &Node, place: Place, imported: &mut Imported) -> Became {
    let outer = std::mem::take(&mut imported.report);
    let converted = convert_one(node, place, imported);
    let own = std::mem::replace(&mut imported.report, outer);
    let lacks = own.entries().iter().find(|entry| entry.outcome == Outcome::Unsupported);
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

fn convert_one(node: &Node, place: Place, imported: &mut Imported) -> Converted {
    let kind = name_of(node);
    let subject = format!("plugin {kind}");
    let outer = Fields::new(node, &subject);
    if outer.get("filters").is_some() {
        imported.report.unsupported(node.line, &subject, "WebAssembly is not run here");
        return None;
    }
    outer.skip(&[
        "id",
        "name",
        "enabled",
        "tags",
        "created_at",
        "updated_at",
        "service",
        "route",
        "consumer",
    ]);
    outer.skip(&["consumer_group", "protocols", "instance_name", "_config"]);
    if let Some(reference) = outer.get("config").and_then(vault_reference) {
        let why = format!("{reference} is not converted; {{vault://env/NAME}} is");
        imported.report.unsupported(node.line, &subject, &why);
        return None;
    }
    let conf = Fields::maybe(outer.get("config"), node.line, &subject);
    outer.finish(&mut imported.report);
    let before = imported.report.entries().len();
    let report = &mut imported.report;
    let converted = match kind.as_str() {
        "key-auth" => authentication::key(&conf, report),
        "basic-auth" => authentication::common(&conf, "basic-auth", report),
        "jwt" => authentication::jwt(&conf, report),
        "hmac-auth" => authentication::hmac(&conf, report),
        "acl" => traffic::acl(&conf),
        "rate-limiting" => rate_limiting::convert(&conf, place, report),
        "rate-limiting-advanced" => rate_limiting::advanced(&conf, place, report),
        "ip-restriction" => traffic::ip_restriction(&conf, report),
        "bot-detection" => traffic::bot_detection(&conf, report),
        "request-size-limiting" => traffic::request_size_limiting(&conf, report),
        "request-termination" => traffic::request_termination(&conf, place, report),
        "proxy-cache" => traffic::proxy_cache(&conf, report),
        "cors" => transform::cors(&conf, report),
        "request-transformer" => transform::request(&conf, report),
        "response-transformer" => transform::response(&conf, report),
        "correlation-id" => transform::correlation_id(&conf, report),
        "redirect" => transform::redirect(&conf, report),
        "pre-function" | "post-function" => transform::function(&kind, &conf, report),
        "grpc-web" => {
            conf.skip(&["proto", "pass_stripped_path", "allow_origin_header"]);
            report.approximated(
                node.line,
                &subject,
                "requests that are not gRPC-Web are answered 405 or 400",
            );
            Some(vec![("grpc-web", json!({}))])
        }
        // Its routes are made where this one is.
        "grpc-gateway" => {
            Some(vec![("grpc-gateway", json!({"proto": grpc_gateway::file(&conf), "line": node.line}))])
        }
        "prometheus" => loggers::prometheus(&conf, report),
        "zipkin" => loggers::zipkin(&conf, report),
        "opentelemetry" => loggers::opentelemetry(&conf, imported),
        "http-log" => loggers::http(&conf, report),
        "tcp-log" => loggers::socket(&conf, "tcp-logger", report),
        "udp-log" => loggers::socket(&conf, "udp-logger", report),
        "syslog" => loggers::syslog(&conf, report),
        "file-log" => loggers::file(&conf, report),
        _ => {
            report.unsupported(node.line, &subject, "it has no counterpart here");
            return None;
        }
    };
    conf.skip_defaults(DEFAULTS);
    conf.finish(&mut imported.report);
    if converted.is_some() && imported.report.entries().len() == before {
        imported.report.converted(node.line, &subject);
    }
    converted
}
