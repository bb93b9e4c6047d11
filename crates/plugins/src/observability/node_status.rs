//! `GET /apisix/status`: connections and requests of this node, in the words of nginx's status page.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_plugin_api::{Api, BuildContext, Handler, Plugin, PluginDef, Reply, Request, Step, host};

use crate::common::instance_id;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "node-status",
    version: 0.1,
    priority: 1000,
    on_by_default: false,
    guards: false,
    scope: Some("global"),
    schema: include_str!("node_status.json"),
    build,
    apis: &[Api { methods: &["GET"], uri: "/apisix/status", handler: Handler::Function(handler) }],
    ..PluginDef::DEFAULT
};

struct NodeStatus;

impl Plugin for NodeStatus {}

fn build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(NodeStatus))
}

fn handler(_: &mut Request) -> Step<'_> {
    let counts = host().map(|host| (host.connections)()).unwrap_or_default();
    let status = json!({
        "active": counts.active.to_string(),
        "accepted": counts.accepted.to_string(),
        "handled": counts.handled.to_string(),
        "total": counts.requests.to_string(),
        // Workers read heads as they come: no connection is ever seen at it.
        "reading": "0",
        "writing": counts.active.saturating_sub(counts.idle).to_string(),
        "waiting": counts.idle.to_string(),
    });
    // Without a line break, as in APISIX.
    Step::reply(Reply::bytes(200, json!({ "id": instance_id::get(), "status": status }).to_string()))
}
