//! Has bodies of requests sent on as they come, from the first byte.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-control",
    version: 0.1,
    priority: 21990,
    guards: false,
    schema: include_str!("proxy_control.json"),
    phases: Phases::REWRITE,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct ProxyControl {
    request_buffering: bool,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<ProxyControl>(conf)?))
}

impl Plugin for ProxyControl {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request.edits.unbuffered_body = !self.request_buffering;
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
