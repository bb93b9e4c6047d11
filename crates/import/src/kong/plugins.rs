//! Which plugins count where, and the table of who converts what.

use std::collections::BTreeMap;

use config::yaml::Node;
use serde_json::{Map, Value, json};

use super::{
    entities::{Entities, Plugin, key_text, name},
    grpc_gateway, loggers, merge, traffic, transform,
};
use crate::{Imported, Report, fields::Fields};

/// What a plugin became: our plugins with their configurations. `None`: it is left out, and the report says so.
pub type Converted = Option<Vec<(&'static str, Value)>>;

/// What a converter may need to know about the place of the plugin.
#[derive(Clone, Copy, Default)]
pub struct Place {
    /// A plugin beside it authenticates consumers.
    pub authenticates: bool,
    /// It stands on a consumer or a group of them.
    pub on_consumer: bool,
}

const AUTHENTICATION: [&str; 4] = ["key-auth", "basic-auth", "jwt", "hmac-auth"];

/// The plugins that belong to no route: what they count must not depend on one matching.
pub fn everywhere(entities: &Entities, imported: &mut Imported) {
    for plugin in entities.plugins.iter().filter(|plugin| is_enabled(plugin.node)) {
        let owners = [plugin.service, plugin.route, plugin.consumer, plugin.group];
        let number = owners.iter().flatten().count();
        if number > 1 && (plugin.consumer.is_some() || plugin.group.is_some()) {
            let why = "a plugin for one consumer on one service or route is left out";
            imported.report.unsupported(plugin.node.line, &format!("plugin {}", name(plugin.node)), why);
        }
        if number == 0 && name(plugin.node) == "prometheus" {
            let converted = convert(plugin.node, Place::default(), imported).unwrap_or_default();
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
            let place = Place { authenticates: true, on_consumer: true };
            for (ours, conf) in convert(plugin.node, place, imported).unwrap_or_default() {
                merge::add(&mut plugins, ours, conf);
            }
        }
    }
    plugins
}

/// The plugins a route runs: of each kind the narrowest instance.
pub fn of_route(
    entities: &Entities,
    route: &Node,
    service: Option<&Node>,
    imported: &mut Imported,
) -> Map<String, Value> {
    let same = |a: Option<&Node>, b: Option<&Node>| match (a, b) {
        (Some(a), Some(b)) => std::ptr::eq(a, b),
        _ => false,
    };
    let mut effective: BTreeMap<String, (usize, &Node)> = BTreeMap::new();
    for plugin in &entities.plugins {
        if plugin.consumer.is_some() || plugin.group.is_some() || !is_enabled(plugin.node) {
            continue;
        }
        let (on_service, on_route) = (plugin.service.is_some(), plugin.route.is_some());
        if (on_service && !same(plugin.service, service)) || (on_route && !same(plugin.route, Some(route))) {
            continue;
        }
        let rank = usize::from(on_service) + 2 * usize::from(on_route);
        let name = name_of(plugin.node);
        if rank == 0 && name == "prometheus" {
            continue;
        }
        let present = effective.entry(name).or_insert((rank, plugin.node));
        if rank > present.0 {
            *present = (rank, plugin.node);
        }
    }
    let authenticates = AUTHENTICATION.iter().any(|name| effective.contains_key(*name));
    let place = Place { authenticates, on_consumer: false };
    let mut plugins = Map::new();
    for (_, node) in effective.values() {
        for (ours, conf) in convert(node, place, imported).unwrap_or_default() {
            merge::add(&mut plugins, ours, conf);
        }
    }
    plugins
}

fn is_enabled(node: &Node) -> bool {
    key_text(node, "enabled").is_none_or(|enabled| enabled != "false")
}

fn name_of(node: &Node) -> String {
    key_text(node, "name").unwrap_or_default()
}

fn convert(node: &Node, place: Place, imported: &mut Imported) -> Converted {
    let kind = name_of(node);
    let subject = format!("plugin {kind}");
    let outer = Fields::new(node, &subject);
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
    let conf = Fields::maybe(outer.get("config"), node.line, &subject);
    outer.finish(&mut imported.report);
    let before = imported.report.entries().len();
    let report = &mut imported.report;
    let converted = match kind.as_str() {
        "key-auth" => key_auth(&conf, report),
        "basic-auth" => authentication(&conf, "basic-auth"),
        "jwt" => jwt(&conf, report),
        "hmac-auth" => hmac(&conf, report),
        "acl" => traffic::acl(&conf),
        "rate-limiting" => traffic::rate_limiting(&conf, place, report),
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
            report.unsupported(node.line, &subject, "there is no counterpart; it is left out");
            return None;
        }
    };
    conf.finish(&mut imported.report);
    if converted.is_some() && imported.report.entries().len() == before {
        imported.report.converted(node.line, &subject);
    }
    converted
}

/// What all plugins that authenticate have in common.
fn authentication(conf: &Fields, ours: &'static str) -> Converted {
    let mut object = json!({"hide_credentials": conf.flag("hide_credentials").unwrap_or(false)});
    if let Some(consumer) = conf.text("anonymous").filter(|name| !name.is_empty()) {
        object["anonymous_consumer"] = consumer.into();
    }
    if let Some(realm) = conf.text("realm") {
        object["realm"] = realm.into();
    }
    // CORS preflights pass without credentials only where the plugin cors answers them, as it does here.
    conf.skip(&["run_on_preflight"]);
    Some(vec![(ours, object)])
}

fn only(names: &[String], what: &str, conf: &Fields, report: &mut Report) {
    if names.len() > 1 {
        let why = format!("one {what} is looked at; left out: {}", names[1..].join(", "));
        report.unsupported(conf.line(), conf.subject(), &why);
    }
}

fn key_auth(conf: &Fields, report: &mut Report) -> Converted {
    let names = conf.texts("key_names");
    only(&names, "name", conf, report);
    let mut converted = authentication(conf, "key-auth")?;
    let name = names.into_iter().next().unwrap_or_else(|| "apikey".to_owned());
    for (key, at) in [("key_in_header", "header"), ("key_in_query", "query")] {
        if conf.flag(key) == Some(false) {
            report.approximated(
                conf.line(),
                conf.subject(),
                &format!("`{key}: false`: it is taken there too"),
            );
        }
        converted[0].1[at] = name.clone().into();
    }
    Some(converted)
}

fn jwt(conf: &Fields, report: &mut Report) -> Converted {
    let mut converted = authentication(conf, "jwt-auth")?;
    let object = &mut converted[0].1;
    object["key_claim_name"] = conf.text("key_claim_name").unwrap_or_else(|| "iss".to_owned()).into();
    for (theirs, ours) in
        [("header_names", "header"), ("uri_param_names", "query"), ("cookie_names", "cookie")]
    {
        let names = conf.texts(theirs);
        only(&names, ours, conf, report);
        if let Some(name) = names.into_iter().next() {
            object[ours] = name.into();
        }
    }
    let claims = conf.texts("claims_to_verify");
    if !claims.is_empty() {
        object["claims_to_verify"] = claims.into();
    }
    if conf.number("maximum_expiration").is_some_and(|seconds| seconds > 0.0) {
        report.unsupported(conf.line(), conf.subject(), "`maximum_expiration` is left out");
    }
    Some(converted)
}

fn hmac(conf: &Fields, report: &mut Report) -> Converted {
    let how = "clients must sign as the plugin hmac-auth documents: `Authorization: Signature keyId=...`";
    report.approximated(conf.line(), conf.subject(), how);
    let mut converted = authentication(conf, "hmac-auth")?;
    let object = &mut converted[0].1;
    object["clock_skew"] = conf.integer("clock_skew").unwrap_or(300).into();
    object["validate_request_body"] = conf.flag("validate_request_body").unwrap_or(false).into();
    let headers = conf.texts("enforce_headers");
    if !headers.is_empty() {
        object["signed_headers"] = headers.into();
    }
    let ours = ["hmac-sha1", "hmac-sha256", "hmac-sha512"];
    let mut algorithms = conf.texts("algorithms");
    let given = algorithms.len();
    algorithms.retain(|name| ours.contains(&name.as_str()));
    if algorithms.len() < given {
        report.unsupported(conf.line(), conf.subject(), "algorithms other than hmac-sha1, -sha256, -sha512");
    }
    if !algorithms.is_empty() {
        object["allowed_algorithms"] = algorithms.into();
    }
    Some(converted)
}
