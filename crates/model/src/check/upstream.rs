//! Upstreams: separate objects, and those inside routes and services.

use serde_json::Value;

use super::{addresses, certificate, context::Context, parse_address};
use crate::{
    Kind,
    header_text::{self, Text},
    schema::{lua, rules::is_secret_reference},
    schemas,
};

/// The header texts that health probes send.
const PROBES: [header_text::HeaderField; 2] =
    [("checks.active.req_headers", Text::Lines), ("checks.active.http_path", Text::Value)];

pub(super) fn check_embedded(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    conf.get_mut("upstream").map_or(Ok(()), |upstream| check(context, upstream))
}

pub(super) fn check(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    for node in conf.get("nodes").and_then(Value::as_array).into_iter().flatten() {
        if node.get("host").and_then(Value::as_str).is_some_and(addresses::is_bare_ipv6) {
            return Err("invalid configuration: IPv6 address must be enclosed with '[' and ']'".into());
        }
        let limit = node.get("max_conn");
        if limit.is_some_and(|limit| {
            !limit.as_u64().is_some_and(|limit| (1..=u64::from(u32::MAX)).contains(&limit))
        }) {
            return Err("invalid configuration: max_conn of a node must be an integer of at least 1".into());
        }
    }
    check_proxy_protocol(Some(conf))?;
    super::context::check_schema(Kind::Upstream, conf)?;
    header_text::check(conf, &PROBES).map_err(|reason| format!("invalid configuration: {reason}"))?;
    for address in conf.get("nodes").and_then(Value::as_object).into_iter().flat_map(|nodes| nodes.keys()) {
        if let (_, Some(port)) = parse_address(address)
            && !(1..=65535).contains(&port)
        {
            return Err(format!("invalid port {port}"));
        }
        if let Some(fault) = addresses::node_fault(address) {
            return Err(format!("invalid configuration: {fault}"));
        }
    }
    check_client_certificate(context, conf)?;
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    if text("pass_host") == Some("rewrite") && text("upstream_host").is_none_or(str::is_empty) {
        return Err("`upstream_host` can't be empty when `pass_host` is `rewrite`".into());
    }
    if let Some(certificate) = conf.pointer("/tls/client_cert").and_then(Value::as_str) {
        let key = conf.pointer("/tls/client_key").and_then(Value::as_str);
        // The target of a reference is known when the upstream is built.
        if ![Some(certificate), key].into_iter().flatten().any(is_secret_reference) {
            certificate::check_pair(certificate, key)?;
        }
    }
    if text("type") == Some("chash") { check_hash_key(conf) } else { Ok(()) }
}

/// Before the schema, whose message would not list the known values.
pub(super) fn check_proxy_protocol(upstream: Option<&Value>) -> Result<(), String> {
    match upstream.and_then(|upstream| upstream.get("proxy_protocol")).map(Value::as_str) {
        None | Some(Some("v1" | "v2")) => Ok(()),
        _ => Err("invalid configuration: proxy_protocol of an upstream must be \"v1\" or \"v2\"".into()),
    }
}

fn check_client_certificate(context: &Context<'_>, conf: &Value) -> Result<(), String> {
    let Some(id) = conf.pointer("/tls/client_cert_id").map(lua::text) else { return Ok(()) };
    let missing = |why: &str| format!("failed to fetch ssl info by ssl id [{id}], {why}");
    let ssl = context.references.get(Kind::Ssl, &id).ok_or_else(|| missing("response code: 404"))?;
    if ssl.get("type").and_then(Value::as_str) != Some("client") {
        return Err(missing("wrong ssl type"));
    }
    Ok(())
}

fn check_hash_key(conf: &Value) -> Result<(), String> {
    let hash_on = conf.get("hash_on").and_then(Value::as_str).unwrap_or("vars");
    let schema = match hash_on {
        "consumer" => return Ok(()),
        "vars" => "upstream_hash_vars_schema",
        "header" | "cookie" => "upstream_hash_header_schema",
        "vars_combinations" => "upstream_hash_vars_combinations_schema",
        other => return Err(format!("type is chash, err: invalid hash_on type {other}")),
    };
    let mut key = conf.get("key").ok_or("missing key")?.clone();
    let Some(schema) = schemas::named(schema) else { return Ok(()) };
    schema.check(&mut key).map_err(|error| format!("invalid configuration: {error}"))
}
