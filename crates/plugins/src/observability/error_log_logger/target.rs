//! Where lines of the error log go.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tidegate_clients::{
    batch::Lot,
    http::{Body, ClientOptions, Endpoint, TlsWanted},
    socket::{KeptSink, SocketKind, SocketSink},
};

use crate::{
    common::{clickhouse::Table, conf::typed, skywalking},
    observability::kafka_logger::{
        connection::{Broker, Settings, Tls},
        producer::Producer,
        sasl::Credentials,
    },
};

pub(super) enum Target {
    Tcp(KeptSink),
    SkyWalking { service: String, instance: String, endpoint: Endpoint, options: ClientOptions },
    ClickHouse { table: Table, endpoint: Endpoint, options: ClientOptions },
    Kafka(Box<Producer>),
}

#[derive(Deserialize)]
struct Times {
    /// Seconds.
    timeout: u64,
    keepalive: u64,
}

#[derive(Deserialize)]
struct Tcp {
    host: String,
    port: u16,
    #[serde(default)]
    tls: bool,
    tls_server_name: Option<String>,
}

#[derive(Deserialize)]
struct SkyWalking {
    endpoint_addr: String,
    service_name: String,
    service_instance_name: String,
}

#[derive(Deserialize)]
struct ClickHouse {
    endpoint_addr: String,
    #[serde(flatten)]
    table: Table,
}

#[derive(Deserialize)]
struct Kafka {
    brokers: Vec<KafkaBroker>,
    tls: Option<KafkaTls>,
    kafka_topic: String,
    required_acks: i16,
    key: Option<String>,
    /// Seconds.
    meta_refresh_interval: u64,
}

#[derive(Deserialize)]
struct KafkaBroker {
    host: String,
    port: u16,
    sasl_config: Option<Credentials>,
}

#[derive(Deserialize)]
struct KafkaTls {
    #[serde(default)]
    verify: bool,
}

/// A part of the metadata, if it is there.
fn part<T: DeserializeOwned>(metadata: &Value, name: &str) -> Result<Option<T>, String> {
    let found = metadata.get(name).map(typed).transpose();
    found.map_err(|reason| format!("{name}: {reason}"))
}

impl Target {
    /// Of metadata with their defaults.
    pub(super) fn new(metadata: &Value) -> Result<Target, String> {
        let times: Times = typed(metadata)?;
        let options = || ClientOptions {
            timeout: Duration::from_secs(times.timeout),
            tls: TlsWanted { verify: true, client: None },
            keepalive_timeout: Duration::from_secs(times.keepalive),
            body: Body::SAID,
            ..ClientOptions::default()
        };
        if let Some(SkyWalking { endpoint_addr, service_name, service_instance_name }) =
            part(metadata, "skywalking")?
        {
            let endpoint = Endpoint::parse(&endpoint_addr)?;
            let instance = service_instance_name;
            return Ok(Target::SkyWalking { service: service_name, instance, endpoint, options: options() });
        }
        if let Some(ClickHouse { endpoint_addr, table }) = part(metadata, "clickhouse")? {
            let endpoint = Endpoint::parse(&endpoint_addr)?;
            return Ok(Target::ClickHouse { table, endpoint, options: options() });
        }
        if let Some(kafka) = part(metadata, "kafka")? {
            return Ok(Target::Kafka(Box::new(producer(kafka, times.timeout))));
        }
        let tcp: Tcp = match part(metadata, "tcp")? {
            Some(tcp) => tcp,
            // The form of APISIX before 2.13.
            None => typed(metadata)?,
        };
        let kind = match tcp.tls {
            true => SocketKind::Tls { server_name: tcp.tls_server_name, verify: false },
            false => SocketKind::Tcp,
        };
        let sink =
            SocketSink { host: tcp.host, port: tcp.port, timeout: Duration::from_secs(times.timeout), kind };
        Ok(Target::Tcp(KeptSink::new(sink, Duration::from_secs(times.keepalive))))
    }

    pub(super) async fn send(&self, lines: &Lot<String>) -> Result<(), String> {
        match self {
            Target::Tcp(sink) => {
                let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                sink.send(text.as_bytes()).await
            }
            Target::SkyWalking { service, instance, endpoint, options } => {
                let instance = skywalking::instance(instance);
                let records: Vec<Value> = lines.iter().map(|line| record(service, &instance, line)).collect();
                skywalking::collect(&records, endpoint.clone(), options).await
            }
            Target::ClickHouse { table, endpoint, options } => {
                let rows: Vec<Value> = lines.iter().map(|line| json!({ "data": line })).collect();
                table.insert(&rows, endpoint.clone(), options).await
            }
            Target::Kafka(producer) => {
                while let Some(line) = lines.first() {
                    producer.send(Value::from(line.as_str()).to_string().as_bytes()).await?;
                    lines.delivered(1);
                }
                Ok(())
            }
        }
    }
}

fn record(service: &str, instance: &str, line: &str) -> Value {
    json!({ "service": service, "serviceInstance": instance, "endpoint": "", "body": { "text": { "text": line } } })
}

fn producer(kafka: Kafka, timeout: u64) -> Producer {
    let brokers = kafka.brokers.into_iter();
    let settings = Settings {
        brokers: brokers
            .map(|broker| Broker {
                host: broker.host,
                port: broker.port,
                address: None,
                credentials: broker.sasl_config,
            })
            .collect(),
        tls: kafka.tls.map(|tls| Tls::Wanted(TlsWanted { verify: tls.verify, client: None })),
        timeout: Duration::from_secs(timeout),
        client: None,
    };
    let refresh = Duration::from_secs(kafka.meta_refresh_interval);
    Producer::new(settings, kafka.kafka_topic, kafka.key, kafka.required_acks, refresh)
}
