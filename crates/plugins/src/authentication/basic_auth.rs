//! Authenticates consumers by user name and password in `Authorization: Basic`.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    AuthEntry, BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, definition::ConsumerKey,
};
use tidegate_protocol::HeaderId;

use crate::common::{auth, basic_credentials, conf::typed};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "basic-auth",
    version: 0.1,
    priority: 2520,
    kind: Some("auth"),
    schema: include_str!("basic_auth.json"),
    consumer_schema: Some(include_str!("basic_auth.consumer.json")),
    encrypt_fields: &["password"],
    phases: Phases::REWRITE,
    headers: &[("realm", Text::Value)],
    remarks,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

/// RFC 7617 section 2: the first colon ends the name. Blanks go as in APISIX.
fn remarks(conf: &Value) -> Vec<String> {
    let name = conf.get("username").and_then(Value::as_str).filter(|name| !is_secret_reference(name));
    let why = |name: &str| match name {
        name if name.contains(':') => Some("it cannot contain a colon"),
        name if name.contains(|sign: char| sign.is_ascii_whitespace()) => {
            Some("whitespace is removed from it")
        }
        _ => None,
    };
    name.and_then(|name| Some(format!("no client can send the username {name:?}: {}", why(name)?)))
        .into_iter()
        .collect()
}

#[derive(Deserialize)]
struct BasicAuth {
    hide_credentials: bool,
    realm: String,
    anonymous_consumer: Option<String>,
}

struct Password(String);

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<BasicAuth>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let text = |name: &str| {
        let value = conf.get(name).and_then(Value::as_str);
        value.map(str::to_owned).ok_or_else(|| format!("property \"{name}\" is required"))
    };
    Ok(ConsumerKey { key: text("username")?, data: Box::new(Password(text("password")?)) })
}

impl Plugin for BasicAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match find(request) {
            Ok(entry) => {
                self.hide(request);
                request.attach(&entry);
                Step::Next
            }
            Err(reason) => match &self.anonymous_consumer {
                None => auth::unauthorized("Basic", &self.realm, &reason),
                Some(consumer) => {
                    self.hide(request);
                    auth::as_anonymous(request, "basic-auth", consumer, "Basic", &self.realm)
                }
            },
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl BasicAuth {
    fn hide(&self, request: &mut Request) {
        if self.hide_credentials {
            request.head.headers.remove_known(HeaderId::Authorization);
        }
    }
}

fn find(request: &Request) -> Result<Arc<AuthEntry>, String> {
    let header = auth::credentials(request, "Authorization")?.ok_or("Missing authorization in request")?;
    let sent = basic_credentials::extract(header)
        .map_err(|reason| auth::reason(request, reason, "Invalid authorization in request"))?;
    let entry = request.snapshot.consumers.find("basic-auth", &sent.username).ok_or_else(|| {
        let reason = "failed to find user: invalid user".to_owned();
        auth::reason(request, reason, "Invalid user authorization")
    })?;
    let right = entry.data::<Password>().is_some_and(|Password(right)| {
        let equal = |sent: &str| verify_slices_are_equal(sent.as_bytes(), right.as_bytes()).is_ok();
        equal(&sent.password) || equal(&sent.password_without_space())
    });
    if right { Ok(entry.clone()) } else { Err("Invalid user authorization".to_owned()) }
}
