//! Sends log entries as JSON to a UDP server, a datagram per batch.

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
    name: "udp-logger",
    version: 0.1,
    priority: 400,
    guards: false,
    schema: include_str!("udp_logger.json"),
    metadata_schema: Some(include_str!("udp_logger.metadata.json")),
    phases: LogEntry::ALL_PHASES,
    check: receiver::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    host: String,
    port: u16,
    /// Seconds.
    timeout: u64,
    batch_max_size: usize,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let batch_max_size = typed.batch_max_size;
    let sink = Arc::new(sink(typed));
    BatchLogger::build(PLUGIN.name, conf, context, batch_logger::plain, move |entries| {
        let sink = sink.clone();
        Box::pin(async move { sink.send(&batch::json(&entries, batch_max_size)).await })
    })
}

fn sink(conf: Conf) -> SocketSink {
    let timeout = Duration::from_secs(conf.timeout);
    SocketSink { host: conf.host, port: conf.port, timeout, kind: SocketKind::Udp }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Only the look-up of a name takes time, and the system does that.
    #[test]
    fn sends_within_its_timeout() {
        let conf = json!({"host": "a.test", "port": 9, "timeout": 7, "batch_max_size": 1});
        assert_eq!(sink(typed(&conf).expect("a configuration")).timeout, Duration::from_secs(7));
    }
}
