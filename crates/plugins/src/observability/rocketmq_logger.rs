//! Sends log entries to a RocketMQ topic, a message per batch.
//!
//! The producer is a small one of our own (see [`producer`]): it needs two requests of the protocol.

mod connection;
mod producer;
mod remoting;
mod route;

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::batch::Lot;
use tidegate_model::{SchemaKind, header_text::Text};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};

use self::{
    connection::Settings,
    producer::{Destination, Producer},
    remoting::Credentials,
};
use crate::common::{
    batch_logger::{self, BatchLogger},
    conf::typed,
    log_entry::{self, LogEntry},
    receiver,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "rocketmq-logger",
    version: 0.1,
    priority: 402,
    guards: false,
    schema: include_str!("rocketmq_logger.json"),
    metadata_schema: Some(include_str!("rocketmq_logger.metadata.json")),
    encrypt_fields: &["secret_key"],
    phases: LogEntry::ALL_PHASES,
    check,
    // Properties of messages, not header fields, but control characters part them.
    headers: &[("key", Text::Value), ("tag", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    meta_format: String,
    nameserver_list: Vec<String>,
    topic: String,
    key: Option<String>,
    tag: Option<String>,
    /// Seconds.
    timeout: u64,
    use_tls: bool,
    access_key: String,
    secret_key: String,
    batch_max_size: usize,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Plugin {
        let servers = conf.get("nameserver_list").and_then(Value::as_array).into_iter().flatten();
        for server in servers.filter_map(Value::as_str) {
            receiver::address("nameserver_list", server)?;
        }
    }
    log_entry::check(conf, kind)
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let credentials = (!typed.access_key.is_empty())
        .then_some(Credentials { access_key: typed.access_key, secret_key: typed.secret_key });
    let producer = Arc::new(Producer::new(
        Settings {
            nameservers: typed.nameserver_list,
            tls: typed.use_tls,
            credentials,
            timeout: Duration::from_secs(typed.timeout),
        },
        Destination { topic: typed.topic, key: typed.key, tag: typed.tag },
    ));
    let make = batch_logger::in_format(typed.meta_format == "origin");
    BatchLogger::build(PLUGIN.name, conf, context, make, move |entries: Arc<Lot<Value>>| {
        let producer = producer.clone();
        Box::pin(async move { producer.send(&batch_logger::message(&entries, typed.batch_max_size)).await })
    })
}
