//! Loggers whose receivers have protocols of their own: what arrives there.

mod alike;
mod clickhouse;
mod datadog;
mod delivered;
mod error_log;
mod files;
mod google;
mod kafka_logger;
mod kept;
mod lago;
mod loggly;
mod rocketmq;
mod sink_down;
mod skywalking;
mod skywalking_tracer;
mod sls;
mod splunk;
mod tencent;

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Map, Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Seen, Upstream};

/// A gateway whose routes all have one logger, which sends each entry on its own.
struct Logged {
    gateway: Gateway,
    /// Echoes requests; `/status/N` answers N.
    _upstream: Upstream,
}

impl Logged {
    /// With `metadata: null` the logger has none.
    fn start(logger: &str, conf: Value, metadata: Value) -> Logged {
        let upstream = Upstream::start();
        let conf = with(json!({"batch_max_size": 1}), conf);
        let mut objects = json!({
            "routes": [{
                "id": "r1", "name": "route-1", "uri": "/*", "service_id": "s1", "plugins": {logger: conf},
            }],
            "services": [{
                "id": "s1", "name": "service-1",
                "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
            }],
        });
        if !metadata.is_null() {
            objects["plugin_metadata"] = json!([with(json!({"id": logger}), metadata)]);
        }
        Logged { gateway: Gateway::start(YAML_PROVIDER, Some(&objects.to_string())), _upstream: upstream }
    }

    fn get(&self, path: &str) -> u16 {
        self.gateway.client().get("a.test", path).expect("an answer").status()
    }

    fn post(&self, path: &str, fields: &str, body: &str) -> u16 {
        let mut client = self.gateway.client();
        let length = body.len();
        let text =
            format!("POST {path} HTTP/1.1\r\nHost: a.test\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
        client.send(text.as_bytes()).expect("sends");
        client.response().expect("an answer").status()
    }
}

/// Members of the second object over those of the first.
fn with(base: Value, more: Value) -> Value {
    let fields = |value| match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is an object"),
    };
    fields(base).into_iter().chain(fields(more)).collect::<Map<_, _>>().into()
}

/// A receiver that answers all with 200.
fn receiver() -> Upstream {
    Upstream::service(|_: &Message| (200, String::new()))
}

fn url(receiver: &Upstream) -> String {
    format!("http://{}", receiver.address)
}

/// The only request that has come, or will.
fn only(receiver: &Upstream) -> Message {
    receiver.wait_for(1).remove(0).message
}

fn bodies(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| seen.message.body_text()).collect()
}

/// Of a TLS server with a certificate of its own.
pub(super) fn tls_config() -> Arc<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder().with_no_client_auth();
    Arc::new(config.with_single_cert(vec![made.cert.der().clone()], key).expect("a configuration"))
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
