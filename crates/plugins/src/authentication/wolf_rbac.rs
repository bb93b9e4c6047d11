//! Asks a wolf server whether the user of a token may send the request. The consumer that the token names has its address.

mod api;
mod server;
mod token;

use std::sync::Arc;

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Map, Value};
use server::{Answer, Server};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    Api, AuthEntry, BuildContext, Foresight, Handler, Phases, Plugin, PluginDef, Reply, Request, SchemaKind,
    Step, Verdict, Why, definition::ConsumerKey,
};
use tidegate_protocol::uri::encoded_component;
use tidegate_telemetry::error_log::{self, Level};
use token::Token;

use crate::common::{auth::Identified, service::check_url};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "wolf-rbac",
    version: 0.1,
    priority: 2555,
    kind: Some("auth"),
    schema: include_str!("wolf_rbac.json"),
    consumer_schema: Some(include_str!("wolf_rbac.json")),
    phases: Phases::REWRITE,
    apis: &[
        Api {
            methods: &["POST"],
            uri: "/apisix/plugin/wolf-rbac/login",
            handler: Handler::Function(api::login),
        },
        Api {
            methods: &["PUT"],
            uri: "/apisix/plugin/wolf-rbac/change_pwd",
            handler: Handler::Function(api::change_password),
        },
        Api {
            methods: &["GET"],
            uri: "/apisix/plugin/wolf-rbac/user_info",
            handler: Handler::Function(api::user_info),
        },
    ],
    check,
    headers: &[("header_prefix", Text::Name)],
    remarks,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

/// The names of fields about the user, behind `header_prefix`.
const FIELDS: [&str; 3] = ["UserId", "Username", "Nickname"];

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    check_url(conf, "server")?;
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("server").contains(['?', '#']) {
        return Err("property \"server\" has a query or fragment: paths are added to it".to_owned());
    }
    if text("appid").contains('#') {
        return Err("property \"appid\" has a #, which ends it in tokens".to_owned());
    }
    let prefix = conf.get("header_prefix").and_then(Value::as_str).unwrap_or_default();
    match HeaderName::from_bytes(format!("{prefix}UserId").as_bytes()) {
        Ok(_) => Ok(()),
        Err(_) => Err("property \"header_prefix\" is not the start of a header's name".to_owned()),
    }
}

fn remarks(conf: &Value) -> Vec<String> {
    let server = conf.get("server").and_then(Value::as_str).unwrap_or_default();
    let verifies = conf.get("ssl_verify") == Some(&Value::Bool(true));
    let unverified = server.starts_with("https://") && !verifies;
    let remark = "the server's certificate is not checked without ssl_verify";
    unverified.then(|| remark.to_owned()).into_iter().collect()
}

/// All of a configuration that counts is the consumer's.
struct WolfRbac;

fn build(_: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(WolfRbac))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let server = Server::new(conf)?;
    Ok(ConsumerKey { key: server.app_id.clone(), data: Box::new(server) })
}

impl Plugin for WolfRbac {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(authorize(request))
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match application(request) {
            Err(reply) => Foresight::answers(&reply),
            Ok(_) => Foresight::maybe(401, Why::Asks),
        }
    }
}

/// The token, and the consumer that knows its application's server.
fn application(request: &Request) -> Result<(Token, Arc<AuthEntry>), Box<Reply>> {
    let refused = |reason: &str| Box::new(Reply::message(401, reason));
    let token = token::of(request).map_err(refused)?;
    let index = request.snapshot.consumers.index(server::PLUGIN);
    let index = index.ok_or_else(|| refused("Missing related consumer"))?;
    match index.find(&token.app_id).filter(|entry| entry.data::<Server>().is_some()) {
        Some(entry) => Ok((token, entry.clone())),
        None => {
            error_log::log(Level::Error, format_args!("wolf-rbac: consumer [{}] not found", token.app_id));
            Err(refused("Invalid appid in rbac token"))
        }
    }
}

async fn authorize(request: &mut Request) -> Verdict {
    let (token, entry) = application(request)?;
    let server = entry.data::<Server>().ok_or_else(|| Reply::page(500))?;
    let path = String::from_utf8_lossy(&request.unambiguous_path()).into_owned();
    let action = String::from_utf8_lossy(request.head.method.as_bytes()).into_owned();
    let client = request.remote_addr.to_string();
    let Token { app_id, secret } = token;
    let answer = server.check(&app_id, &secret, [&action, &client, &path]).await;
    let Some(user) = user_fields(&answer) else {
        return Err(Box::new(Reply::message(500, "request to wolf-server failed, err:invalid user info")));
    };
    for (name, value) in FIELDS.iter().zip(user) {
        let name = format!("{}{name}", server.header_prefix);
        // What the client says of itself is dropped in each case.
        request.assert_header(&name, value.as_ref());
        if let Some(value) = value {
            request.early_headers.set(&name, value);
        }
    }
    if let Err(reply) = verdict(&answer) {
        error_log::log(
            Level::Error,
            format_args!(
                "wolf-rbac: {app_id} may not {action} {path}: {} {:?}",
                answer.status, answer.reason
            ),
        );
        return Err(reply);
    }
    request.extensions.insert(Identified);
    request.attach(&entry);
    Ok(())
}

/// Id, name and nickname of the user. `None`: they cannot be fields of a head.
fn user_fields(answer: &Answer) -> Option<[Option<String>; 3]> {
    let text = |name: &str| match answer.user.as_ref().and_then(|user| user.get(name)) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let (id, name) = (text("id"), text("username"));
    let nickname = text("nickname").or_else(|| name.clone()).map(|name| encoded_component(&name));
    let fields = [id, name, nickname];
    let is_fine = |text: &String| HeaderValue::from_bytes(text.as_bytes()).is_ok();
    fields.iter().flatten().all(is_fine).then_some(fields)
}

/// Only 200 lets a request through, and no answer in which wolf says otherwise.
fn verdict(answer: &Answer) -> Verdict {
    if answer.status == 200 {
        return Ok(());
    }
    let mut body = Map::new();
    body.extend(answer.reason.clone().map(|reason| ("message".to_owned(), reason)));
    for name in ["username", "nickname"] {
        let value = answer.user.as_ref().and_then(|user| user.get(name)).filter(|value| !value.is_null());
        body.extend(value.cloned().map(|value| (name.to_owned(), value)));
    }
    Err(Box::new(Reply::json(answer.status, &Value::Object(body))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_users() {
        let fields = |user: Value| user_fields(&Answer { status: 200, reason: None, user: Some(user) });
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            fields(json!({"id": 100, "username": "a", "nickname": "ä b"})),
            Some([some("100"), some("a"), some("%C3%A4%20b")])
        );
        assert_eq!(fields(json!({"username": "a"})), Some([None, some("a"), some("a")]));
        assert_eq!(fields(json!({"username": null})), Some([None, None, None]));
        assert_eq!(fields(json!({"username": "a\r\nX: b"})), None);
    }

    #[test]
    fn prefixes() {
        for (prefix, is_fine) in [("X-", true), ("", true), ("X ", false), ("X:\r\n", false)] {
            let conf = json!({"server": "http://a", "header_prefix": prefix});
            assert_eq!(check(&conf, SchemaKind::Consumer).is_ok(), is_fine, "{prefix:?}");
        }
        for (name, value) in [("server", "http://a/?b=c"), ("appid", "a#b")] {
            assert!(check(&json!({ name: value }), SchemaKind::Consumer).is_err(), "{name} {value}");
        }
    }
}
