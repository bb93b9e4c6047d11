//! Sends log entries as syslog messages (RFC 5424) over TCP, TLS or UDP.
//!
//! A batch goes out when it is full or old; `flush_limit`, a second buffer behind that in APISIX, is not needed.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::{
    batch::{Lot, Sending},
    socket::{SocketKind, SocketSink},
};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::LogEntry,
    receiver,
    rfc5424::{Facility, NO_DATA, Severity, message},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "syslog",
    version: 0.1,
    priority: 401,
    guards: false,
    schema: include_str!("syslog.json"),
    metadata_schema: Some(include_str!("syslog.metadata.json")),
    phases: LogEntry::ALL_PHASES,
    check: receiver::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    host: String,
    port: u16,
    /// Bytes; a larger batch is dropped.
    drop_limit: i64,
    /// Milliseconds.
    timeout: u64,
    sock_type: String,
    tls: bool,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let make = |entry: &LogEntry, request: &mut tidegate_plugin_api::Request| {
        let host = String::from_utf8_lossy(&request.host).into_owned();
        entry.entry(request).then(move |entry| line(&host, entry))
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, sending(conf)?)
}

/// An entry as a message.
pub(crate) fn line(host: &str, entry: Map<String, Value>) -> String {
    let text = Value::from(entry).to_string() + "\n";
    message(Facility::Syslog, Severity::Informational, host, NO_DATA, &text)
}

/// How the batches of a configuration are sent.
pub(crate) fn sending(
    conf: &Value,
) -> Result<impl Fn(Arc<Lot<String>>) -> Sending + Send + Sync + 'static, String> {
    let typed: Conf = typed(conf)?;
    let kind = match (typed.sock_type.as_str(), typed.tls) {
        ("udp", _) => SocketKind::Udp,
        (_, true) => SocketKind::Tls { server_name: None, verify: false },
        _ => SocketKind::Tcp,
    };
    let timeout = Duration::from_millis(typed.timeout);
    let sink = Arc::new(SocketSink { host: typed.host, port: typed.port, timeout, kind });
    Ok(move |entries: Arc<Lot<String>>| -> Sending {
        let sink = sink.clone();
        Box::pin(async move {
            let data = entries.concat();
            if data.len() as i64 > typed.drop_limit {
                let reason = format_args!("syslog: {} bytes are over drop_limit, dropped", data.len());
                error_log::log(Level::Error, reason);
                entries.dropped(entries.len());
                return Ok(());
            }
            sink.send(data.as_bytes()).await
        })
    })
}
