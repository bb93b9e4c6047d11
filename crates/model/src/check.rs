//! Everything the Admin API checks about a resource before it stores it, with APISIX's messages.
//!
//! A check works on a copy: it fills defaults in. Checks that need an interpreter (Lua, expressions, protobuf)
//! ask [`Languages`], those that need other resources ask [`References`].

mod addresses;
mod certificate;
mod context;
mod plugins;
mod relations;
mod upstream;

use serde_json::Value;

pub(crate) use self::addresses::node_fault;
use self::context::check_schema;
pub use self::plugins::{known as check_known, unknown_remedy};
pub use self::relations::{clashes, recognised_by};
pub use self::{
    addresses::{may_mean_server_name, parse_address, server_name_fault},
    context::{AnyLanguage, Context, Languages, LuaChunk, LuaFault, NoReferences, References},
};
use crate::{Kind, SchemaKind, mask, schema::lua, schemas};

/// Checks `conf` and fills defaults into it. `id` is the one it will have: of a credential without its consumer,
/// of a secret with its manager (`vault/1`), of plugin metadata the plugin's name. `owner` is a credential's
/// consumer, if known. The error is the whole `error_msg`.
pub fn check_resource(
    context: &Context<'_>,
    kind: Kind,
    id: Option<&str>,
    owner: Option<&str>,
    conf: &mut Value,
) -> Result<(), String> {
    lua::whole_numbers(conf);
    refuse_masks(context, kind, id, conf)?;
    match kind {
        Kind::Route => check_route(context, conf),
        Kind::Service => check_service(context, conf),
        Kind::Upstream => upstream::check(context, conf),
        Kind::Consumer => check_consumer(context, id, conf),
        Kind::Credential => check_credential(context, id, owner, conf),
        Kind::PluginConfig | Kind::ConsumerGroup => {
            check_schema(kind, conf)?;
            plugins::check_field(context, conf, SchemaKind::Plugin)
        }
        Kind::GlobalRule => {
            check_schema(kind, conf)?;
            plugins::check_field(context, conf, SchemaKind::Plugin)?;
            relations::check_global_rule(context, id, conf)
        }
        Kind::Ssl => certificate::check_ssl(context, conf),
        Kind::Proto => {
            check_schema(kind, conf)?;
            let content = conf.get("content").and_then(Value::as_str).unwrap_or_default();
            context.languages.proto(content).map_err(|error| format!("invalid content: {error}"))
        }
        Kind::StreamRoute => check_stream_route(context, id, conf),
        Kind::PluginMetadata => plugins::check_metadata(context, id, conf),
        Kind::Secret => check_secret(id, conf),
        Kind::GraphqlCostDecoration => check_schema(kind, conf),
    }
}

/// Refuses masks: an answer for viewers, sent back, would make [`crate::mask::fields::MASK`] the secret.
fn refuse_masks(context: &Context<'_>, kind: Kind, id: Option<&str>, conf: &Value) -> Result<(), String> {
    match mask::masked_place(kind, id.unwrap_or_default(), conf, context.plugins) {
        Some(place) => Err(format!(
            "invalid configuration: {place} is {:?}, which is shown in place of a secret; write the secret \
             itself, or use a PATCH without this field to keep it",
            crate::mask::fields::MASK
        )),
        None => Ok(()),
    }
}

/// What is wrong with an `id` that [`is_id`] refuses.
pub const NO_ID: &str = "its id should be text or a whole number";

/// Whether an object may have this `id`: a number is one only if it is whole; files and imports count from 0, too.
pub fn is_id(id: &Value) -> bool {
    match id {
        Value::String(_) => true,
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
        _ => false,
    }
}

fn check_route(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    let both = |left: &str, right: &str| conf.get(left).is_some() && conf.get(right).is_some();
    if both("host", "hosts") {
        return Err("only one of host or hosts is allowed".into());
    }
    if both("remote_addr", "remote_addrs") {
        return Err("only one of remote_addr or remote_addrs is allowed".into());
    }
    upstream::check_proxy_protocol(conf.get("upstream"))?;
    check_schema(Kind::Route, conf)?;
    upstream::check_embedded(context, conf)?;
    relations::check_reference(context, conf, "upstream_id", Kind::Upstream)?;
    relations::check_reference(context, conf, "service_id", Kind::Service)?;
    relations::check_reference(context, conf, "plugin_config_id", Kind::PluginConfig)?;
    plugins::check_field(context, conf, SchemaKind::Plugin)?;
    if let Some(vars) = conf.get("vars") {
        let checked = context.languages.expression(vars);
        checked.map_err(|error| format!("failed to validate the 'vars' expression: {error}"))?;
    }
    if let Some(source) = conf.get("filter_func").and_then(Value::as_str) {
        context.languages.lua(LuaChunk::FilterFunction, source).map_err(|fault| match fault {
            LuaFault::Load(error) => format!("failed to load 'filter_func' string: {error}"),
            LuaFault::WrongKind => "'filter_func' should be a function".into(),
        })?;
    }
    check_script(context, conf)
}

fn check_script(context: &Context<'_>, conf: &Value) -> Result<(), String> {
    let Some(source) = conf.get("script").and_then(Value::as_str) else { return Ok(()) };
    context.languages.lua(LuaChunk::Script, source).map_err(|fault| match fault {
        LuaFault::Load(error) => format!("failed to load 'script' string: {error}"),
        LuaFault::WrongKind => "'script' should be a Lua object".into(),
    })
}

fn check_service(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    upstream::check_proxy_protocol(conf.get("upstream"))?;
    check_schema(Kind::Service, conf)?;
    upstream::check_embedded(context, conf)?;
    relations::check_reference(context, conf, "upstream_id", Kind::Upstream)?;
    plugins::check_field(context, conf, SchemaKind::Plugin)?;
    check_script(context, conf)
}

fn check_consumer(context: &Context<'_>, username: Option<&str>, conf: &mut Value) -> Result<(), String> {
    check_schema(Kind::Consumer, conf)?;
    let name = conf.get("username").and_then(Value::as_str).unwrap_or_default().to_owned();
    if username.is_some_and(|username| username != name) {
        return Err("wrong username".into());
    }
    plugins::check_field(context, conf, SchemaKind::Consumer)
        .map_err(|error| format!("invalid plugins configuration: {error}"))?;
    relations::check_duplicate_key(context, conf, &name, None)?;
    relations::check_reference(context, conf, "group_id", Kind::ConsumerGroup)
}

fn check_credential(
    context: &Context<'_>,
    id: Option<&str>,
    owner: Option<&str>,
    conf: &mut Value,
) -> Result<(), String> {
    check_schema(Kind::Credential, conf)?;
    plugins::check_field(context, conf, SchemaKind::Consumer)
        .map_err(|error| format!("invalid plugins configuration: {error}"))?;
    for name in conf.get("plugins").and_then(Value::as_object).into_iter().flat_map(|plugins| plugins.keys())
    {
        let facts = context.plugins.facts(name).ok_or_else(|| format!("unknown plugin {name}"))?;
        if facts.kind != Some("auth") {
            return Err("only supports auth type plugins in consumer credential".into());
        }
    }
    owner.map_or(Ok(()), |owner| relations::check_duplicate_key(context, conf, owner, id))
}

fn check_secret(id: Option<&str>, conf: &mut Value) -> Result<(), String> {
    let manager = id.and_then(|id| id.split('/').next()).filter(|manager| !manager.is_empty());
    let manager = manager.ok_or("missing secret type")?;
    let schema = schemas::secret(manager).ok_or_else(|| format!("invalid secret manager: {manager}"))?;
    schema.check(conf).map_err(|error| format!("invalid configuration: {error}"))
}

fn check_stream_route(context: &Context<'_>, id: Option<&str>, conf: &mut Value) -> Result<(), String> {
    check_schema(Kind::StreamRoute, conf)?;
    relations::check_reference(context, conf, "upstream_id", Kind::Upstream)?;
    relations::check_reference(context, conf, "service_id", Kind::Service)?;
    relations::check_superior(context, id, conf)?;
    plugins::check_stream_field(context, conf)?;
    for field in ["remote_addr", "server_addr"] {
        if let Some(address) = conf.get(field).and_then(Value::as_str)
            && !addresses::is_ip_or_cidr(address)
        {
            return Err(format!("invalid {field}: {address}"));
        }
    }
    check_protocol(context, conf)
}

/// Of a stream route: the protocol on top of TCP.
fn check_protocol(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    let Some(protocol) = conf.get_mut("protocol").filter(|protocol| protocol.is_object()) else {
        return Ok(());
    };
    let name = protocol.get("name").map(lua::text).unwrap_or_default();
    if !context.protocols.contains(&name) {
        return Err(format!("unknown protocol [{name}]"));
    }
    match (schemas::protocol(&name), protocol.get_mut("conf")) {
        (Some(schema), Some(conf)) => schema.check(conf),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
