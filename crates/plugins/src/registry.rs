//! The tables that `build.rs` makes out of the list of plugins in lib.rs.

use std::cmp::Reverse;

use tidegate_plugin_api::{PluginDef, messages::OpenMessages, protocol::ProtocolDef};

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The plugins of stream routes.
pub static STREAM_PLUGINS: &[&PluginDef] = &[
    &crate::stream::ip_restriction::PLUGIN,
    &crate::stream::limit_conn::PLUGIN,
    &crate::stream::mqtt_proxy::PLUGIN,
    &crate::stream::prometheus::PLUGIN,
    &crate::stream::syslog::PLUGIN,
    &crate::stream::traffic_split::PLUGIN,
];

/// The protocols on top of TCP that stream routes may name.
pub static PROTOCOLS: &[&ProtocolDef] =
    &[&crate::stream::xrpc::redis::PROTOCOL, &crate::stream::xrpc::dubbo::PROTOCOL];

/// What serves upstreams with scheme `kafka`.
pub static OPEN_MESSAGES: OpenMessages = crate::other::kafka_proxy::open;

/// Names of the plugins that are on when config.yaml has no list. What runs first comes first.
pub fn on_by_default() -> Vec<&'static str> {
    let mut on: Vec<&PluginDef> = PLUGINS.iter().copied().filter(|def| def.on_by_default).collect();
    on.sort_by_key(|def| Reverse(def.priority));
    on.into_iter().map(|def| def.name).collect()
}
