//! Sends an event per request to Lago, for billing by use.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, Template};
use tidegate_telemetry::clock;

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{LogEntry, Made},
    receivers::{Addresses, Receivers},
    variable_text::VariableTexts,
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
    #[serde(flatten)]
    addresses: Addresses,
    token: String,
    event_transaction_id: String,
    event_subscription_id: String,
    event_code: String,
    #[serde(default)]
    event_properties: Map<String, Value>,
}

/// What an event is made of.
struct Form {
    transaction: Template,
    subscription: Template,
    code: String,
    properties: VariableTexts,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let form = Form {
        transaction: Template::compile(&typed.event_transaction_id),
        subscription: Template::compile(&typed.event_subscription_id),
        code: typed.event_code,
        properties: VariableTexts::new(&typed.event_properties),
    };
    let headers = vec![("Authorization".to_owned(), format!("Bearer {}", typed.token))];
    let receivers = Arc::new(Receivers::new("lago api", &typed.addresses, headers)?);
    let make = move |_: &LogEntry, request: &mut Request| Made::Now(form.event(request));
    BatchLogger::build(PLUGIN.name, conf, context, make, move |events| {
        let receivers = receivers.clone();
        Box::pin(async move {
            let events: &[Value] = &events;
            receivers.send(&json!({ "events": events })).await
        })
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
            let properties = self.properties.render(request).map(|(name, text)| (name, text.into()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn events_of_requests() {
        let properties = json!({"method": "$request_method", "absent": "${http_absent}"});
        let properties = properties.as_object().cloned().unwrap_or_default();
        let form = Form {
            transaction: Template::compile("req_${arg_id}"),
            subscription: Template::compile("$host"),
            code: "calls".to_owned(),
            properties: VariableTexts::new(&properties),
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
