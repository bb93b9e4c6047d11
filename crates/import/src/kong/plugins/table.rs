//! Which converter takes which plugin.

use serde_json::json;
use tidegate_config::yaml::Node;

use super::super::{
    authentication, entities::unknown_protocol, grpc_gateway, loggers, rate_limiting, traffic, transform,
};
use crate::{
    fields::Fields,
    imported::Imported,
    kong::converted::{Converted, PluginContext, name_of, vault_reference},
};

/// What Kong writes out where it is not set, and what only tunes how records are sent.
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

/// Fields of every plugin that say where it applies, and are read where that is decided.
#[rustfmt::skip]
const ELSEWHERE: [&str; 13] = [
    "id", "name", "enabled", "tags", "created_at", "updated_at", "service", "route", "consumer", "consumer_group", "protocols",
    "instance_name", "_config",
];

pub(crate) fn convert_one(node: &Node, place: PluginContext, imported: &mut Imported) -> Converted {
    let kind = name_of(node);
    let subject = format!("plugin {kind}");
    let outer = Fields::new(node, &subject);
    if outer.get("filters").is_some() {
        imported.report.unsupported(node.line, &subject, "WebAssembly is not run here");
        return None;
    }
    outer.skip(&ELSEWHERE);
    if let Some(reference) = outer.get("config").and_then(vault_reference) {
        let why = format!("{reference} is not converted; {{vault://env/NAME}} is");
        imported.report.unsupported(node.line, &subject, &why);
        return None;
    }
    if let Some(protocol) = unknown_protocol(node) {
        imported.report.unsupported(node.line, &subject, &format!("protocol {protocol} is not known"));
        return None;
    }
    let conf = Fields::maybe(outer.get("config"), node.line, &subject);
    outer.finish(&mut imported.report);
    let before = imported.report.entries().len();
    let converted = by_kind(&kind, node, &conf, place, imported)?;
    conf.skip_defaults(DEFAULTS);
    conf.finish(&mut imported.report);
    if converted.is_some() && imported.report.entries().len() == before {
        imported.report.converted(node.line, &subject);
    }
    converted
}

/// `None`: nothing here does what the plugin does, which the report says.
fn by_kind(
    kind: &str,
    node: &Node,
    conf: &Fields<'_>,
    place: PluginContext,
    imported: &mut Imported,
) -> Option<Converted> {
    let report = &mut imported.report;
    let subject = format!("plugin {kind}");
    Some(match kind {
        "key-auth" => authentication::key(conf, report),
        "basic-auth" => authentication::common(conf, "basic-auth", report),
        "jwt" => authentication::jwt(conf, report),
        "hmac-auth" => authentication::hmac(conf, report),
        "acl" => traffic::acl(conf),
        "rate-limiting" => rate_limiting::convert(conf, place, report),
        "rate-limiting-advanced" => rate_limiting::advanced(conf, place, report),
        "ip-restriction" => traffic::ip_restriction(conf, report),
        "bot-detection" => traffic::bot_detection(conf, report),
        "request-size-limiting" => traffic::request_size_limiting(conf, report),
        "request-termination" => traffic::request_termination(conf, place, report),
        "proxy-cache" => traffic::proxy_cache(conf, report),
        "cors" => transform::cors(conf, report),
        "request-transformer" => transform::request(conf, report),
        "response-transformer" => transform::response(conf, report),
        "correlation-id" => transform::correlation_id(conf, report),
        "redirect" => transform::redirect(conf, report),
        "pre-function" | "post-function" => transform::function(kind, conf, report),
        "grpc-web" => {
            conf.skip(&["proto", "pass_stripped_path"]);
            // Ours lets pages of any origin read the response.
            conf.skip_defaults(&[("allow_origin_header", "*")]);
            report.approximated(
                node.line,
                &subject,
                "requests that are not gRPC-Web are answered 405 or 400",
            );
            Some(vec![("grpc-web", json!({}))])
        }
        // Its routes are made where this one is.
        "grpc-gateway" => {
            Some(vec![("grpc-gateway", json!({"proto": grpc_gateway::file(conf), "line": node.line}))])
        }
        "prometheus" => loggers::prometheus(conf, report),
        "zipkin" => loggers::zipkin(conf, report),
        "opentelemetry" => loggers::opentelemetry(conf, imported),
        "http-log" => loggers::http(conf, report),
        "tcp-log" => loggers::socket(conf, "tcp-logger", report),
        "udp-log" => loggers::socket(conf, "udp-logger", report),
        "syslog" => loggers::syslog(conf, report),
        "file-log" => loggers::file(conf, report),
        _ => {
            report.unsupported(node.line, &subject, "it has no counterpart here");
            return None;
        }
    })
}
