//! The account at the brokers of an upstream with scheme `kafka`, and what serves such upstreams: commands of clients, which come
//! over a WebSocket, become requests of Kafka's protocol.

mod commands;
mod consumer;
mod records;
mod said;
mod wire;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use consumer::Consumer;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, Step, UpstreamHandle, host,
    messages::{Answering, Messages},
};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::{
    common::conf::typed,
    observability::kafka_logger::{
        connection::{Broker, Settings, Tls},
        sasl::Credentials,
    },
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "kafka-proxy",
    version: 0.1,
    priority: 508,
    guards: false,
    schema: include_str!("kafka_proxy.json"),
    encrypt_fields: &["sasl.password"],
    phases: Phases::ACCESS,
    schemes: &["kafka"],
    build,
    ..PluginDef::DEFAULT
};

/// To connect to a broker, and for each of its answers, where the upstream has no `timeout`.
const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
struct KafkaProxy {
    sasl: Option<Sasl>,
}

#[derive(Clone, Deserialize)]
struct Sasl {
    username: String,
    password: String,
}

/// What the plugin leaves for the session.
struct Account(Sasl);

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<KafkaProxy>(conf)?))
}

impl Plugin for KafkaProxy {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(sasl) = &self.sasl {
            request.extensions.insert(Account(sasl.clone()));
        }
        Step::Next
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

/// Begins a session with the brokers of an upstream.
pub(crate) fn open(request: &Request, upstream: &Arc<UpstreamHandle>) -> Box<dyn Messages> {
    let credentials = request.extensions.get::<Account>().map(|Account(sasl)| Credentials {
        mechanism: "PLAIN".to_owned(),
        user: sasl.username.clone(),
        password: sasl.password.clone(),
    });
    let brokers = upstream.nodes.iter().map(|node| Broker {
        host: node.host.to_string(),
        port: node.port,
        address: node.address,
        credentials: credentials.clone(),
    });
    let client: IpAddr = request.remote_addr;
    let times = upstream.stream.as_ref().and_then(|stream| stream.timeouts);
    let settings = Settings {
        brokers: brokers.collect(),
        tls: upstream.tls.as_ref().map(|tls| Tls::Ready(tls.config.clone())),
        timeout: times.map_or(TIMEOUT, |times| Duration::from_millis(times.read_ms)),
        client: Some(client),
    };
    Box::new(Session { consumer: Arc::new(Mutex::new(Consumer::new(settings))) })
}

/// Brokers are asked on the control runtime: their names are looked up there, and records are not decoded on a worker.
struct Session {
    consumer: Arc<Mutex<Consumer>>,
}

/// Ends what it waits for when it is dropped.
struct Asked(JoinHandle<Option<Bytes>>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Messages for Session {
    fn answer(&mut self, message: Vec<u8>) -> Answering<'_> {
        let consumer = self.consumer.clone();
        Box::pin(async move {
            let background = &host()?.background;
            let asking = async move { commands::answer(&mut *consumer.lock().await, &message).await };
            let mut asked = Asked(background.spawn(asking));
            (&mut asked.0).await.ok().flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    #[test]
    fn the_account_goes_with_the_request() {
        let mut request = test_request::request("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let without = typed::<KafkaProxy>(&json!({})).expect("a configuration");
        let _ = without.access(&mut request);
        assert!(request.extensions.get::<Account>().is_none());
        let with = typed::<KafkaProxy>(&json!({"sasl": {"username": "u", "password": "p"}}));
        let _ = with.expect("a configuration").access(&mut request);
        let account = request.extensions.get::<Account>().expect("an account");
        assert_eq!((&*account.0.username, &*account.0.password), ("u", "p"));
    }
}
