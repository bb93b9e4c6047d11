//! Routes that expose paths without an API behind them.

use serde_json::Value;

use crate::{Kind, Object, PluginCatalog};

const PLUGIN: &str = "public-api";

/// Paths that a `public-api` exposes without effect, as messages.
pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    if !object.document.may_have(PLUGIN) {
        return Vec::new();
    }
    let value = object.value();
    let Some(conf) = value.get("plugins").and_then(|plugins| plugins.get(PLUGIN)) else {
        return Vec::new();
    };
    if conf.pointer("/_meta/disable") == Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let moved = conf.get("uri").and_then(Value::as_str);
    let several = value.get("uris").and_then(Value::as_array).into_iter().flatten();
    let own = value.get("uri").into_iter().chain(several).filter_map(Value::as_str);
    // Without `uri` it is the path of the request, which only a route shows.
    let own = own.filter(|_| object.kind == Kind::Route && moved.is_none());
    let faults = moved.into_iter().chain(own).filter_map(|path| catalog.unanswered(path));
    faults.map(|fault| format!("plugin {PLUGIN}: {fault}")).collect()
}
