//! The report of plugin server-info in etcd, as long as the plugin is enabled.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_config::{Role, Settings};
use tidegate_model::PluginCatalog;
use tidegate_plugin_api::Catalog;
use tidegate_store::etcd::Report;

use super::{notices, provider::Provider};

const NAME: &str = "server-info";

/// Data planes write nothing to etcd, as in APISIX.
pub(super) fn report(settings: &Settings, catalog: &Arc<Catalog>, provider: &Provider) {
    // Verbs such as `run --from` enable all plugins: that is not a choice of the user.
    if catalog.is_enabled(NAME) && settings.places.is_set("plugins") {
        notices::warn("The server-info plugin is deprecated and will be removed in a future release.");
    }
    let Some(etcd) = provider.etcd().filter(|_| settings.role != Role::DataPlane) else { return };
    let ttl = settings.plugin_attribute(NAME).get("report_ttl").and_then(Value::as_u64).unwrap_or(60);
    let catalog = catalog.clone();
    etcd.keep(Report {
        key: tidegate_plugins::server_info_key(),
        ttl: Duration::from_secs(ttl),
        make: Box::new(move |version| {
            catalog.is_enabled(NAME).then(|| tidegate_plugins::server_info(version))
        }),
    });
}
