//! Runs plugins of a plugin runner on the upstream's response.

use std::sync::Arc;

use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, Why};

use crate::ext_plugin::{self, Response};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ext-plugin-post-resp",
    priority: -4000,
    // The runner may remove what is not for the client.
    answers: true,
    phases: Phases::BEFORE_PROXY,
    build,
    ..ext_plugin::SHARED
};

struct External(Response);

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(External(Response(ext_plugin::hook(PLUGIN.name, conf, context)?))))
}

impl Plugin for External {
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.0.run(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }
}
