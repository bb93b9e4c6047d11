//! The `plugins` of a resource, and plugin metadata.

use serde_json::Value;

use super::context::{Context, LuaChunk, LuaFault};
use crate::{PluginCatalog, SchemaKind, catalog::built_without, nearest::hint};

/// Checks the field `plugins`, if there is one.
pub(super) fn check_field(context: &Context<'_>, conf: &mut Value, kind: SchemaKind) -> Result<(), String> {
    let Some(plugins) = conf.get_mut("plugins").and_then(Value::as_object_mut) else { return Ok(()) };
    for (name, plugin) in plugins {
        check_conf_is_table(name, plugin)?;
        if !context.plugins.is_enabled(name) {
            return Err(unknown(name, Some(context.plugins)));
        }
        if let Err(error) = context.plugins.check(name, kind, plugin)
            && !is_disabled(plugin)
        {
            return Err(format!("failed to check the configuration of plugin {name} err: {error}"));
        }
        check_meta(context, name, plugin)?;
    }
    Ok(())
}

/// Checks that the catalog has every plugin that `conf` runs, enabled or not.
pub fn known(catalog: &dyn PluginCatalog, conf: &Value) -> Result<(), String> {
    let plugins = conf.get("plugins").and_then(Value::as_object).into_iter().flatten();
    for (name, plugin) in plugins {
        if catalog.facts(name).is_none() && !is_disabled(plugin) {
            return Err(unknown(name, Some(catalog)));
        }
    }
    Ok(())
}

pub(super) fn check_stream_field(context: &Context<'_>, conf: &mut Value) -> Result<(), String> {
    let Some(plugins) = conf.get_mut("plugins").and_then(Value::as_object_mut) else { return Ok(()) };
    for (name, plugin) in plugins {
        check_conf_is_table(name, plugin)?;
        let catalog = context.stream_plugins.filter(|catalog| catalog.is_enabled(name));
        let catalog = catalog.ok_or_else(|| unknown(name, context.stream_plugins))?;
        if let Err(error) = catalog.check(name, SchemaKind::Plugin, plugin)
            && !is_disabled(plugin)
        {
            return Err(format!("failed to check the configuration of stream plugin [{name}]: {error}"));
        }
        check_meta(context, name, plugin)?;
    }
    Ok(())
}

pub(super) fn check_metadata(
    context: &Context<'_>,
    name: Option<&str>,
    conf: &mut Value,
) -> Result<(), String> {
    let name = name.ok_or("missing plugin name")?;
    let catalogs = [Some(context.plugins), context.stream_plugins];
    let mut known = catalogs.into_iter().flatten().filter(|catalog| catalog.facts(name).is_some());
    let catalog = known
        .next()
        .ok_or_else(|| format!("invalid plugin name{}", hint(name, context.plugins.enabled())))?;
    catalog.check(name, SchemaKind::Metadata, conf).map_err(|error| format!("invalid configuration: {error}"))
}

/// APISIX's message, and what to do about it.
fn unknown(name: &str, catalog: Option<&dyn PluginCatalog>) -> String {
    let remedy = catalog.map(|catalog| unknown_remedy(name, catalog)).unwrap_or_default();
    format!("unknown plugin [{name}]{remedy}")
}

/// What to do about a plugin that is not known, or not in the list: the end of a message.
pub fn unknown_remedy(name: &str, catalog: &dyn PluginCatalog) -> String {
    if let Some(feature) = catalog.missing_feature(name) {
        format!("; {}", built_without(feature))
    } else if let Some(listed) = catalog.misspelled_in_list(name) {
        format!("; the list in config.yaml has {listed}, which does not exist: did you mean {name} there?")
    } else if catalog.has_unlisted_file(name) {
        "; it has a file in apisix.extra_lua_path, add it to plugins in config.yaml, whose list takes the place of the default one"
            .to_owned()
    } else if catalog.facts(name).is_some() {
        "; it is disabled, add it to plugins in config.yaml".to_owned()
    } else {
        hint(name, catalog.enabled())
    }
}

fn check_conf_is_table(name: &str, plugin: &Value) -> Result<(), String> {
    if plugin.is_object() || plugin.is_array() {
        return Ok(());
    }
    Err(format!("invalid plugin conf {plugin} for plugin [{name}]"))
}

/// A disabled plugin never runs, so its faults do not matter.
fn is_disabled(plugin: &Value) -> bool {
    plugin.pointer("/_meta/disable") == Some(&Value::Bool(true))
}

fn check_meta(context: &Context<'_>, name: &str, plugin: &Value) -> Result<(), String> {
    if let Some(filter) = plugin.pointer("/_meta/filter") {
        let checked = context.languages.expression(filter);
        checked.map_err(|error| format!("failed to validate the 'vars' expression: {error}"))?;
    }
    if let Some(source) = plugin.pointer("/_meta/pre_function").and_then(Value::as_str)
        && let Err(LuaFault::Load(error)) = context.languages.lua(LuaChunk::PreFunction, source)
    {
        return Err(format!("failed to load _meta.pre_function in plugin {name}: {error}"));
    }
    Ok(())
}
