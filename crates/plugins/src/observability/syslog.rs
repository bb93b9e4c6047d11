//! Sends log entries as syslog messages (RFC 5424) over TCP, TLS or UDP.
//!
//! A batch goes out when it is full or old; `flush_limit`, a second buffer behind that in APISIX, is not needed.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::socket::{SocketKind, SocketSink};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};
use tidegate_telemetry::clock::{self, RFC3339};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{batch_logger::BatchLogger, conf::typed, log_entry::LogEntry};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "syslog",
    version: 0.1,
    priority: 401,
    guards: false,
    schema: include_str!("syslog.json"),
    metadata_schema: Some(include_str!("syslog.metadata.json")),
    phases: LogEntry::ALL_PHASES,
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
    let typed: Conf = typed(conf)?;
    let kind = match (typed.sock_type.as_str(), typed.tls) {
        ("udp", _) => SocketKind::Udp,
        (_, true) => SocketKind::Tls { server_name: None },
        _ => SocketKind::Tcp,
    };
    let timeout = Duration::from_millis(typed.timeout);
    let sink = Arc::new(SocketSink { host: typed.host, port: typed.port, timeout, kind });
    let make = |entry: &LogEntry, request: &mut tidegate_plugin_api::Request| {
        let host = String::from_utf8_lossy(&request.host).into_owned();
        entry.entry(request).then(move |entry| message(&host, &Value::from(entry).to_string()))
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |entries: Arc<Vec<String>>| {
        let sink = sink.clone();
        Box::pin(async move {
            let data = entries.concat();
            if data.len() as i64 > typed.drop_limit {
                let reason = format_args!("syslog: {} bytes are over drop_limit, dropped", data.len());
                error_log::log(Level::Error, reason);
                return Ok(());
            }
            sink.send(data.as_bytes()).await
        })
    })
}

/// Facility SYSLOG, severity INFO.
const PRIORITY: u8 = 5 * 8 + 6;

fn message(host: &str, text: &str) -> String {
    let now = clock::utc(clock::unix_ms(), RFC3339);
    let host = if host.is_empty() { "-" } else { host };
    format!("<{PRIORITY}>1 {now} {host} apisix {} - - {text}\n", std::process::id())
}

#[cfg(test)]
mod tests {
    #[test]
    fn form_of_a_message() {
        let message = super::message("h", "{}");
        let parts: Vec<&str> = message.split(' ').collect();
        assert_eq!(
            (parts[0], parts[2], parts[3], parts[5], parts[6], parts[7]),
            ("<46>1", "h", "apisix", "-", "-", "{}\n")
        );
        assert!(parts[1].ends_with('Z') && parts[1].len() == 24, "{message}");
    }
}
