//! Opens a URI that another plugin answers itself (metrics, batch requests) on a route.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    Api, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Why, host,
};

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "public-api",
    version: 0.1,
    priority: 501,
    guards: false,
    answers: true,
    schema: include_str!("public_api.json"),
    phases: Phases::ACCESS,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct PublicApi {
    uri: Option<String>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<PublicApi>(conf)?))
}

impl PublicApi {
    /// The API that answers.
    fn api(&self, request: &Request) -> Option<&'static Api> {
        let host = host()?;
        let uri = match &self.uri {
            Some(uri) => uri,
            None => std::str::from_utf8(&request.path).ok()?,
        };
        host.catalog.api(request.head.method.as_str(), uri)
    }
}

impl Plugin for PublicApi {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.api(request) {
            Some(api) => api.handler.answer(request),
            None => Step::reply(Reply::page(404)),
        }
    }

    fn answers_all_in(&self) -> Option<Phases> {
        Some(Phases::ACCESS)
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.api(request) {
            Some(_) => Foresight::answers_somehow(Why::OwnApi),
            None => Foresight::answers(&Reply::page(404)),
        }
    }
}
