//! What loggers have alike: entries, their formats and bodies, batches, and what becomes of those that cannot be delivered.
//!
//! One table, so that tests/schema-fields.txt finds a test for each of these fields at each logger.

mod receiver;

use std::net::SocketAddr;
use std::sync::LazyLock;

use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream, eventually};

use super::with;
use receiver::Receiver;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Http,
    /// Over HTTP, as Tencent's service has entries.
    Protobuf,
    Tcp,
    Tls,
    Udp,
    Kafka,
    RocketMq,
    File,
}

struct Logger {
    name: &'static str,
    way: Way,
    /// It has fields about bodies.
    has_bodies: bool,
    /// It has formats of entries.
    has_formats: bool,
    conf: fn(SocketAddr) -> Value,
    /// Of the plugin.
    metadata: fn(SocketAddr) -> Value,
}

const fn logger(name: &'static str, way: Way, conf: fn(SocketAddr) -> Value) -> Logger {
    Logger { name, way, has_bodies: true, has_formats: true, conf, metadata: |_| json!({}) }
}

/// Of an account at Google.
static KEY: LazyLock<String> = LazyLock::new(|| {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key").serialize_pem()
});

static LOGGERS: [Logger; 17] = [
    logger("http-logger", Way::Http, |at| json!({"uri": format!("http://{at}/")})),
    Logger {
        has_bodies: false,
        ..logger(
            "splunk-hec-logging",
            Way::Http,
            |at| json!({"endpoint": {"uri": format!("http://{at}/"), "token": "t"}}),
        )
    },
    logger("loki-logger", Way::Http, |at| json!({"endpoint_addrs": [format!("http://{at}")]})),
    logger(
        "elasticsearch-logger",
        Way::Http,
        |at| json!({"endpoint_addr": format!("http://{at}"), "field": {"index": "i"}}),
    ),
    logger(
        "clickhouse-logger",
        Way::Http,
        |at| json!({"endpoint_addr": format!("http://{at}"), "user": "u", "password": "p", "database": "d", "logtable": "t"}),
    ),
    logger("skywalking-logger", Way::Http, |at| json!({"endpoint_addr": format!("http://{at}")})),
    logger("tcp-logger", Way::Tcp, |at| json!({"host": "127.0.0.1", "port": at.port()})),
    logger("udp-logger", Way::Udp, |at| json!({"host": "127.0.0.1", "port": at.port()})),
    logger("syslog", Way::Tcp, |at| json!({"host": "127.0.0.1", "port": at.port(), "flush_limit": 1})),
    logger(
        "kafka-logger",
        Way::Kafka,
        |at| json!({"brokers": [{"host": "127.0.0.1", "port": at.port()}], "kafka_topic": "errors"}),
    ),
    logger("sls-logger", Way::Tls, |at| {
        json!({"host": "127.0.0.1", "port": at.port(), "project": "p", "logstore": "l", "access_key_id": "i",
            "access_key_secret": "s", "ssl_verify": false})
    }),
    logger(
        "tencent-cloud-cls",
        Way::Protobuf,
        |at| json!({"cls_host": at.to_string(), "cls_topic": "t", "scheme": "http", "secret_id": "i", "secret_key": "k"}),
    ),
    logger("rocketmq-logger", Way::RocketMq, |at| json!({"nameserver_list": [at.to_string()], "topic": "t"})),
    Logger {
        metadata: |at| json!({"host": at.to_string(), "protocol": "http"}),
        ..logger("loggly", Way::Http, |_| json!({"customer_token": "t"}))
    },
    Logger {
        has_bodies: false,
        ..logger("google-cloud-logging", Way::Http, |at| {
            json!({"auth_config": {"client_email": "a@test", "private_key": *KEY, "project_id": "p",
                "token_uri": format!("http://{at}/token"), "entries_uri": format!("http://{at}/write")}})
        })
    },
    Logger {
        has_bodies: false,
        has_formats: false,
        ..logger("lago", Way::Http, |at| {
            json!({"endpoint_addrs": [format!("http://{at}")], "token": "t", "event_transaction_id": "${arg_id}",
                "event_subscription_id": "s", "event_code": "c"})
        })
    },
    logger("file-logger", Way::File, |at| json!({"path": format!("logs/entries-{}.log", at.port())})),
];

/// A gateway with a route per logger and path.
struct Scene {
    gateway: Gateway,
    receivers: Vec<Receiver>,
    _upstream: Upstream,
}

/// `routes`: the end of a path, and what the loggers have there besides their addresses.
fn scene(routes: &dyn Fn(&Logger) -> Vec<(&'static str, Value)>, metadata: &Value) -> Scene {
    let upstream = Upstream::service(|_| (200, "zyxwvutsrq".to_owned()));
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let (mut objects, mut receivers, mut all_metadata) = (Vec::new(), Vec::new(), Vec::new());
    for logger in &LOGGERS {
        let receiver = Receiver::start(logger.way);
        for (end, more) in routes(logger) {
            let conf = with((logger.conf)(receiver.address), more);
            objects.push(
                json!({"id": format!("{}-{end}", logger.name), "uri": format!("/{}/{end}", logger.name),
                "plugins": {logger.name: conf}, "upstream": target}),
            );
        }
        let own = with((logger.metadata)(receiver.address), metadata.clone());
        if own != json!({}) {
            all_metadata.push(with(json!({"id": logger.name}), own));
        }
        receivers.push(receiver);
    }
    let objects = json!({"routes": objects, "plugin_metadata": all_metadata}).to_string();
    Scene { gateway: Gateway::start(YAML_PROVIDER, Some(&objects)), receivers, _upstream: upstream }
}

impl Scene {
    fn send(&self, target: &str) {
        let text = format!("POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nABCDEFGHIJ");
        let answer = self.gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"));
        assert_eq!(answer.status(), 200, "{target}");
    }

    fn each(&self) -> impl Iterator<Item = (&Logger, &Receiver)> {
        LOGGERS.iter().zip(&self.receivers)
    }

    fn wait_for(&self, logger: &Logger, receiver: &Receiver, wanted: &str) -> String {
        eventually(format!("{}: {wanted}", logger.name), || {
            receiver.text(self.gateway.prefix()).contains(wanted)
        });
        receiver.text(self.gateway.prefix())
    }
}

/// file-logger has no batches.
fn one_by_one(logger: &Logger) -> Value {
    if logger.way == Way::File { json!({}) } else { json!({"batch_max_size": 1}) }
}

#[test]
fn entries_have_the_bodies_and_fields_that_are_asked_for() {
    let routes = |logger: &Logger| {
        let mut conf = with(one_by_one(logger), json!({"log_format_extra": {"extra": "$arg_id"}}));
        if logger.has_bodies {
            let bodies = json!({
                "include_req_body": true, "include_req_body_expr": [["arg_req", "==", "1"]], "max_req_body_bytes": 5,
                "include_resp_body": true, "include_resp_body_expr": [["arg_resp", "==", "1"]], "max_resp_body_bytes": 6
            });
            conf = with(conf, bodies);
        }
        vec![("own", conf), ("format", with(one_by_one(logger), json!({"log_format": {"mark": "$arg_id"}})))]
    };
    let scene = scene(&routes, &json!({}));
    for (logger, receiver) in scene.each().filter(|(logger, _)| logger.has_formats) {
        let name = logger.name;
        scene.send(&format!("/{name}/own?id=x-1&req=1"));
        let text = scene.wait_for(logger, receiver, r#""extra":"x-1""#);
        assert!(!logger.has_bodies || text.contains("ABCDE"), "{name}: {text}");
        assert!(!text.contains("ABCDEF") && !text.contains("zyxwv"), "{name}: {text}");
        scene.send(&format!("/{name}/own?id=x-2&resp=1"));
        let text = scene.wait_for(logger, receiver, r#""extra":"x-2""#);
        assert_eq!(text.matches("ABCDE").count(), usize::from(logger.has_bodies), "{name}: {text}");
        assert_eq!(text.matches("zyxwvu").count(), usize::from(logger.has_bodies), "{name}: {text}");
        assert!(!text.contains("zyxwvut"), "{name}: {text}");
        scene.send(&format!("/{name}/format?id=y-3"));
        let text = scene.wait_for(logger, receiver, r#""mark":"y-3""#);
        assert!(!text.contains("/format?"), "{name}: the format is all that an entry has: {text}");
    }
}

#[test]
fn metadata_have_formats_for_all() {
    for (metadata, mark) in [
        (json!({"log_format": {"mark": "$arg_id"}}), r#""mark":"m-1""#),
        (json!({"log_format_extra": {"extra": "$arg_id"}}), r#""extra":"m-1""#),
    ] {
        let scene = scene(&|logger| vec![("x", one_by_one(logger))], &metadata);
        for (logger, receiver) in scene.each().filter(|(logger, _)| logger.has_formats) {
            scene.send(&format!("/{}/x?id=m-1", logger.name));
            scene.wait_for(logger, receiver, mark);
        }
    }
}

/// Batches are sent when they are full, when nothing more comes, or when they are old.
#[test]
fn batches_end_as_configured() {
    let marked = json!({"log_format": {"mark": "$arg_id"}});
    let conf = |size: u32, idle: u32, oldest: u32| json!({"batch_max_size": size, "inactive_timeout": idle, "buffer_duration": oldest});
    let routes = |logger: &Logger| match logger.way {
        Way::File => Vec::new(),
        _ => [("full", conf(3, 600, 600)), ("idle", conf(1000, 1, 600)), ("old", conf(1000, 600, 1))]
            .map(|(end, conf)| (end, if logger.has_formats { with(conf, marked.clone()) } else { conf }))
            .to_vec(),
    };
    let scene = scene(&routes, &json!({}));
    for (logger, receiver) in scene.each().filter(|(logger, _)| logger.way != Way::File) {
        let name = logger.name;
        for number in 1..=2 {
            scene.send(&format!("/{name}/full?id=z-{number}"));
        }
        scene.send(&format!("/{name}/idle?id=z-idle"));
        scene.send(&format!("/{name}/old?id=z-old"));
        scene.wait_for(logger, receiver, "z-idle");
        let text = scene.wait_for(logger, receiver, "z-old");
        assert!(!text.contains("z-1"), "{name}: {text}");
        scene.send(&format!("/{name}/full?id=z-3"));
        let text = scene.wait_for(logger, receiver, "z-3");
        assert!(text.contains("z-1") && text.contains("z-2"), "{name}: {text}");
    }
}

/// The address of a port at which nobody listens.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], tidegate_testkit::free_port()))
}

#[test]
fn batches_that_nobody_takes_are_tried_again_and_dropped() {
    let loggers = || LOGGERS.iter().filter(|logger| logger.way != Way::File);
    let (mut routes, mut all_metadata) = (Vec::new(), Vec::new());
    for logger in loggers() {
        let own = json!({"batch_max_size": 1, "name": format!("own-{}", logger.name), "max_retry_count": 2, "retry_delay": 0});
        let mut conf = with((logger.conf)(nobody()), own);
        if logger.way == Way::Udp {
            // The system refuses to send there.
            conf["host"] = json!("255.255.255.255");
        }
        routes.push(json!({"id": logger.name, "uri": format!("/{}", logger.name),
            "plugins": {"mocking": {"response_example": "x"}, logger.name: conf}}));
        let metadata = (logger.metadata)(nobody());
        if metadata != json!({}) {
            all_metadata.push(with(json!({"id": logger.name}), metadata));
        }
    }
    let objects = json!({"routes": routes, "plugin_metadata": all_metadata}).to_string();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects));
    for logger in loggers() {
        assert_eq!(
            gateway.client().get("a.test", &format!("/{}", logger.name)).expect("an answer").status(),
            200
        );
    }
    for logger in loggers() {
        let name = logger.name;
        gateway.wait_for_log(&format!(
            "Batch Processor[own-{name}] exceeded the max_retry_count[3] dropping the entries"
        ));
    }
}
