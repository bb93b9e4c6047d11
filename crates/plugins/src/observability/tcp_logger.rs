//! Sends log entries as JSON to a TCP server.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::{
    batch,
    socket::{SocketKind, SocketSink},
};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    log_entry::LogEntry,
    receiver,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "tcp-logger",
    version: 0.1,
    priority: 405,
    guards: false,
    schema: include_str!("tcp_logger.json"),
    metadata_schema: Some(include_str!("tcp_logger.metadata.json")),
    phases: LogEntry::ALL_PHASES,
    check: receiver::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    host: String,
    port: u16,
    tls: bool,
    tls_options: Option<String>,
    /// Milliseconds.
    timeout: u64,
    batch_max_size: usize,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let kind = match typed.tls {
        // As in APISIX, the certificate is not verified.
        true => SocketKind::Tls { server_name: typed.tls_options, verify: false },
        false => SocketKind::Tcp,
    };
    let timeout = Duration::from_millis(typed.timeout);
    let sink = Arc::new(SocketSink { host: typed.host, port: typed.port, timeout, kind });
    BatchLogger::build(PLUGIN.name, conf, context, batch_logger::plain, move |entries| {
        let sink = sink.clone();
        Box::pin(async move { sink.send(&batch::json(&entries, typed.batch_max_size)).await })
    })
}
