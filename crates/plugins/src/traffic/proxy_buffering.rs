//! Has each piece of an answer passed on at once, also by gzip.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-buffering",
    version: 0.1,
    priority: 21991,
    guards: false,
    schema: include_str!("proxy_buffering.json"),
    phases: Phases::REWRITE,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct ProxyBuffering {
    disable_proxy_buffering: bool,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<ProxyBuffering>(conf)?))
}

impl Plugin for ProxyBuffering {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request.edits.unbuffered_answer = self.disable_proxy_buffering;
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn the_request_says_it() {
        let mut request = test_request::request("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        for disable_proxy_buffering in [true, false] {
            let plugin = ProxyBuffering { disable_proxy_buffering };
            assert!(matches!(plugin.rewrite(&mut request), Step::Next));
            assert_eq!(request.edits.unbuffered_answer, disable_proxy_buffering);
        }
    }
}
