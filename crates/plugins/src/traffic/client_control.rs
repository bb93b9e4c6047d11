//! Sets the largest request body for a route, over what the whole gateway allows.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step};
use tidegate_protocol::HeaderId;

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "client-control",
    version: 0.1,
    priority: 22000,
    schema: include_str!("client_control.json"),
    phases: Phases::REWRITE,
    remarks: |conf| match conf.get("max_body_size") {
        None => vec!["it has no effect without max_body_size".to_owned()],
        Some(_) => Vec::new(),
    },
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct ClientControl {
    /// Bytes; 0: no limit.
    max_body_size: Option<u64>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<ClientControl>(conf)?))
}

impl Plugin for ClientControl {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let Some(limit) = self.max_body_size else { return Step::Next };
        let length = request.head.headers.known(HeaderId::ContentLength);
        let length = length.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        if limit > 0 && length.is_some_and(|length| length > limit) {
            return Step::reply(Reply::page(413));
        }
        // A body without a length is counted while it comes.
        request.body_limit = (limit > 0).then_some(limit);
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
