//! Sends log entries to the Simple Log Service (SLS) of Alibaba Cloud, as syslog messages over TLS.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::{
    batch::Lot,
    socket::{SocketKind, SocketSink},
};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request};

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::LogEntry,
    receiver,
    rfc5424::{self, Facility, Severity},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "sls-logger",
    version: 0.1,
    priority: 406,
    guards: false,
    schema: include_str!("sls_logger.json"),
    metadata_schema: Some(include_str!("sls_logger.metadata.json")),
    encrypt_fields: &["access_key_secret"],
    phases: LogEntry::ALL_PHASES,
    check: receiver::check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    host: String,
    port: u16,
    /// Milliseconds.
    timeout: u64,
    project: String,
    logstore: String,
    access_key_id: String,
    access_key_secret: String,
    ssl_verify: bool,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let data = data(&typed);
    let sink = Arc::new(SocketSink {
        host: typed.host,
        port: typed.port,
        timeout: Duration::from_millis(typed.timeout),
        kind: SocketKind::Tls { server_name: None, verify: typed.ssl_verify },
    });
    let make = move |entry: &LogEntry, request: &mut Request| {
        let (host, data) = (String::from_utf8_lossy(&request.host).into_owned(), data.clone());
        entry.entry(request).then(move |entry| {
            let text = Value::from(entry).to_string() + "\n";
            rfc5424::message(Facility::Syslog, Severity::Informational, &host, &data, &text)
        })
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |messages: Arc<Lot<String>>| {
        let sink = sink.clone();
        Box::pin(async move { sink.send(messages.concat().as_bytes()).await })
    })
}

/// Where the service puts a message, and who sends it.
fn data(conf: &Conf) -> String {
    let parameters = [
        ("project", conf.project.as_str()),
        ("logstore", conf.logstore.as_str()),
        ("access-key-id", conf.access_key_id.as_str()),
        ("access-key-secret", conf.access_key_secret.as_str()),
    ];
    rfc5424::element("logservice", parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_where_they_belong() {
        let conf = Conf {
            host: String::new(),
            port: 0,
            timeout: 0,
            project: "p".to_owned(),
            logstore: "l".to_owned(),
            access_key_id: "i".to_owned(),
            access_key_secret: "s\"".to_owned(),
            ssl_verify: true,
        };
        assert_eq!(
            data(&conf),
            r#"[logservice project="p" logstore="l" access-key-id="i" access-key-secret="s\""]"#
        );
    }
}
