//! error-log-logger: lines of the gateway's own error log, at each kind of receiver.

pub(super) mod broker;

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    sync::mpsc,
};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, PATIENCE, Upstream, free_port};

use self::broker::{Broker, SOON};
use super::{bodies, parsed, receiver, url, with};

const PLUGINS: &str = "plugins: [error-log-logger, serverless-pre-function]\n";

/// What the configuration has. A request for `/LEVEL/TEXT` logs the text.
fn objects(metadata: &Value) -> String {
    let logs = |level: &str| {
        let function = format!(
            "return function(conf, ctx) ngx.log(ngx.{level}, 'of ' .. ctx.var.uri) ngx.exit(204) end"
        );
        json!({
            "id": level, "uri": format!("/{level}/*"),
            "plugins": {"serverless-pre-function": {"functions": [function]}},
        })
    };
    let mut objects = json!({"routes": [logs("WARN"), logs("ERR"), logs("NOTICE")]});
    if !metadata.is_null() {
        let metadata = with(json!({"id": "error-log-logger", "batch_max_size": 1}), metadata.clone());
        objects["plugin_metadata"] = json!([metadata]);
    }
    objects.to_string()
}

fn start(metadata: &Value) -> Gateway {
    Gateway::start(&format!("{YAML_PROVIDER}{PLUGINS}"), Some(&objects(metadata)))
}

fn log(gateway: &Gateway, path: &str) {
    assert_eq!(gateway.client().get("h", path).expect("an answer").status(), 204, "{path}");
}

/// A TCP server that passes on lines with the number of their connection.
struct Lines {
    address: SocketAddr,
    lines: mpsc::Receiver<(usize, String)>,
}

impl Lines {
    fn start() -> Lines {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        let _ = sender.send((number, line));
                    }
                });
            }
        });
        Lines { address, lines }
    }

    /// The next line with this text, and the number of its connection; others are about other things.
    fn wait_for(&self, text: &str) -> (usize, String) {
        loop {
            let (number, line) = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no {text}"));
            if line.contains(text) {
                return (number, line);
            }
        }
    }

    /// Whether a line with this text is there already.
    fn has(&self, text: &str) -> bool {
        self.lines.try_iter().any(|(_, line)| line.contains(text))
    }

    fn tcp(&self) -> Value {
        json!({"host": "127.0.0.1", "port": self.address.port()})
    }
}

#[test]
fn lines_over_tcp() {
    let sink = Lines::start();
    let gateway = start(&json!({"tcp": sink.tcp()}));
    log(&gateway, "/NOTICE/1");
    log(&gateway, "/WARN/2");
    let (first, line) = sink.wait_for("of /");
    assert!(line.contains(" [warn] ") && line.contains("of /WARN/2"), "{line}");
    gateway.wait_for_log(&line);
    log(&gateway, "/ERR/3");
    let (second, line) = sink.wait_for("of /ERR/3");
    assert!(line.contains(" [error] "), "{line}");
    assert_eq!(first, second, "the connection is kept");
}

#[test]
fn only_lines_of_the_level() {
    let sink = Lines::start();
    let gateway = start(&json!({"tcp": sink.tcp(), "level": "ERROR"}));
    log(&gateway, "/WARN/1");
    log(&gateway, "/ERR/2");
    let (_, line) = sink.wait_for("of /");
    assert!(line.contains("of /ERR/2"), "{line}");
}

#[test]
fn metadata_are_followed() {
    let sinks = [Lines::start(), Lines::start()];
    let gateway = start(&Value::Null);
    log(&gateway, "/ERR/1");
    gateway.write_routes(&objects(&json!({"tcp": sinks[0].tcp()})));
    let mut first = None;
    tidegate_testkit::eventually("lines are sent", || {
        log(&gateway, "/ERR/2");
        first = sinks[0].lines.try_iter().find(|(_, line)| line.contains("of /"));
        first.is_some()
    });
    assert!(first.is_some_and(|(_, line)| line.contains("of /ERR/2")), "lines before are not sent");
    // The form of APISIX before 2.13.
    gateway.write_routes(&objects(&sinks[1].tcp()));
    tidegate_testkit::eventually("they go elsewhere", || {
        log(&gateway, "/ERR/3");
        sinks[1].has("of /ERR/3")
    });
    log(&gateway, "/ERR/4");
    sinks[1].wait_for("of /ERR/4");
    assert!(!sinks[0].has("of /ERR/4"));
}

#[test]
fn rows_for_clickhouse() {
    let sink = receiver();
    let clickhouse = json!({
        "endpoint_addr": url(&sink), "user": "u", "password": "p", "database": "d", "logtable": "t",
    });
    let gateway = start(&json!({"clickhouse": clickhouse}));
    log(&gateway, "/ERR/1");
    let wanted = "of /ERR/1";
    tidegate_testkit::eventually("a row", || bodies(&sink.seen()).iter().any(|body| body.contains(wanted)));
    let seen = sink.seen();
    let message = &seen.iter().find(|seen| seen.text().contains(wanted)).expect("a row").message;
    let headers = ["User", "Key", "Database"].map(|name| message.header(&format!("X-ClickHouse-{name}")));
    assert_eq!(headers, [Some("u"), Some("p"), Some("d")]);
    let body = message.body_text();
    let row = parsed(body.strip_prefix("INSERT INTO t FORMAT JSONEachRow ").expect("a statement"));
    assert!(row["data"].as_str().is_some_and(|line| line.contains(" [error] ")), "{row}");
}

#[test]
fn records_for_skywalking() {
    let sink = receiver();
    let skywalking = json!({"endpoint_addr": url(&sink) + "/v3/logs", "service_instance_name": "$hostname"});
    let gateway = start(&json!({"skywalking": skywalking}));
    log(&gateway, "/ERR/1");
    let wanted = "of /ERR/1";
    tidegate_testkit::eventually("a record", || {
        bodies(&sink.seen()).iter().any(|body| body.contains(wanted))
    });
    let seen = sink.seen();
    let message = &seen.iter().find(|seen| seen.text().contains(wanted)).expect("a record").message;
    assert_eq!(message.start_line, "POST /v3/logs HTTP/1.1");
    let record = parsed(&message.body_text())[0].clone();
    assert_eq!((&record["service"], &record["endpoint"]), (&json!("APISIX"), &json!("")));
    assert!(record["serviceInstance"].as_str().is_some_and(|name| !name.is_empty() && name != "$hostname"));
    assert!(record["body"]["text"]["text"].as_str().is_some_and(|line| line.contains(wanted)), "{record}");
}

#[test]
fn messages_for_kafka() {
    let broker = Broker::start();
    let brokers = json!([{
        "host": "127.0.0.1", "port": broker.address.port(), "sasl_config": {"user": "u", "password": "p"},
    }]);
    let gateway = start(&json!({"kafka": {"brokers": brokers, "kafka_topic": "errors", "key": "k"}}));
    log(&gateway, "/ERR/1");
    let value = loop {
        let message = broker.message();
        assert_eq!((message.topic.as_str(), message.acks, message.key.as_deref()), ("errors", 1, Some("k")));
        if message.value.contains("of /ERR/1") {
            break message.value;
        }
    };
    assert!(
        parsed(&value).as_str().is_some_and(|line| line.contains(" [error] ")),
        "a text of JSON: {value}"
    );
    assert_eq!(broker.login(), "\0u\0p");
}

/// With the first line, and with the first one after that time.
#[test]
fn leaders_are_looked_up_again() {
    let broker = Broker::start();
    let brokers = json!([{"host": "127.0.0.1", "port": broker.address.port()}]);
    let kafka = json!({"brokers": brokers, "kafka_topic": "errors", "meta_refresh_interval": 1});
    let gateway = start(&json!({ "kafka": kafka }));
    tidegate_testkit::eventually_within(SOON, "leaders are looked up again", || {
        // Not all are sent: lines of one place are limited.
        log(&gateway, "/ERR/1");
        broker.asked() >= 2
    });
}

/// Why lines do not arrive is in the log, and is not among the lines that arrive later.
#[test]
fn failures_are_not_sent() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let sink = Upstream::service(move |_| match turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => (500, String::new()),
        _ => (200, String::new()),
    });
    let gateway = start(&json!({"skywalking": {"endpoint_addr": url(&sink)}}));
    log(&gateway, "/ERR/1");
    gateway.wait_for_log(
        "Batch Processor[error-log-logger] failed to process entries: server returned status code[500]",
    );
    log(&gateway, "/ERR/2");
    tidegate_testkit::eventually("a record", || {
        bodies(&sink.seen()).iter().any(|body| body.contains("of /ERR/2"))
    });
    assert!(bodies(&sink.seen()).iter().all(|body| !body.contains("Batch Processor")));
}

/// A route that passes the deliveries on logs a line for each: in a phase, as it ends, and where the receiver is away.
#[test]
fn lines_about_deliveries_are_not_sent() {
    let sink = receiver();
    let says = |phase: &str| {
        let function = format!("return function(conf, ctx) ngx.log(ngx.ERR, 'delivery in {phase}') end");
        json!({"phase": phase, "functions": [function]})
    };
    let passes_on = json!({
        "id": "passes-on", "uri": "/collect",
        "plugins": {"serverless-pre-function": says("access"), "serverless-post-function": says("log")},
        "upstream": {"type": "roundrobin", "nodes": {
            format!("127.0.0.1:{}", free_port()): 1, sink.address.to_string(): 1,
        }},
    });
    let own = json!({"skywalking": {"endpoint_addr": "http://127.0.0.1:@HTTP@/collect"}});
    let mut objects = parsed(&objects(&own));
    objects["routes"].as_array_mut().expect("a list").push(passes_on);
    let plugins =
        PLUGINS.replace("serverless-pre-function", "serverless-pre-function, serverless-post-function");
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}{plugins}"), Some(&objects.to_string()));
    for text in ["of /ERR/1", "of /ERR/2", "of /ERR/3"] {
        log(&gateway, text.trim_start_matches("of "));
        tidegate_testkit::eventually(text, || bodies(&sink.seen()).iter().any(|body| body.contains(text)));
    }
    for line in ["delivery in access", "delivery in log", "connect to upstream failed"] {
        gateway.wait_for_log(line);
        assert!(bodies(&sink.seen()).iter().all(|body| !body.contains(line)), "{line}");
    }
}

#[test]
fn what_has_no_receiver_is_refused() {
    let gateway = Gateway::start(&format!("{}{PLUGINS}", tidegate_testkit::gateway::EMBEDDED), None);
    let put = |metadata: Value| {
        gateway.admin("PUT", "/apisix/admin/plugin_metadata/error-log-logger", &metadata.to_string())
    };
    for metadata in [
        json!({}),
        json!({"tcp": {"host": "a.test"}}),
        json!({"tcp": {"host": "a.test", "port": 70_000}}),
        json!({"tcp": {"host": "a.test", "port": 1}, "skywalking": {}}),
        json!({"skywalking": {"endpoint_addr": "a.test"}}),
        json!({"tcp": {"host": "a.test", "port": 1}, "level": "LOUD"}),
    ] {
        assert_eq!(put(metadata.clone()).0, 400, "{metadata}");
    }
    let port = free_port();
    let (status, body) = put(json!({"tcp": {"host": "127.0.0.1", "port": port}}));
    assert_eq!(status, 201, "{body}");
}

#[test]
fn a_topic_without_a_name_is_refused() {
    let config = format!("{}{PLUGINS}", tidegate_testkit::gateway::EMBEDDED);
    let gateway = Gateway::start(&config, None);
    let metadata = json!({"kafka": {"brokers": [{"host": "127.0.0.1", "port": 1}], "kafka_topic": ""}});
    let target = "/apisix/admin/plugin_metadata/error-log-logger";
    let (status, text) = gateway.admin("PUT", target, &metadata.to_string());
    assert!(status == 400 && text.contains("kafka.kafka_topic"), "{status} {text}");
}
