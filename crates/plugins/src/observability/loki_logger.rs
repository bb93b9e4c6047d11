//! Pushes log entries to Grafana Loki; entries with the same labels share a stream.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::{
    batch::Weigh,
    http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted},
};
use tidegate_model::header_text::Text;
use tidegate_model::random::random_below;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request};

use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    log_entry::{self, LogEntry},
    variable_text::VariableText,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "loki-logger",
    version: 0.1,
    priority: 414,
    guards: false,
    schema: include_str!("loki_logger.json"),
    metadata_schema: Some(include_str!("loki_logger.metadata.json")),
    encrypt_fields: &["headers"],
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    headers: &[("headers", Text::Fields), ("tenant_id", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint_addrs: Vec<String>,
    endpoint_uri: String,
    tenant_id: String,
    headers: Option<Map<String, Value>>,
    log_labels: Map<String, Value>,
    ssl_verify: bool,
    /// Milliseconds.
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
}

/// One line for Loki.
struct Line {
    labels: Vec<(String, String)>,
    /// Nanoseconds since 1970.
    time: String,
    entry: Map<String, Value>,
}

impl Weigh for Line {
    fn held(&self) -> usize {
        self.labels.held() + self.time.held() + self.entry.held()
    }

    /// The entry is sent as a text of JSON within JSON, with the quotes and backslashes of both.
    fn encoded(&self) -> usize {
        self.labels.encoded() + self.time.encoded() + 2 * self.entry.encoded()
    }
}

struct Receiver {
    endpoints: Vec<Endpoint>,
    headers: Vec<(String, String)>,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let endpoints = typed
        .endpoint_addrs
        .iter()
        .map(|address| Endpoint::parse(&format!("{address}{}", typed.endpoint_uri)));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut headers: Vec<(String, String)> =
        typed.headers.iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect();
    headers.retain(|(name, _)| {
        !name.eq_ignore_ascii_case("X-Scope-OrgID") && !name.eq_ignore_ascii_case("Content-Type")
    });
    headers.push(("X-Scope-OrgID".to_owned(), typed.tenant_id));
    let receiver = Arc::new(Receiver {
        endpoints: endpoints.collect::<Result<_, _>>()?,
        headers,
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
    let labels: Vec<(String, VariableText)> = typed
        .log_labels
        .iter()
        .map(|(name, value)| (name.clone(), VariableText::new(value.as_str().unwrap_or_default())))
        .collect();
    let make = move |entry: &LogEntry, request: &mut Request| {
        let labels = labels.iter().map(|(name, text)| (name.clone(), text.render(request))).collect();
        let time = nanoseconds(request);
        batch_logger::with_route(entry, request).map(move |entry| Line { labels, time, entry })
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |lines| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.send(&lines).await })
    })
}

/// When the request came in.
fn nanoseconds(request: &Request) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{}000000", now.saturating_sub(request.started.elapsed()).as_millis())
}

/// `{"streams": [{"stream": labels, "values": [[time, line]]}]}`
fn streams(lines: &[Line]) -> Value {
    type Labels = [(String, String)];
    let mut streams: Vec<(&Labels, Vec<Value>)> = Vec::new();
    for line in lines {
        let value = json!([line.time, Value::from(line.entry.clone()).to_string()]);
        match streams.iter_mut().find(|(labels, _)| *labels == line.labels) {
            Some((_, values)) => values.push(value),
            None => streams.push((&line.labels, vec![value])),
        }
    }
    let streams = streams.into_iter().map(|(labels, values)| {
        let labels: Map<String, Value> =
            labels.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        json!({ "stream": labels, "values": values })
    });
    json!({ "streams": streams.collect::<Vec<_>>() })
}

impl Receiver {
    async fn send(&self, lines: &[Line]) -> Result<(), String> {
        let at = random_below(self.endpoints.len());
        let endpoint = self.endpoints.get(at).ok_or("no endpoint is configured")?;
        let mut outgoing = Outgoing::post(endpoint.clone(), "application/json", streams(lines).to_string());
        for (name, value) in &self.headers {
            outgoing = outgoing.header(name, value.as_bytes());
        }
        let answer = http::send(outgoing, &self.options).await?;
        if answer.status < 300 {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("loki server returned status: {}, body: {body}", answer.status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_the_same_labels_share_a_stream() {
        let line = |label: &str, time: &str| Line {
            labels: vec![("job".to_owned(), label.to_owned())],
            time: time.to_owned(),
            entry: Map::new(),
        };
        let streams = streams(&[line("a", "1"), line("b", "2"), line("a", "3")]);
        let expected = json!({"streams": [
            {"stream": {"job": "a"}, "values": [["1", "{}"], ["3", "{}"]]},
            {"stream": {"job": "b"}, "values": [["2", "{}"]]},
        ]});
        assert_eq!(streams, expected);
    }
}
