//! The plugins of this program, for routes and for stream routes.

use std::sync::{Arc, LazyLock};

use tidegate_config::Settings;
use tidegate_plugin_api::{Catalog, protocol::ProtocolDef};

/// The plugins of stream routes; `None` where `apisix.proxy_mode` has no stream.
pub(crate) fn stream_catalog(settings: &Settings) -> anyhow::Result<Option<Arc<Catalog>>> {
    if !settings.stream.enable {
        return Ok(None);
    }
    let catalog = Catalog::new(tidegate_plugins::registry::STREAM_PLUGINS, Some(&settings.stream.plugins));
    catalog.map(Arc::new).map(Some).map_err(anyhow::Error::msg)
}

/// The protocols on top of TCP that `xrpc.protocols` names.
pub(super) fn protocols(settings: &Settings) -> Vec<&'static ProtocolDef> {
    let named = |def: &&&ProtocolDef| settings.stream.protocols.iter().any(|name| *name == def.name);
    tidegate_plugins::registry::PROTOCOLS.iter().filter(named).copied().collect()
}

/// Those of this program, whether they are on or not.
pub(super) fn all_stream_plugins() -> Option<&'static Catalog> {
    static ALL: LazyLock<Option<Catalog>> =
        LazyLock::new(|| Catalog::new(tidegate_plugins::registry::STREAM_PLUGINS, None).ok());
    ALL.as_ref()
}

/// The plugins of this program. `enabled`: all of them, or those of these names.
pub(crate) fn catalog(enabled: Option<&[String]>) -> anyhow::Result<Catalog> {
    let catalog = Catalog::new(tidegate_plugins::registry::PLUGINS, enabled).map_err(anyhow::Error::msg)?;
    Ok(catalog.with_lua(tidegate_plugins::lua_compiler()).without(tidegate_plugins::registry::MISSING))
}
