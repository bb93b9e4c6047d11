//! Checks of what objects hold in other languages.

use serde_json::Value;
use tidegate_model::{
    Kind, PluginCatalog,
    check::{Context as CheckContext, Languages, LuaChunk, LuaFault, NoReferences},
};
use tidegate_plugin_api::Variable;
use tidegate_routing::expr::Expression;

/// Checks texts of other languages inside resources.
pub(super) struct Checks;

impl Languages for Checks {
    fn expression(&self, vars: &Value) -> Result<(), String> {
        Expression::compile(vars, &mut |name| Variable::resolve(name))?;
        check_body_paths(vars)
    }

    fn lua(&self, chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
        tidegate_plugins::check_lua(chunk, source)
    }

    fn proto(&self, content: &str) -> Result<(), String> {
        tidegate_plugins::check_proto(content)
    }
}

/// As [`Checks`], but a script that is not a table does nothing instead of being refused.
struct FileChecks;

impl Languages for FileChecks {
    fn expression(&self, vars: &Value) -> Result<(), String> {
        Checks.expression(vars)
    }

    fn lua(&self, chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
        match Checks.lua(chunk, source) {
            Err(LuaFault::WrongKind) if chunk == LuaChunk::Script => Ok(()),
            checked => checked,
        }
    }

    fn proto(&self, content: &str) -> Result<(), String> {
        Checks.proto(content)
    }
}

/// Every `["post_arg.PATH", operator, value]` has to name a path that can be followed.
fn check_body_paths(vars: &Value) -> Result<(), String> {
    let Value::Array(items) = vars else { return Ok(()) };
    let path = items.first().and_then(Value::as_str).and_then(|name| name.strip_prefix("post_arg."));
    match path {
        Some(path) if items.len() >= 3 => tidegate_plugin_api::variables::json_path::check(path),
        _ => items.iter().try_for_each(check_body_paths),
    }
}

/// Checks one object of a resource file; references may point anywhere, files have no order.
pub(crate) fn check_object(
    catalog: &dyn PluginCatalog,
    kind: Kind,
    id: &str,
    value: &Value,
) -> Result<(), String> {
    // Whatever config.yaml says of them.
    let stream = super::catalogs::all_stream_plugins();
    let protocols: Vec<String> =
        tidegate_plugins::registry::PROTOCOLS.iter().map(|def| def.name.to_owned()).collect();
    let context = CheckContext {
        plugins: catalog,
        stream_plugins: stream.map(|catalog| catalog as &dyn PluginCatalog),
        languages: &FileChecks,
        references: &NoReferences,
        skip_references: true,
        protocols: &protocols,
    };
    let (owner, id) = match id.split_once("/credentials/") {
        Some((owner, id)) => (Some(owner), id),
        None => (None, id),
    };
    tidegate_model::check::check_resource(&context, kind, Some(id), owner, &mut value.clone())
}
