//! Authenticates consumers by a key in a header or query argument.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, definition::ConsumerKey,
};
use tidegate_protocol::FieldName;

use crate::common::{
    auth,
    conf::{self, typed},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "key-auth",
    version: 0.1,
    priority: 2500,
    kind: Some("auth"),
    schema: include_str!("key_auth.json"),
    consumer_schema: Some(include_str!("key_auth.consumer.json")),
    encrypt_fields: &["key"],
    phases: Phases::REWRITE,
    headers: &[("header", Text::Value), ("realm", Text::Value)],
    remarks: auth::remarks_of_key,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct KeyAuth {
    #[serde(deserialize_with = "conf::field_name")]
    header: FieldName,
    query: String,
    hide_credentials: bool,
    realm: String,
    anonymous_consumer: Option<String>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<KeyAuth>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let key = conf.get("key").and_then(Value::as_str).ok_or("property \"key\" is required")?;
    Ok(ConsumerKey { key: key.to_owned(), data: Box::new(()) })
}

impl Plugin for KeyAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.find(request) {
            Ok(()) => Step::Next,
            Err(reason) => match &self.anonymous_consumer {
                None => auth::unauthorized("apikey", &self.realm, reason),
                Some(consumer) => {
                    self.hide(request);
                    auth::as_anonymous(request, "key-auth", consumer, "apikey", &self.realm)
                }
            },
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl KeyAuth {
    fn find(&self, request: &mut Request) -> Result<(), &'static str> {
        let snapshot = request.snapshot.clone();
        let find = |key: &[u8]| {
            std::str::from_utf8(key).ok().and_then(|key| snapshot.consumers.find("key-auth", key))
        };
        let entry = match request.head.headers.get_named(&self.header) {
            Some(key) => find(key),
            None => match request.arg(&self.query) {
                Some(key) => find(&key),
                None => return Err("Missing API key in request"),
            },
        };
        let Some(entry) = entry else {
            return Err(if auth::under_multi_auth(request) {
                "failed to find consumer: invalid api key"
            } else {
                "Invalid API key in request"
            });
        };
        self.hide(request);
        request.attach(entry);
        Ok(())
    }

    /// Wherever a key may be: one that was not looked at may be good, too.
    fn hide(&self, request: &mut Request) {
        if self.hide_credentials {
            request.hide_header(self.header.text());
            request.remove_arg(&self.query);
        }
    }
}
