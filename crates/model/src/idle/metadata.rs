//! Metadata of plugins: of one that is off, and texts in it that stay empty.

use crate::{Kind, Object, PluginCatalog};

/// The catalog that has the plugins of an object: of sessions for stream routes, and for metadata that only they use.
pub fn catalog_of<'c>(
    object: &Object,
    plugins: &'c dyn PluginCatalog,
    of_streams: Option<&'c dyn PluginCatalog>,
) -> &'c dyn PluginCatalog {
    let of_streams = of_streams.filter(|streams| match object.kind {
        Kind::StreamRoute => true,
        Kind::PluginMetadata => !plugins.is_enabled(&object.id) && streams.is_enabled(&object.id),
        _ => false,
    });
    of_streams.unwrap_or(plugins)
}

/// `catalog`: that of stream routes, where only they have the plugin.
pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    if object.kind != Kind::PluginMetadata {
        return Vec::new();
    }
    let name = &*object.id;
    let value = object.value();
    let mut found = catalog.metadata_remarks(name, &value);
    if catalog.facts(name).is_some() && !catalog.is_enabled(name) {
        found.push(format!(
            "it has no effect: plugin {name} is off; add it to plugins in config.yaml, whose list takes the place of the \
             default one"
        ));
    }
    found
}
