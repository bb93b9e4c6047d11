//! Lets clients through, or keeps them out, by their address.

use std::sync::Arc;

use serde_json::Value;
use tidegate_plugin_api::{BuildContext, PluginDef, Session, SessionVerdict, StreamPlugin};

use crate::security::ip_restriction::{Listed, check};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ip-restriction",
    version: 0.1,
    priority: 3000,
    schema: include_str!("../security/ip_restriction.json"),
    check,
    remarks,
    build_stream: build,
    ..PluginDef::DEFAULT
};

fn remarks(conf: &Value) -> Vec<String> {
    let has_message = conf.get("message").is_some();
    has_message
        .then(|| "message has no effect: sessions are closed without one".to_owned())
        .into_iter()
        .collect()
}

struct IpRestriction {
    listed: Listed,
    status: u16,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn StreamPlugin>, String> {
    let (listed, status) = Listed::of(conf)?;
    Ok(Arc::new(IpRestriction { listed, status }))
}

impl StreamPlugin for IpRestriction {
    fn preread(&self, session: &mut Session, _: &[u8]) -> SessionVerdict {
        match self.listed.may_pass(session.remote_addr) {
            true => SessionVerdict::Next,
            false => SessionVerdict::Close(self.status),
        }
    }
}
