//! Sends an event per request to Lago, for billing by use.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_model::header_text::Text;
use tidegate_model::random::random_below;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, Template};
use tidegate_telemetry::clock;

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{LogEntry, Made},
    variable_text::VariableText,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "lago",
    version: 0.1,
    priority: 415,
    guards: false,
    schema: include_str!("lago.json"),
    metadata_schema: Some(include_str!("lago.metadata.json")),
    encrypt_fields: &["token"],
    phases: Phases::LOG,
    headers: &[("token", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint_addrs: Vec<String>,
    endpoint_uri: String,
    token: String,
    event_transaction_id: String,
    event_subscription_id: String,
    event_code: String,
    event_properties: Option<Map<String, Value>>,
    ssl_verify: bool,
    /// Milliseconds.
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
}

/// What an event is made of.
struct Form {
    transaction: Template,
    subscription: Template,
    code: String,
    properties: Vec<(String, VariableText)>,
}

struct Receiver {
    endpoints: Vec<Endpoint>,
    authorization: String,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let properties = typed.event_properties.into_iter().flatten().filter_map(|(name, value)| {
        let text = VariableText::new(value.as_str()?);
        Some((name, text))
    });
    let form = Form {
        transaction: Template::compile(&typed.event_transaction_id),
        subscription: Template::compile(&typed.event_subscription_id),
        code: typed.event_code,
        properties: properties.collect(),
    };
    let endpoints = typed
        .endpoint_addrs
        .iter()
        .map(|address| Endpoint::parse(&format!("{address}{}", typed.endpoint_uri)));
    let receiver = Arc::new(Receiver {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        authorization: format!("Bearer {}", typed.token),
        options: ClientOptions {
            repeats: true,
            timeout: Duration::from_millis(typed.timeout),
            tls: TlsWanted { verify: typed.ssl_verify, client: None },
            keepalive: typed.keepalive,
            keepalive_timeout: Duration::from_millis(typed.keepalive_timeout),
            keepalive_pool: typed.keepalive_pool,
            body: Body::SAID,
        },
    });
    let make = move |_: &LogEntry, request: &mut Request| Made::Now(form.event(request));
    BatchLogger::build(PLUGIN.name, conf, context, make, move |events| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.send(&events).await })
    })
}

impl Form {
    fn event(&self, request: &Request) -> Value {
        let mut event = json!({
            "transaction_id": rendered(&self.transaction, request),
            "external_subscription_id": rendered(&self.subscription, request),
            "code": self.code,
            "timestamp": started(request),
        });
        if !self.properties.is_empty() {
            let properties =
                self.properties.iter().map(|(name, text)| (name.clone(), text.render(request).into()));
            event["properties"] = Value::Object(properties.collect());
        }
        event
    }
}

fn rendered(template: &Template, request: &Request) -> String {
    let mut text = Vec::new();
    template.render_into(request, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Seconds since 1970, with milliseconds, of when the request came in.
fn started(request: &Request) -> f64 {
    let ago = i64::try_from(request.started.elapsed().as_millis()).unwrap_or_default();
    (clock::unix_ms() - ago) as f64 / 1000.0
}

impl Receiver {
    async fn send(&self, events: &[Value]) -> Result<(), String> {
        let at = random_below(self.endpoints.len());
        let endpoint = self.endpoints.get(at).ok_or("no endpoint is configured")?;
        let body = json!({ "events": events }).to_string();
        let outgoing = Outgoing::post(endpoint.clone(), "application/json", body)
            .header("Authorization", self.authorization.as_bytes());
        let answer = http::send(outgoing, &self.options).await?;
        if answer.status < 300 {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("lago api returned status: {}, body: {body}", answer.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn events_of_requests() {
        let form = Form {
            transaction: Template::compile("req_${arg_id}"),
            subscription: Template::compile("$host"),
            code: "calls".to_owned(),
            properties: vec![
                ("method".to_owned(), VariableText::new("$request_method")),
                ("absent".to_owned(), VariableText::new("${http_absent}")),
            ],
        };
        let request = test_request::request("GET /x?id=7 HTTP/1.1\r\nHost: h\r\n\r\n");
        let mut event = form.event(&request);
        let time = event["timestamp"].take();
        assert!(time.as_f64().is_some_and(|time| time > 1e9), "{time}");
        let expected = json!({
            "transaction_id": "req_7", "external_subscription_id": "h", "code": "calls", "timestamp": null,
            "properties": {"method": "GET", "absent": "${http_absent}"},
        });
        assert_eq!(event, expected);
    }
}
