//! Hands requests to a function of OpenFunction, which answers them.

use std::sync::Arc;

use data_encoding::BASE64;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, SchemaKind};

use super::remote::{self, Authorize, Call};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "openfunction",
    version: 0.1,
    priority: -1902,
    answers: true,
    schema: include_str!("openfunction.json"),
    encrypt_fields: &["authorization.service_token"],
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

/// `user:password`.
struct Token(Option<String>);

/// APISIX's schema says nothing about the token.
fn token(conf: &Value) -> Result<Token, String> {
    match conf.get("authorization") {
        None => Ok(Token(None)),
        Some(Value::Object(fields)) => match fields.get("service_token") {
            None => Ok(Token(None)),
            Some(Value::String(token)) => Ok(Token(Some(token.clone()))),
            Some(_) => Err("property \"authorization.service_token\" must be a string".to_owned()),
        },
        Some(_) => Err("property \"authorization\" must be an object".to_owned()),
    }
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    remote::check(conf, kind)?;
    token(conf).map(|_| ())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    remote::build(PLUGIN.name, conf, token(conf)?)
}

impl Authorize for Token {
    fn authorize(&self, call: &mut Call) {
        if let Token(Some(token)) = self {
            call.set("Authorization", format!("Basic {}", BASE64.encode(token.as_bytes())));
        }
    }
}
