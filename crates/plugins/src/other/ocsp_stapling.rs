//! Lets `ssl` resources ask for OCSP stapling: while this is on they may have the field `ocsp_stapling`.
//!
//! It does nothing in a request. The process queries the authorities and hands out their answers
//! (`tidegate/src/boot/ocsp.rs`).

use std::sync::Arc;

use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ocsp-stapling",
    version: 0.1,
    priority: -44,
    on_by_default: false,
    guards: false,
    schema: include_str!("ocsp_stapling.json"),
    build,
    ..PluginDef::DEFAULT
};

struct OcspStapling;

impl Plugin for OcspStapling {}

fn build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(OcspStapling))
}
