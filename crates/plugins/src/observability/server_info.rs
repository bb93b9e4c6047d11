//! Who this gateway is: for the Control API, and for a report of itself in etcd, which the binary writes
//! (`boot/server_info.rs`).

use std::{
    sync::{Arc, OnceLock},
    time::UNIX_EPOCH,
};

use serde_json::{Value, json};
use tidegate_plugin_api::{BuildContext, ControlPath, Plugin, PluginDef, host};

use crate::common::instance_id;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "server-info",
    version: 0.1,
    priority: 990,
    on_by_default: false,
    guards: false,
    scope: Some("global"),
    schema: include_str!("server_info.json"),
    control: &[ControlPath { uri: "/v1/server_info", handler }],
    build,
    ..PluginDef::DEFAULT
};

/// The version that etcd said first; it is not asked again.
static ETCD_VERSION: OnceLock<String> = OnceLock::new();

struct ServerInfo;

impl Plugin for ServerInfo {}

fn build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(ServerInfo))
}

fn handler(_: &str) -> Value {
    report(None)
}

/// Where the report is kept, below the prefix.
pub(crate) fn key() -> String {
    format!("data_plane/server_info/{}", instance_id::get())
}

/// `etcd_version`: what etcd says it is, once it has been asked.
pub(crate) fn report(etcd_version: Option<&str>) -> Value {
    let etcd_version = etcd_version.map(|version| ETCD_VERSION.get_or_init(|| version.to_owned()));
    let etcd_version = etcd_version.or_else(|| ETCD_VERSION.get());
    let host = host();
    let started = host.and_then(|host| host.started.duration_since(UNIX_EPOCH).ok());
    json!({
        "id": instance_id::get(),
        "hostname": host.map_or("", |host| host.hostname.as_str()),
        "version": COMPATIBLE_WITH,
        "boot_time": started.unwrap_or_default().as_secs(),
        "etcd_version": etcd_version.map_or("unknown", String::as_str),
    })
}

/// The version of APISIX whose configuration is understood, as in the field `Server`.
const COMPATIBLE_WITH: &str = "3.18.0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_etcd_is_remembered() {
        assert_eq!(handler("")["etcd_version"], "unknown");
        assert_eq!(report(Some("3.5.16"))["etcd_version"], "3.5.16");
        assert_eq!(handler("")["etcd_version"], "3.5.16");
        assert_eq!(handler("")["version"], "3.18.0");
    }
}
