//! Asks an Open Policy Agent for a decision about each request.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::http::{self, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why,
};
use tidegate_telemetry::error_log;

use crate::common::{auth::Identified, conf::typed, json, number};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "opa",
    version: 0.1,
    priority: 2001,
    schema: include_str!("opa.json"),
    phases: Phases::ACCESS,
    check,
    headers: &[("send_headers_upstream", Text::Name)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    host: String,
    ssl_verify: bool,
    policy: String,
    timeout: u64,
    keepalive: bool,
    send_headers_upstream: Option<Vec<String>>,
    keepalive_timeout: u64,
    keepalive_pool: usize,
    with_route: bool,
    with_service: bool,
    with_consumer: bool,
}

struct Opa {
    endpoint: Result<Endpoint, String>,
    options: ClientOptions,
    send_headers_upstream: Vec<String>,
    with_route: bool,
    with_service: bool,
    with_consumer: bool,
}

/// A bad address would refuse every request.
fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    match conf.get("host").and_then(Value::as_str) {
        Some(host) if !is_secret_reference(host) => {
            Endpoint::parse(host).map(|_| ()).map_err(|reason| format!("host: {reason}"))
        }
        _ => Ok(()),
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(Opa {
        // A resolved reference may still be invalid: then requests are refused.
        endpoint: Endpoint::parse(&format!("{}/v1/data/{}", conf.host, conf.policy)),
        options: ClientOptions {
            timeout: Duration::from_millis(conf.timeout),
            tls: TlsWanted { verify: conf.ssl_verify, client: None },
            keepalive: conf.keepalive,
            keepalive_timeout: Duration::from_millis(conf.keepalive_timeout),
            keepalive_pool: conf.keepalive_pool,
            ..ClientOptions::default()
        },
        send_headers_upstream: conf.send_headers_upstream.unwrap_or_default(),
        with_route: conf.with_route,
        with_service: conf.with_service,
        with_consumer: conf.with_consumer,
    }))
}

impl Plugin for Opa {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.ask(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Asks)
    }
}

fn refused(status: u16, reason: std::fmt::Arguments) -> Verdict {
    error_log::log(error_log::Level::Error, reason);
    Err(Box::new(Reply::page(status)))
}

/// Of an answer in the log.
const MAX_SHOWN_BYTES: usize = 4 << 10;

impl Opa {
    async fn ask(&self, request: &mut Request) -> Verdict {
        let answer = match &self.endpoint {
            Ok(endpoint) => {
                let input = self.input(request).to_string();
                let outgoing = Outgoing::post(endpoint.clone(), "application/json", input)
                    .on_behalf_of(request.remote_addr);
                http::send(outgoing, &self.options).await.map_err(String::from)
            }
            Err(reason) => Err(reason.clone()),
        };
        let body = match answer {
            Ok(answer) if answer.status == 200 => answer.body,
            Ok(answer) => {
                return refused(
                    403,
                    format_args!("failed to process OPA decision, err: status {}", answer.status),
                );
            }
            Err(reason) => {
                return refused(403, format_args!("failed to process OPA decision, err: {reason}"));
            }
        };
        let text = String::from_utf8_lossy(body.get(..MAX_SHOWN_BYTES).unwrap_or(&body));
        // If a decision is given twice, it is ambiguous which one is meant.
        let answer = match json::of_service(body.clone(), Some(request.remote_addr)).await {
            Ok(answer) => answer,
            Err(error) => return refused(503, format_args!("invalid response body: {text} err: {error}")),
        };
        let Some(decision) = answer.get("result").and_then(Value::as_object) else {
            return refused(
                503,
                format_args!(
                    "invalid OPA decision format: {text} err: `result` field does not exist or is not an object"
                ),
            );
        };
        // Nothing but `true`: a policy that answers with a text or a set has not said yes.
        if decision.get("allow") != Some(&Value::Bool(true)) {
            return Err(Box::new(refusal(decision)));
        }
        for name in &self.send_headers_upstream {
            let value = decision.get("headers").and_then(|headers| headers.get(name));
            let values = value.map(texts).unwrap_or_default();
            if !values.is_empty() {
                request.extensions.insert(Identified);
            }
            request.assert_header(name, values);
        }
        Ok(())
    }

    fn input(&self, request: &Request) -> Value {
        let mut input = Map::new();
        input.insert("type".to_owned(), "http".into());
        input.insert("request".to_owned(), describe(request));
        let local = request.connection.local;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let variables = json!({
            "server_addr": local.ip().to_canonical().to_string(),
            "server_port": local.port().to_string(),
            "remote_addr": request.remote_addr.to_string(),
            "remote_port": request.remote_port.to_string(),
            "timestamp": now,
        });
        input.insert("var".to_owned(), variables);
        let route = request.route.as_ref();
        if let Some(route) = route.filter(|_| self.with_route) {
            input.insert("route".to_owned(), without_upstream(&route.document.value()));
        }
        if let Some(consumer) = request.consumer.as_ref().filter(|_| self.with_consumer) {
            input.insert("consumer".to_owned(), (*consumer.document.value()).clone());
        }
        let service = route.and_then(|route| route.service.as_ref()?.document.as_ref());
        if let Some(service) = service.filter(|_| self.with_service) {
            input.insert("service".to_owned(), without_upstream(&service.value()));
        }
        json!({ "input": input })
    }
}

fn without_upstream(resource: &Value) -> Value {
    let mut resource = resource.clone();
    if let Some(members) = resource.as_object_mut() {
        members.remove("upstream");
    }
    resource
}

fn describe(request: &Request) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut headers = Map::new();
    for (name, value) in request.head.headers.iter() {
        add(&mut headers, text(name).to_ascii_lowercase(), text(value).into());
    }
    let mut query = Map::new();
    for (name, value) in tidegate_protocol::uri::query_pairs(request.head.query().unwrap_or_default()) {
        if name.is_empty() {
            continue;
        }
        let decoded = |bytes: &[u8]| text(&tidegate_protocol::uri::percent_decode(bytes, true));
        add(&mut query, decoded(name), value.map_or(Value::Bool(true), |value| decoded(value).into()));
    }
    json!({
        "scheme": if request.https { "https" } else { "http" },
        "method": request.head.method.as_str(),
        "host": text(&request.host),
        "port": request.connection.local.port(),
        "path": text(&request.unambiguous_path()),
        "headers": headers,
        "query": query,
    })
}

/// A name that comes twice has a list of values.
fn add(members: &mut Map<String, Value>, name: String, value: Value) {
    match members.get_mut(&name) {
        None => _ = members.insert(name, value),
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

fn refusal(decision: &Map<String, Value>) -> Reply {
    let status =
        decision.get("status_code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = status.filter(|code| (200..=599).contains(code)).unwrap_or(403);
    let mut reply = match decision.get("reason") {
        None | Some(Value::Null | Value::Bool(false)) => Reply::page(status),
        Some(Value::String(reason)) => Reply::bytes(status, reason.clone()),
        Some(other) => Reply::bytes(status, other.to_string()),
    };
    for (name, value) in decision.get("headers").and_then(Value::as_object).into_iter().flatten() {
        for value in texts(value) {
            reply = reply.header(name.clone(), value);
        }
    }
    reply
}

/// The values of a header: one, or a list.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Null | Value::Object(_) => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Number(value) => vec![value.as_f64().map_or_else(|| value.to_string(), number::lua)],
        Value::Bool(value) => vec![value.to_string()],
        Value::Array(values) => values.iter().flat_map(texts).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_plugin_api::reply::ReplyBody;

    #[test]
    fn refusals() {
        let cases = [
            (json!({}), 403, None, 0),
            (json!({"reason": "no", "status_code": 302, "headers": {"Location": "/x"}}), 302, Some("no"), 1),
            (json!({"reason": {"a": 1}, "status_code": 99}), 403, Some(r#"{"a":1}"#), 0),
            (json!({"headers": {"A": ["1", 2], "B": null}}), 403, None, 2),
        ];
        for (decision, status, body, headers) in cases {
            let reply = refusal(decision.as_object().expect("object"));
            let got = match &reply.body {
                ReplyBody::Page | ReplyBody::OfHead => None,
                ReplyBody::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                ReplyBody::File(_) => Some("a file".to_owned()),
            };
            assert_eq!(
                (reply.status, got.as_deref(), reply.headers.len()),
                (status, body, headers),
                "{decision}"
            );
        }
    }

    #[test]
    fn repeated_names_become_lists() {
        let mut members = Map::new();
        for value in ["1", "2", "3"] {
            add(&mut members, "a".to_owned(), value.into());
        }
        assert_eq!(Value::Object(members), json!({"a": ["1", "2", "3"]}));
    }
}
