//! Sends log entries to the Cloud Log Service (CLS) of Tencent Cloud.

mod signature;
mod structured_log;

use std::{net::IpAddr, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::{
    batch::Lot,
    http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted},
};
use tidegate_model::{SchemaKind, header_text::Text};
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request, host};
use tidegate_protocol::uri::encoded_component;
use tidegate_telemetry::{
    clock,
    error_log::{self, Level},
};
use tokio::sync::OnceCell;

use self::structured_log::Log;
use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    log_entry::{self, LogEntry, Made},
    receiver,
    sampled::sampled,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "tencent-cloud-cls",
    version: 0.1,
    priority: 397,
    guards: false,
    schema: include_str!("tencent_cloud_cls.json"),
    metadata_schema: Some(include_str!("tencent_cloud_cls.metadata.json")),
    encrypt_fields: &["secret_key"],
    phases: LogEntry::ALL_PHASES,
    check,
    headers: &[("secret_id", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

/// For connecting, and again for the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

const MAX_ANSWER: usize = 64 << 10;

/// Answers that another try does not change.
const FINAL: [u16; 4] = [401, 403, 404, 413];

#[derive(Deserialize)]
struct Conf {
    cls_host: String,
    cls_topic: String,
    scheme: String,
    secret_id: String,
    secret_key: String,
    sample_ratio: f64,
    global_tag: Option<Map<String, Value>>,
    ssl_verify: bool,
}

struct Service {
    endpoint: Endpoint,
    secret_id: String,
    secret_key: String,
    options: ClientOptions,
    /// The address of this machine, empty if its name has none.
    source: OnceCell<String>,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Plugin
        && let Some(host) = conf.get("cls_host").and_then(Value::as_str)
    {
        receiver::name("cls_host", host)?;
        Endpoint::parse(&format!("http://{host}/"))?;
    }
    log_entry::check(conf, kind)
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let topic = encoded_component(&typed.cls_topic);
    let url = format!("{}://{}{}?topic_id={topic}", typed.scheme, typed.cls_host, signature::PATH);
    let service = Arc::new(Service {
        endpoint: Endpoint::parse(&url)?,
        secret_id: typed.secret_id,
        secret_key: typed.secret_key,
        options: ClientOptions {
            timeout: TIMEOUT,
            tls: TlsWanted { verify: typed.ssl_verify, client: None },
            body: Body::Whole(MAX_ANSWER),
            ..ClientOptions::default()
        },
        source: OnceCell::new(),
    });
    let tags = Arc::new(typed.global_tag.unwrap_or_default());
    let make = move |entry: &LogEntry, request: &mut Request| log(entry, request, tags.clone());
    let logger = BatchLogger::build(PLUGIN.name, conf, context, make, move |logs| {
        let service = service.clone();
        Box::pin(async move { service.send(&logs).await })
    })?;
    Ok(sampled(typed.sample_ratio, logger))
}

fn log(entry: &LogEntry, request: &mut Request, tags: Arc<Map<String, Value>>) -> Made<Log> {
    let time = clock::unix_ms();
    entry.entry(request).then(move |mut entry| {
        entry.extend(tags.iter().map(|(name, value)| (name.clone(), value.clone())));
        Log::new(time, entry)
    })
}

impl Service {
    /// In as few requests as the service takes.
    async fn send(&self, logs: &Lot<Log>) -> Result<(), String> {
        let source = self.source.get_or_init(own_address).await;
        while let Some(first) = logs.first() {
            if first.is_too_long() {
                error_log::log(Level::Error, format_args!("tencent-cloud-cls: a log is over 5 MB, dropped"));
                logs.dropped(1);
                continue;
            }
            let (count, body) = structured_log::group_list(logs, source);
            match self.post(body).await? {
                true => logs.delivered(count),
                false => logs.dropped(count),
            }
        }
        Ok(())
    }

    /// `false`: the service will not take it.
    async fn post(&self, body: Vec<u8>) -> Result<bool, String> {
        let now = clock::unix_ms() / 1000;
        let authorization = signature::authorization(&self.secret_id, &self.secret_key, now);
        let outgoing = Outgoing::post(self.endpoint.clone(), "application/x-protobuf", body)
            .header("Authorization", authorization);
        let answer = http::send(outgoing, &self.options).await?;
        if answer.status == 200 {
            return Ok(true);
        }
        let body = String::from_utf8_lossy(&answer.body);
        let reason = format!("got wrong status: {}, body, {body}", answer.status);
        if FINAL.contains(&answer.status) {
            error_log::log(Level::Error, format_args!("{reason}, not retryable"));
            return Ok(false);
        }
        Err(reason)
    }
}

/// Of the machine's name, preferably one of IPv4.
async fn own_address() -> String {
    let name = host().map_or("localhost", |host| &host.hostname);
    let found: Vec<IpAddr> = match tokio::net::lookup_host((name, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(error) => {
            error_log::log(Level::Warn, format_args!("resolve ip failed, hostname: {name}, error: {error}"));
            Vec::new()
        }
    };
    let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
    address.map(IpAddr::to_string).unwrap_or_default()
}
