//! Plugins that answer with what is of the whole gateway: not for who has a scope.

use serde_json::Value;
use tidegate_model::PluginCatalog;

/// With what they publish.
const PLUGINS: [(&str, &str); 3] = [
    ("public-api", "it publishes what other plugins answer, as the metrics of all routes and consumers"),
    ("node-status", "it publishes figures of the whole gateway"),
    ("server-info", "it publishes facts about the whole gateway"),
];

/// Refuses such a plugin that `before` does not have as it is.
pub(crate) fn check(
    before: Option<&Value>,
    after: &Value,
    catalog: &dyn PluginCatalog,
) -> Result<(), String> {
    for (name, conf) in after.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        let known = before.and_then(|before| before.get("plugins")?.get(name));
        let found = publishes(name, conf, catalog).filter(|_| known != Some(conf));
        if let Some(reason) = found {
            return Err(format!(
                "plugins.{name} is not for who has a scope: {reason}; a key or user without a scope may write it"
            ));
        }
    }
    Ok(())
}

fn publishes(name: &str, conf: &Value, catalog: &dyn PluginCatalog) -> Option<&'static str> {
    if let Some((_, reason)) = PLUGINS.iter().find(|(known, _)| *known == name) {
        return Some(reason);
    }
    let nested = catalog.facts(name).map(|facts| (facts.nested)(conf)).unwrap_or_default();
    nested.iter().find_map(|nested| publishes(nested.name, nested.conf, catalog))
}
