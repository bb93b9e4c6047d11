//! Posts log entries to an HTTP server, as JSON or as lines of JSON.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::{
    batch,
    http::{Body, ClientOptions, Endpoint, Outgoing, TlsWanted},
};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    deliver::deliver,
    log_entry::{self, LogEntry},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "http-logger",
    version: 0.1,
    priority: 410,
    guards: false,
    schema: include_str!("http_logger.json"),
    metadata_schema: Some(include_str!("http_logger.metadata.json")),
    encrypt_fields: &["auth_header"],
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    headers: &[("auth_header", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    uri: String,
    auth_header: Option<String>,
    /// Seconds.
    timeout: u64,
    concat_method: String,
    ssl_verify: bool,
    batch_max_size: usize,
}

struct Receiver {
    conf: Conf,
    endpoint: Endpoint,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let options = ClientOptions {
        timeout: Duration::from_secs(typed.timeout),
        tls: TlsWanted { verify: typed.ssl_verify, client: None },
        body: Body::SAID,
        ..ClientOptions::default()
    };
    let endpoint = Endpoint::parse(&typed.uri)?;
    let receiver = Arc::new(Receiver { conf: typed, endpoint, options });
    BatchLogger::build(PLUGIN.name, conf, context, batch_logger::with_route, move |entries| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.send(&entries).await })
    })
}

impl Receiver {
    fn body(&self, entries: &[Map<String, Value>]) -> Vec<u8> {
        if self.conf.concat_method == "json" {
            return batch::json(entries, self.conf.batch_max_size);
        }
        let lines: Vec<Vec<u8>> = entries.iter().filter_map(|entry| serde_json::to_vec(entry).ok()).collect();
        lines.join(&b'\n')
    }

    async fn send(&self, entries: &[Map<String, Value>]) -> Result<(), String> {
        let content_type = if self.conf.concat_method == "json" { "application/json" } else { "text/plain" };
        let mut outgoing = Outgoing::post(self.endpoint.clone(), content_type, self.body(entries));
        if let Some(authorization) = &self.conf.auth_header {
            outgoing = outgoing.header("Authorization", authorization.as_bytes());
        }
        deliver(outgoing, &self.options).await
    }
}
