//! Sends lines of the gateway's error log to a TCP server, SkyWalking, ClickHouse or Kafka. Its metadata say where to; no
//! route has it.

mod target;

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::batch::Batch;
use tidegate_model::{SchemaKind, header_text::Text};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef};
use tidegate_telemetry::error_log::{self, Level};

use self::target::Target;
use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "error-log-logger",
    version: 0.1,
    priority: 1091,
    on_by_default: false,
    guards: false,
    scope: Some("global"),
    schema: include_str!("error_log_logger.json"),
    metadata_schema: Some(include_str!("error_log_logger.metadata.json")),
    encrypt_fields: &["clickhouse.password", "kafka.brokers.sasl_config.password"],
    metadata_headers: &[
        ("clickhouse.user", Text::Value),
        ("clickhouse.password", Text::Value),
        ("clickhouse.database", Text::Value),
    ],
    remarks: |_| {
        vec!["it has no effect here: lines go where plugin_metadata/error-log-logger says".to_owned()]
    },
    metadata_remarks,
    check,
    build: |_: &Value, _: &BuildContext| Ok(Arc::new(Nothing)),
    follow_metadata: Some(follow),
    ..PluginDef::DEFAULT
};

/// On a route or in a global rule.
struct Nothing;

impl Plugin for Nothing {}

#[derive(Deserialize)]
struct Conf {
    level: String,
}

/// The metadata in effect. Lines go to the target that they name until others are there.
static CURRENT: Mutex<Option<Value>> = Mutex::new(None);

/// Lines that there are none of.
fn metadata_remarks(conf: &Value) -> Vec<String> {
    let Some(name) = conf.get("level").and_then(Value::as_str) else { return Vec::new() };
    let remark = match named_level(name) {
        None => "no line has level STDERR, so none is sent; write WARN".to_owned(),
        Some(level) if !error_log::enabled(level) => format!(
            "level {name}: the error log has no lines of it, so none are sent; set nginx_config.error_log_level"
        ),
        Some(_) => return Vec::new(),
    };
    vec![remark]
}

/// A target that cannot be made of the metadata is refused when it is written.
fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    match kind {
        SchemaKind::Metadata if conf.pointer("/kafka/kafka_topic").and_then(Value::as_str) == Some("") => {
            Err("property \"kafka.kafka_topic\" is empty: no broker has such a topic".to_owned())
        }
        SchemaKind::Metadata => Target::new(conf).map(|_| ()),
        _ => Ok(()),
    }
}

/// Sends lines where the metadata say from now on.
fn follow(metadata: Option<&Value>) {
    let mut current = CURRENT.lock();
    if current.as_ref() == metadata {
        return;
    }
    *current = metadata.cloned();
    // Lines that wait are still sent to the target before.
    match metadata.map(forwarder) {
        None => error_log::forward(None),
        Some(Ok(forwarder)) => error_log::forward(Some(forwarder)),
        Some(Err(reason)) => {
            error_log::forward(None);
            error_log::log(Level::Error, format_args!("error-log-logger sends nothing: {reason}"));
        }
    }
}

fn forwarder(metadata: &Value) -> Result<error_log::Forwarder, String> {
    let Conf { level } = typed(metadata)?;
    let target = Arc::new(Target::new(metadata)?);
    let batch = Batch::of_error_log(PLUGIN.name, metadata, move |lines| {
        let target = target.clone();
        Box::pin(async move { target.send(&lines).await })
    })?;
    let least = named_level(&level);
    Ok(Box::new(move |level, line| {
        if least.is_some_and(|least| level <= least) {
            batch.push_plain(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
        }
    }))
}

/// `STDERR` is above all levels that lines have.
fn named_level(name: &str) -> Option<Level> {
    match name {
        "STDERR" => None,
        "EMERG" => Some(Level::Emergency),
        "ALERT" => Some(Level::Alert),
        "CRIT" => Some(Level::Critical),
        "ERR" | "ERROR" => Some(Level::Error),
        "WARN" => Some(Level::Warn),
        "NOTICE" => Some(Level::Notice),
        "INFO" => Some(Level::Info),
        _ => Some(Level::Debug),
    }
}
