//! Runs an action of OpenWhisk, whose result is the answer.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::BASE64;
use hyper::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::Outgoing;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why,
};
use tidegate_protocol::uri::encoded_component;

use super::remote::Service;
use crate::common::{conf::typed, json, relayed, service::check_url};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "openwhisk",
    version: 0.1,
    priority: -1901,
    answers: true,
    schema: include_str!("openwhisk.json"),
    encrypt_fields: &["service_token"],
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    api_host: String,
    service_token: String,
    namespace: String,
    package: Option<String>,
    action: String,
    result: bool,
    timeout: u64,
}

struct OpenWhisk {
    service: Service,
    authorization: String,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    check_url(conf, "api_host")
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let settings: Conf = typed(conf)?;
    let parts = [Some(&settings.namespace), settings.package.as_ref(), Some(&settings.action)];
    let [namespace, package, action] = parts.map(|part| part.map(|part| encoded_component(part)));
    let package = package.map(|package| package + "/").unwrap_or_default();
    let url = format!(
        "{}/api/v1/namespaces/{}/actions/{package}{}?blocking=true&result={}&timeout={}",
        settings.api_host.trim_end_matches('/'),
        namespace.unwrap_or_default(),
        action.unwrap_or_default(),
        settings.result,
        settings.timeout
    );
    Ok(Arc::new(OpenWhisk {
        service: Service::new(PLUGIN.name, &url, conf)?,
        authorization: format!("Basic {}", BASE64.encode(settings.service_token.as_bytes())),
    }))
}

impl Plugin for OpenWhisk {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.invoke(request))
    }

    fn answers_all_in(&self) -> Option<Phases> {
        Some(Phases::ACCESS)
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::answers_somehow(Why::Calls)
    }
}

impl OpenWhisk {
    async fn invoke(&self, request: &mut Request) -> Verdict {
        let (body, client) = (self.service.body(request, 413).await?, request.remote_addr);
        let outgoing = Outgoing::post(self.service.endpoint.clone(), "application/json", body)
            .header("Authorization", self.authorization.as_str())
            .on_behalf_of(client);
        let answer = self.service.ask(outgoing).await?;
        let result = json::of_service(answer.body.clone(), Some(client)).await;
        match reply(answer.status, &answer.body, result) {
            Ok(reply) => Err(Box::new(reply)),
            Err(reason) => Err(self.service.failed(&reason)),
        }
    }
}

/// What an action returns is the body, or an object that says status, fields and body.
fn reply(status: u16, body: &Bytes, result: Result<Value, String>) -> Result<Reply, String> {
    if body.is_empty() {
        return Ok(Reply::bytes(status, body.clone()));
    }
    let result = result.map_err(|error| format!("the response is not JSON: {error}"))?;
    let field = |name: &str| result.get(name).filter(|value| !value.is_null());
    let status = match field("statusCode") {
        None => status,
        Some(code) => code
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .filter(|code| (200..600).contains(code))
            .ok_or_else(|| format!("statusCode {code} is not the status of an answer"))?,
    };
    let mut reply = match field("body") {
        None => Reply::bytes(status, body.clone()),
        Some(Value::String(text)) => Reply::bytes(status, text.clone()),
        Some(other) => Reply::json(status, other),
    };
    for (name, value) in field("headers").and_then(Value::as_object).into_iter().flatten() {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Null | Value::Array(_) | Value::Object(_) => continue,
                other => other.to_string(),
            };
            let is_valid =
                HeaderName::from_bytes(name.as_bytes()).is_ok() && HeaderValue::from_str(&text).is_ok();
            if !is_valid {
                return Err(format!("{name:?} with its value is not a header field"));
            }
            if relayed::is_for_clients(name) {
                reply = reply.header(name, text);
            }
        }
    }
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use tidegate_plugin_api::reply::ReplyBody;

    use super::*;

    #[test]
    fn results() {
        let cases = [
            ("", Some((200, "", None))),
            (r#"{"hello":"world"}"#, Some((200, r#"{"hello":"world"}"#, None))),
            ("[1]", Some((200, "[1]", None))),
            (r#"{"statusCode":403,"body":"no"}"#, Some((403, "no", None))),
            (
                r#"{"headers":{"X-A":"b","Content-Length":9},"body":{"a":1}}"#,
                Some((200, "{\"a\":1}\n", Some("b"))),
            ),
            (r#"{"statusCode":101}"#, None),
            (r#"{"statusCode":"x"}"#, None),
            (r#"{"headers":{"X-A":"b\r\nX-B: c"}}"#, None),
            ("not json", None),
        ];
        for (text, expected) in cases {
            let body = Bytes::from_static(text.as_bytes());
            let reply = reply(200, &body, json::of_receiver(&body));
            let got = reply.as_ref().ok().map(|reply| {
                let ReplyBody::Bytes(body) = &reply.body else { panic!("{text}: a page") };
                let body = std::str::from_utf8(body).expect("text");
                let field = reply.headers.get("X-A").map(|value| std::str::from_utf8(value).expect("text"));
                assert!(reply.headers.get("Content-Length").is_none());
                (reply.status, body, field)
            });
            assert_eq!(got, expected, "{text}");
        }
    }
}
