//! Inserts log entries into a table of ClickHouse.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{Body, ClientOptions, Endpoint, TlsWanted};
use tidegate_model::random::random_below;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

use crate::common::{
    batch_logger::{self, BatchLogger},
    clickhouse::{self, Table},
    conf::typed,
    log_entry::{self, LogEntry},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "clickhouse-logger",
    version: 0.1,
    priority: 398,
    guards: false,
    schema: include_str!("clickhouse_logger.json"),
    metadata_schema: Some(include_str!("clickhouse_logger.metadata.json")),
    encrypt_fields: &["password"],
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    headers: &clickhouse::HEADERS,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint_addr: Option<String>,
    endpoint_addrs: Option<Vec<String>>,
    #[serde(flatten)]
    table: Table,
    /// Seconds.
    timeout: u64,
    ssl_verify: bool,
}

struct Servers {
    endpoints: Vec<Endpoint>,
    table: Table,
    options: ClientOptions,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let Conf { endpoint_addr, endpoint_addrs, table, timeout, ssl_verify } = typed(conf)?;
    let addresses = endpoint_addr.map_or_else(|| endpoint_addrs.unwrap_or_default(), |address| vec![address]);
    let servers = Arc::new(Servers {
        endpoints: addresses.iter().map(|address| Endpoint::parse(address)).collect::<Result<_, _>>()?,
        table,
        options: ClientOptions {
            timeout: Duration::from_secs(timeout),
            tls: TlsWanted { verify: ssl_verify, client: None },
            body: Body::SAID,
            ..ClientOptions::default()
        },
    });
    BatchLogger::build(PLUGIN.name, conf, context, batch_logger::plain, move |entries| {
        let servers = servers.clone();
        Box::pin(async move {
            let at = random_below(servers.endpoints.len());
            let endpoint = servers.endpoints.get(at).ok_or("no endpoint is configured")?.clone();
            servers.table.insert(&entries, endpoint, &servers.options).await
        })
    })
}
