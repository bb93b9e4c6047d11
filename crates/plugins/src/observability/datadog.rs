//! Sends metrics of requests to a Datadog agent, in the protocol of DogStatsD over UDP.

use std::{fmt::Write, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::{
    batch::{Lot, Weigh},
    socket::{SocketKind, SocketSink},
};
use tidegate_model::SchemaKind;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, variables::Named};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{self, Latencies, LogEntry, Made},
    receiver,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "datadog",
    version: 0.1,
    priority: 495,
    guards: false,
    schema: include_str!("datadog.json"),
    metadata_schema: Some(include_str!("datadog.metadata.json")),
    phases: Phases::LOG,
    check,
    build,
    ..PluginDef::DEFAULT
};

/// An agent cuts longer datagrams, unless it is configured otherwise (`dogstatsd_buffer_size`).
const LONGEST_DATAGRAM: usize = 8192;

/// To resolve the agent's name, and to send a datagram.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Conf {
    prefer_name: bool,
    include_path: bool,
    include_method: bool,
    constant_tags: Vec<String>,
}

#[derive(Deserialize)]
#[serde(default)]
struct Metadata {
    host: String,
    port: u16,
    namespace: String,
    constant_tags: Vec<String>,
}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            host: "127.0.0.1".to_owned(),
            port: 8125,
            namespace: "apisix".to_owned(),
            constant_tags: vec!["source:apisix".to_owned()],
        }
    }
}

/// An agent that cannot be reached, or whose metrics would end within their name, is refused when it is written.
fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Metadata {
        return Ok(());
    }
    receiver::place(conf)?;
    let namespace = conf.get("namespace").and_then(Value::as_str).unwrap_or_default();
    match namespace.contains(|letter: char| letter.is_control() || ":|@#".contains(letter)) {
        true => {
            Err(format!("property \"namespace\": {namespace:?} has characters that end the name of a metric"))
        }
        false => Ok(()),
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let metadata: Metadata = context.metadata.map(typed).transpose()?.unwrap_or_default();
    let mut typed: Conf = typed(conf)?;
    typed.constant_tags.splice(0..0, metadata.constant_tags);
    let dot = if metadata.namespace.is_empty() { "" } else { "." };
    let prefix: Arc<str> = format!("{}{dot}", metadata.namespace).into();
    let sink = Arc::new(SocketSink {
        host: metadata.host,
        port: metadata.port,
        timeout: TIMEOUT,
        kind: SocketKind::Udp,
    });
    let make = move |_: &LogEntry, request: &mut Request| Made::Now(Metrics::of(request, &typed));
    BatchLogger::build(PLUGIN.name, conf, context, make, move |all| {
        let (sink, prefix) = (sink.clone(), prefix.clone());
        Box::pin(async move { send(&sink, &prefix, &all).await })
    })
}

/// The metrics of one request.
struct Metrics {
    latencies: Latencies,
    received: u64,
    sent: u64,
    /// `a:b,c:d`
    tags: String,
}

impl Weigh for Metrics {
    fn held(&self) -> usize {
        self.tags.capacity()
    }

    /// A line per metric.
    fn encoded(&self) -> usize {
        6 * (64 + self.tags.len())
    }
}

impl Metrics {
    fn of(request: &Request, conf: &Conf) -> Metrics {
        Metrics {
            latencies: Latencies::of(request),
            received: request.outcome.request_length,
            sent: request.outcome.bytes_sent,
            tags: tags(request, conf),
        }
    }

    /// The longest prefix is that of the user's namespace.
    fn lines(&self, prefix: &str) -> Vec<String> {
        let tags = if self.tags.is_empty() { String::new() } else { format!("|#{}", self.tags) };
        let Latencies { total, upstream, gateway } = &self.latencies;
        let metrics = [
            ("request.counter", Some("1|c".to_owned())),
            ("request.latency", Some(format!("{total}|h"))),
            ("upstream.latency", upstream.as_ref().map(|upstream| format!("{upstream}|h"))),
            ("apisix.latency", Some(format!("{gateway}|h"))),
            ("ingress.size", Some(format!("{}|ms", self.received))),
            ("egress.size", Some(format!("{}|ms", self.sent))),
        ];
        let lines = metrics.into_iter().filter_map(|(name, value)| Some((name, value?)));
        lines.map(|(name, value)| format!("{prefix}{name}:{value}{tags}")).collect()
    }
}

fn tags(request: &Request, conf: &Conf) -> String {
    let variable = |name| log_entry::variable(request, name);
    let route = request.route.as_deref();
    let preferred =
        |name: Option<&Arc<str>>| name.filter(|name| conf.prefer_name && !name.is_empty()).cloned();
    let route_name = route.map(|route| preferred(route.name.as_ref()).unwrap_or_else(|| route.id.clone()));
    let service = match route {
        // As in log entries.
        None => variable(Named::Host),
        Some(route) => preferred(route.service_name())
            .or_else(|| route.service_id().cloned())
            .map(|service| service.to_string()),
    };
    let status = request.response.status;
    let pairs = [
        ("route_name", route_name.map(|name| name.to_string())),
        ("path", variable(Named::MatchedUri).filter(|_| conf.include_path)),
        ("method", variable(Named::Method).filter(|_| conf.include_method)),
        ("service_name", service),
        ("consumer", request.consumer.as_ref().map(|consumer| consumer.username.to_string())),
        ("balancer_ip", variable(Named::BalancerIp)),
        ("response_status", Some(status.to_string())),
        ("response_status_class", Some(format!("{}xx", status / 100))),
        ("scheme", variable(Named::UpstreamScheme).filter(|_| !request.outcome.attempts.is_empty())),
    ];
    let mut tags = conf.constant_tags.join(",");
    for (name, value) in pairs {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let comma = if tags.is_empty() { "" } else { "," };
            let _ = write!(tags, "{comma}{name}:{}", without_separators(&value));
        }
    }
    tags
}

/// Names are free texts, and a comma, bar or line break in one would end the tag, the metric or the line.
fn without_separators(value: &str) -> String {
    value.replace([',', '|', '\n', '\r'], "_")
}

/// A datagram per request, or per metric where that would be too long.
async fn send(sink: &SocketSink, prefix: &str, all: &Lot<Metrics>) -> Result<(), String> {
    let datagrams = sink.datagrams().await?;
    while let Some(metrics) = all.first() {
        let lines = metrics.lines(prefix);
        let whole = lines.join("\n");
        let pieces = if whole.len() <= LONGEST_DATAGRAM { vec![whole] } else { lines };
        for piece in &pieces {
            if piece.len() > LONGEST_DATAGRAM {
                let reason = format_args!(
                    "datadog: a metric of {} bytes is longer than {LONGEST_DATAGRAM}: an agent may cut it",
                    piece.len()
                );
                error_log::log(Level::Warn, reason);
            }
            datagrams.send(piece.as_bytes()).await?;
        }
        all.delivered(1);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    #[test]
    fn lines_and_their_order() {
        let metrics = |upstream, tags: &str| Metrics {
            latencies: Latencies { total: json!(3), upstream, gateway: json!(0.5) },
            received: 10,
            sent: 20,
            tags: tags.to_owned(),
        };
        assert_eq!(
            metrics(Some(json!(2.5)), "a:b,c").lines("apisix."),
            [
                "apisix.request.counter:1|c|#a:b,c",
                "apisix.request.latency:3|h|#a:b,c",
                "apisix.upstream.latency:2.5|h|#a:b,c",
                "apisix.apisix.latency:0.5|h|#a:b,c",
                "apisix.ingress.size:10|ms|#a:b,c",
                "apisix.egress.size:20|ms|#a:b,c",
            ]
        );
        let lines = metrics(None, "").lines("");
        assert_eq!((lines.len(), lines[0].as_str()), (5, "request.counter:1|c"));
    }

    #[test]
    fn tags_of_a_request_without_a_route() {
        let mut request = test_request::request("GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        request.response.status = 404;
        let conf = Conf {
            prefer_name: true,
            include_path: true,
            include_method: true,
            constant_tags: vec!["source:apisix".to_owned()],
        };
        let expected =
            "source:apisix,method:GET,service_name:h,response_status:404,response_status_class:4xx";
        assert_eq!(tags(&request, &conf), expected);
    }

    #[test]
    fn values_end_no_tag() {
        assert_eq!(without_separators("a,b|c\nd:e"), "a_b_c_d:e");
    }
}
