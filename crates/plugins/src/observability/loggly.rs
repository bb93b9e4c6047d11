//! Sends log entries to Loggly: syslog messages over UDP, or its bulk endpoint over HTTP.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::{
    batch::Lot,
    http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted},
    socket::{MAX_DATAGRAM, SocketKind, SocketSink},
};
use tidegate_model::{SchemaKind, header_text::Text};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request};
use tidegate_protocol::uri::encoded_component;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{self, LogEntry, Made},
    receiver,
    rfc5424::{self, Facility, Severity},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "loggly",
    version: 0.1,
    priority: 411,
    guards: false,
    schema: include_str!("loggly.json"),
    metadata_schema: Some(include_str!("loggly.metadata.json")),
    encrypt_fields: &["customer_token"],
    phases: LogEntry::ALL_PHASES,
    check,
    // The token is not in a header, but a line break in it would end a message all the same.
    headers: &[("tags", Text::Value), ("customer_token", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    customer_token: String,
    severity: String,
    severity_map: Option<BTreeMap<String, String>>,
    tags: Vec<String>,
    ssl_verify: bool,
}

#[derive(Deserialize)]
#[serde(default)]
struct Metadata {
    host: String,
    port: u16,
    protocol: String,
    /// Milliseconds.
    timeout: u64,
}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            host: "logs-01.loggly.com".to_owned(),
            port: 514,
            protocol: "syslog".to_owned(),
            timeout: 5000,
        }
    }
}

/// A receiver that cannot be reached is refused when it is written.
fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Metadata {
        let metadata: Metadata = typed(conf)?;
        if metadata.protocol == "syslog" || metadata.host.is_empty() {
            receiver::place(conf)?;
        } else {
            Endpoint::parse(&metadata.base())?;
        }
    }
    log_entry::check(conf, kind)
}

impl Metadata {
    /// Where the bulk endpoint is.
    fn base(&self) -> String {
        let host = self.host.trim_end_matches('/');
        if host.contains("://") { host.to_owned() } else { format!("{}://{host}", self.protocol) }
    }
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let metadata: Metadata = context.metadata.map(typed).transpose()?.unwrap_or_default();
    let typed: Conf = typed(conf)?;
    let timeout = Duration::from_millis(metadata.timeout);
    if metadata.protocol != "syslog" {
        let bulk = Arc::new(Bulk::new(typed, &metadata, timeout)?);
        return BatchLogger::build(PLUGIN.name, conf, context, line, move |lines| {
            let bulk = bulk.clone();
            Box::pin(async move { bulk.send(&lines).await })
        });
    }
    let sink = SocketSink { host: metadata.host, port: metadata.port, timeout, kind: SocketKind::Udp };
    let (sink, form) = (Arc::new(sink), Form::new(&typed));
    let make = move |entry: &LogEntry, request: &mut Request| form.message(entry, request);
    BatchLogger::build(PLUGIN.name, conf, context, make, move |messages| {
        let sink = sink.clone();
        Box::pin(async move { send_datagrams(&sink, &messages).await })
    })
}

/// How syslog messages are made of entries.
struct Form {
    severity: Severity,
    by_status: Vec<(u16, Severity)>,
    data: String,
}

impl Form {
    fn new(conf: &Conf) -> Form {
        let severity = |name: &String| Severity::named(name).unwrap_or(Severity::Informational);
        let by_status = conf.severity_map.iter().flatten();
        Form {
            severity: severity(&conf.severity),
            by_status: by_status
                .filter_map(|(status, name)| Some((status.parse().ok()?, severity(name))))
                .collect(),
            // 41058 is Loggly's number among those of enterprises.
            data: rfc5424::element(
                &format!("{}@41058", conf.customer_token),
                conf.tags.iter().map(|tag| ("tag", tag.as_str())),
            ),
        }
    }

    fn severity(&self, status: u16) -> Severity {
        let mapped = self.by_status.iter().find(|(of, _)| *of == status);
        mapped.map_or(self.severity, |(_, severity)| *severity)
    }

    fn message(&self, entry: &LogEntry, request: &mut Request) -> Made<String> {
        let (severity, data) = (self.severity(request.response.status), self.data.clone());
        let host = String::from_utf8_lossy(&request.host).into_owned();
        entry.entry(request).then(move |entry| {
            rfc5424::message(Facility::User, severity, &host, &data, &Value::from(entry).to_string())
        })
    }
}

fn line(entry: &LogEntry, request: &mut Request) -> Made<String> {
    entry.entry(request).then(|entry| Value::from(entry).to_string())
}

async fn send_datagrams(sink: &SocketSink, messages: &Lot<String>) -> Result<(), String> {
    let datagrams = sink.datagrams().await?;
    while let Some(message) = messages.first() {
        if message.len() > MAX_DATAGRAM {
            let reason =
                format_args!("loggly: an entry of {} bytes fits in no datagram, dropped", message.len());
            error_log::log(Level::Error, reason);
            messages.dropped(1);
            continue;
        }
        datagrams.send(message.as_bytes()).await?;
        messages.delivered(1);
    }
    Ok(())
}

/// The bulk endpoint.
struct Bulk {
    endpoint: Endpoint,
    tags: String,
    options: ClientOptions,
}

impl Bulk {
    fn new(conf: Conf, metadata: &Metadata, timeout: Duration) -> Result<Bulk, String> {
        // Faults are those of the base: a message about the whole would show the token.
        let base = metadata.base();
        Endpoint::parse(&base)?;
        let url = format!("{base}/bulk/{}/tag/bulk", encoded_component(&conf.customer_token));
        Ok(Bulk {
            endpoint: Endpoint::parse(&url).map_err(|_| "bad URL of the bulk endpoint".to_owned())?,
            tags: conf.tags.join(","),
            options: ClientOptions {
                timeout,
                tls: TlsWanted { verify: conf.ssl_verify, client: None },
                body: Body::SAID,
                ..ClientOptions::default()
            },
        })
    }

    async fn send(&self, lines: &[String]) -> Result<(), String> {
        let outgoing = Outgoing::post(self.endpoint.clone(), "application/json", lines.join("\n"))
            .header("X-LOGGLY-TAG", self.tags.as_bytes());
        let answer = http::send(outgoing, &self.options)
            .await
            .map_err(|reason| format!("failed to write log to loggly, {reason}"))?;
        if answer.status == 200 {
            return Ok(());
        }
        let failed = format!("failed to send log to loggly, http status code: {}", answer.status);
        match serde_json::from_slice::<serde::de::IgnoredAny>(&answer.body) {
            Ok(_) => Err(format!("{failed} response body: {}", String::from_utf8_lossy(&answer.body))),
            Err(_) => Err(failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    fn conf(more: Value) -> Conf {
        let mut conf =
            json!({"customer_token": "t", "severity": "INFO", "tags": ["a", "b"], "ssl_verify": true});
        if let (Some(conf), Value::Object(more)) = (conf.as_object_mut(), more) {
            conf.extend(more);
        }
        typed(&conf).expect("a configuration")
    }

    #[test]
    fn messages_have_the_severity_of_the_status() {
        let form =
            Form::new(&conf(json!({"severity": "crit", "severity_map": {"503": "ERR", "410": "alert"}})));
        let entry = LogEntry::new(&json!({"log_format": {"a": "b"}}), None).expect("an entry");
        let mut request = test_request::request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        for (status, priority) in [(200, "<10>1 "), (410, "<9>1 "), (503, "<11>1 ")] {
            request.response.status = status;
            let Made::Now(message) = form.message(&entry, &mut request) else { panic!("made at once") };
            assert!(message.starts_with(priority), "{message}");
            assert!(message.ends_with(r#" - [t@41058 tag="a" tag="b"] {"a":"b"}"#), "{message}");
        }
    }

    #[test]
    fn places_of_the_bulk_endpoint() {
        for (host, protocol, expected) in [
            ("logs.test", "http", (false, "logs.test", 80, "/bulk/t/tag/bulk")),
            ("logs.test:81/x/", "https", (true, "logs.test", 81, "/x/bulk/t/tag/bulk")),
            ("https://logs.test", "http", (true, "logs.test", 443, "/bulk/t/tag/bulk")),
        ] {
            let metadata =
                Metadata { host: host.to_owned(), protocol: protocol.to_owned(), ..Metadata::default() };
            let bulk = Bulk::new(conf(json!({})), &metadata, Duration::ZERO).expect("an endpoint");
            let Endpoint { tls, host, port, target } = &bulk.endpoint;
            assert_eq!((*tls, host.as_str(), *port, target.as_str()), expected);
            assert_eq!(bulk.tags, "a,b");
        }
    }
}
