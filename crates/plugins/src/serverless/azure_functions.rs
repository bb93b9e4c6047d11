//! Hands requests to an Azure function, which answers them.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef};

use super::remote::{self, Authorize, Call};
use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "azure-functions",
    version: 0.1,
    priority: -1900,
    answers: true,
    schema: include_str!("azure_functions.json"),
    metadata_schema: Some(include_str!("azure_functions.metadata.json")),
    encrypt_fields: &["authorization.apikey", "master_apikey"],
    headers: &[("authorization.apikey", Text::Value), ("authorization.clientid", Text::Value)],
    metadata_headers: &[("master_apikey", Text::Value), ("master_clientid", Text::Value)],
    phases: Phases::ACCESS,
    check: remote::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Default, Deserialize)]
struct Keys {
    #[serde(alias = "master_apikey")]
    apikey: Option<String>,
    #[serde(alias = "master_clientid")]
    clientid: Option<String>,
}

/// Those of the configuration; those of the metadata where it has none.
fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let keys = conf.get("authorization").or(context.metadata).map(typed::<Keys>).transpose()?;
    remote::build(PLUGIN.name, conf, keys.unwrap_or_default())
}

impl Authorize for Keys {
    /// A client that has keys of its own is asked with these.
    fn authorize(&self, call: &mut Call) {
        let fields = [("x-functions-key", &self.apikey), ("x-functions-clientid", &self.clientid)];
        if fields.iter().any(|(name, _)| call.has(name)) {
            return;
        }
        for (name, value) in fields {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                call.set(name, value.as_str());
            }
        }
    }
}
