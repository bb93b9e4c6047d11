//! Sends log entries to a Kafka topic, a message per batch.
//!
//! The producer is a small one of our own (see [`producer`]), and what it speaks also serves kafka-proxy: they need six requests of the protocol, and a client
//! library would bring a second TLS implementation.

pub(crate) mod connection;
pub(crate) mod metadata;
pub(super) mod producer;
pub(crate) mod protocol;
pub(crate) mod sasl;

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::{batch::Lot, http::TlsWanted};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

use self::{
    connection::{Broker, Settings, Tls},
    producer::Producer,
    sasl::Credentials,
};
use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    log_entry::{self, LogEntry},
    without_effect,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "kafka-logger",
    version: 0.1,
    priority: 403,
    guards: false,
    schema: include_str!("kafka_logger.json"),
    metadata_schema: Some(include_str!("kafka_logger.metadata.json")),
    encrypt_fields: &["brokers.sasl_config.password"],
    phases: LogEntry::ALL_PHASES,
    check: log_entry::check,
    remarks: |conf| without_effect::remarks(conf, PLUGIN.schema, &IDLE),
    build,
    ..PluginDef::DEFAULT
};

const AT_ONCE: &str =
    "a batch is one message, which is sent at once; batch_max_size and inactive_timeout bound it";

const IDLE: [without_effect::Idle; 7] = [
    ("producer_type", AT_ONCE),
    ("producer_batch_num", AT_ONCE),
    ("producer_batch_size", AT_ONCE),
    ("producer_max_buffering", AT_ONCE),
    ("producer_time_linger", AT_ONCE),
    ("cluster_name", "each configuration has connections of its own"),
    ("api_version", "messages are record batches (Produce 3), which all brokers from 0.11 on take"),
];

#[derive(Deserialize)]
struct Conf {
    meta_format: String,
    broker_list: Option<Map<String, Value>>,
    brokers: Option<Vec<BrokerConf>>,
    tls: Option<TlsConf>,
    kafka_topic: String,
    required_acks: i16,
    key: Option<String>,
    /// Seconds.
    timeout: u64,
    meta_refresh_interval: u64,
    batch_max_size: usize,
}

#[derive(Deserialize)]
struct BrokerConf {
    host: String,
    port: u16,
    sasl_config: Option<Credentials>,
}

#[derive(Deserialize)]
struct TlsConf {
    #[serde(default)]
    verify: bool,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let mut brokers: Vec<Broker> = Vec::new();
    for broker in typed.brokers.into_iter().flatten() {
        brokers.push(Broker {
            host: broker.host,
            port: broker.port,
            address: None,
            credentials: broker.sasl_config,
        });
    }
    for (host, port) in typed.broker_list.into_iter().flatten() {
        let port = port.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(9092);
        brokers.push(Broker { host, port, address: None, credentials: None });
    }
    let producer = Arc::new(Producer::new(
        Settings {
            brokers,
            tls: typed.tls.map(|tls| Tls::Wanted(TlsWanted { verify: tls.verify, client: None })),
            timeout: Duration::from_secs(typed.timeout),
            client: None,
        },
        typed.kafka_topic,
        typed.key,
        typed.required_acks,
        Duration::from_secs(typed.meta_refresh_interval),
    ));
    let make = batch_logger::in_format(typed.meta_format == "origin");
    BatchLogger::build(PLUGIN.name, conf, context, make, move |entries: Arc<Lot<Value>>| {
        let producer = producer.clone();
        Box::pin(async move { producer.send(&batch_logger::message(&entries, typed.batch_max_size)).await })
    })
}
