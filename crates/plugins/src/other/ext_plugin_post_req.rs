//! Runs plugins of a plugin runner after all others, before the request goes upstream.

use std::sync::Arc;

use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, Why};

use crate::ext_plugin::{self, Hook};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ext-plugin-post-req",
    priority: -3000,
    phases: Phases::ACCESS,
    build,
    ..ext_plugin::SHARED
};

struct External(Hook);

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(External(ext_plugin::hook(PLUGIN.name, conf, context)?)))
}

impl Plugin for External {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(ext_plugin::on_request(&self.0, request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }
}
