//! Sends log entries to the HTTP Event Collector of Splunk.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, host};
use tidegate_telemetry::clock;

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    json::of_receiver,
    log_entry::{LogEntry, Made},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "splunk-hec-logging",
    version: 0.1,
    priority: 409,
    guards: false,
    schema: include_str!("splunk_hec_logging.json"),
    metadata_schema: Some(include_str!("splunk_hec_logging.metadata.json")),
    encrypt_fields: &["endpoint.token"],
    phases: Phases::LOG,
    headers: &[("endpoint.token", Text::Value), ("endpoint.channel", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

const SOURCE: &str = "apache-apisix-splunk-hec-logging";

#[derive(Deserialize)]
struct Conf {
    endpoint: EndpointConf,
    ssl_verify: bool,
}

#[derive(Deserialize)]
struct EndpointConf {
    uri: String,
    token: String,
    channel: Option<String>,
    /// Seconds.
    timeout: u64,
    /// Milliseconds.
    keepalive_timeout: u64,
}

struct Collector {
    endpoint: Endpoint,
    authorization: String,
    channel: Option<String>,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let Conf { endpoint, ssl_verify } = typed(conf)?;
    let collector = Arc::new(Collector {
        authorization: format!("Splunk {}", endpoint.token),
        channel: endpoint.channel,
        options: ClientOptions {
            timeout: Duration::from_secs(endpoint.timeout),
            tls: TlsWanted { verify: ssl_verify, client: None },
            keepalive_timeout: Duration::from_millis(endpoint.keepalive_timeout),
            body: Body::SAID,
            ..ClientOptions::default()
        },
        endpoint: Endpoint::parse(&endpoint.uri)?,
    });
    BatchLogger::build(PLUGIN.name, conf, context, event, move |events| {
        let collector = collector.clone();
        Box::pin(async move { collector.send(&events).await })
    })
}

fn event(entry: &LogEntry, request: &mut Request) -> Made<Value> {
    let time = clock::unix_ms() as f64 / 1000.0;
    entry.entry_as(request, default_event).then(move |event| {
        let host = host().map_or("localhost", |host| &host.hostname);
        json!({ "time": time, "host": host, "source": SOURCE, "sourcetype": "_json", "event": event })
    })
}

/// What Splunk gets of the common entry, under names of its own.
fn default_event(mut entry: Map<String, Value>) -> Map<String, Value> {
    const FIELDS: [(&str, &str); 10] = [
        ("request_url", "/request/url"),
        ("request_method", "/request/method"),
        ("request_headers", "/request/headers"),
        ("request_query", "/request/querystring"),
        ("request_size", "/request/size"),
        ("response_headers", "/response/headers"),
        ("response_status", "/response/status"),
        ("response_size", "/response/size"),
        ("latency", "/latency"),
        ("upstream", "/upstream"),
    ];
    let mut whole = Value::Object(std::mem::take(&mut entry));
    for (name, place) in FIELDS {
        if let Some(value) = whole.pointer_mut(place) {
            entry.insert(name.to_owned(), value.take());
        }
    }
    entry
}

impl Collector {
    async fn send(&self, events: &[Value]) -> Result<(), String> {
        let body: String = events.iter().map(Value::to_string).collect();
        let mut outgoing = Outgoing::post(self.endpoint.clone(), "application/json", body)
            .header("Authorization", self.authorization.as_bytes());
        if let Some(channel) = &self.channel {
            outgoing = outgoing.header("X-Splunk-Request-Channel", channel.as_bytes());
        }
        let answer = http::send(outgoing, &self.options)
            .await
            .map_err(|reason| format!("failed to write log to splunk, {reason}"))?;
        if answer.status == 200 {
            return Ok(());
        }
        let said = of_receiver(&answer.body).unwrap_or_default();
        match said.get("text").and_then(Value::as_str) {
            Some(text) => Err(format!("failed to send splunk, {text}")),
            None => Err(format!("failed to send splunk, http status code: {}", answer.status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_what_the_entry_has() {
        let Value::Object(entry) = json!({
            "request": {"url": "u", "headers": {"a": "b"}, "body": "secret"},
            "response": {"status": 200}, "latency": 1.5, "client_ip": "c",
        }) else {
            panic!("an object")
        };
        let expected = json!({
            "request_url": "u", "request_headers": {"a": "b"}, "response_status": 200, "latency": 1.5,
        });
        assert_eq!(Value::Object(default_event(entry)), expected);
    }
}
