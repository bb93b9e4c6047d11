//! How objects of files are checked.

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{Kind, PluginCatalog, SchemaKind, catalog::PluginFacts, mask::mask_message, remedy};
use tidegate_plugin_api::Catalog;

/// What an object that did not come through the Admin API must pass to be used. Plugins that are off do not make it bad:
/// the compiler decides, and the Admin API keeps showing it.
pub(super) fn check(catalog: &Arc<Catalog>) -> tidegate_store::file::Check {
    let catalog = AnyPlugin(catalog.clone());
    Box::new(move |kind: Kind, id: &str, value: &Value| {
        let checked = super::languages::check_object(&catalog, kind, id, value);
        let checked = checked.and_then(|()| match kind {
            Kind::StreamRoute => Ok(()),
            _ => tidegate_model::check::check_known(&catalog, value),
        });
        // The reason goes into the log.
        checked.map_err(|reason| {
            let reason = mask_message(kind, id, value, &catalog, &reason);
            // Without the object: what is wrong in it may be a secret, and the log keeps it.
            remedy::with_remedy(Some((kind, id)), None, reason, &catalog)
        })
    })
}

struct AnyPlugin(Arc<Catalog>);

impl PluginCatalog for AnyPlugin {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        self.0.as_ref().facts(name)
    }

    fn is_enabled(&self, _: &str) -> bool {
        true
    }

    fn enabled(&self) -> Vec<&str> {
        PluginCatalog::enabled(self.0.as_ref())
    }

    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String> {
        if !self.0.is_enabled(name) {
            return Ok(());
        }
        self.0.check(name, kind, conf)
    }

    fn variable_remark(&self, name: &str) -> Option<String> {
        self.0.variable_remark(name)
    }

    fn metadata_remarks(&self, name: &str, conf: &Value) -> Vec<String> {
        self.0.metadata_remarks(name, conf)
    }

    fn script_remarks(&self, source: &str) -> Vec<String> {
        self.0.script_remarks(source)
    }
}
