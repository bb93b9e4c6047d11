//! The Simple Log Service of Alibaba Cloud: RFC 5424 over TLS.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    sync::mpsc,
    time::Duration,
};

use rustls::{ServerConnection, StreamOwned};
use serde_json::{Value, json};
use tidegate_testkit::PATIENCE;

use super::{Logged, parsed, tls_config};

/// A TLS server with a certificate of its own that passes on what it gets, line by line.
struct Sink {
    address: SocketAddr,
    lines: mpsc::Receiver<String>,
}

impl Sink {
    fn start() -> Sink {
        let config = tls_config();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                let connection = ServerConnection::new(config.clone()).expect("a connection");
                let reader = BufReader::new(StreamOwned::new(connection, stream));
                for line in reader.lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }
        });
        Sink { address, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a message")
    }
}

fn conf(sink: &Sink, verify: bool) -> Value {
    json!({
        "host": "127.0.0.1", "port": sink.address.port(), "project": "p", "logstore": "l", "access_key_id": "id",
        "access_key_secret": "se]cret", "ssl_verify": verify, "batch_max_size": 2, "include_req_body": true,
    })
}

#[test]
fn messages_over_tls() {
    let sink = Sink::start();
    let logged = Logged::start("sls-logger", conf(&sink, false), Value::Null);
    logged.post("/1", "", "question");
    logged.get("/2");
    for uri in ["/1", "/2"] {
        let line = sink.line();
        let (head, entry) = line.split_once("] ").expect("an entry");
        let parts: Vec<&str> = head.splitn(7, ' ').collect();
        let ["<46>1", time, "a.test", "apisix", process, "-", data] = parts[..] else { panic!("{line}") };
        assert!(time.ends_with('Z') && process.parse::<u32>().is_ok(), "{line}");
        let expected =
            r#"[logservice project="p" logstore="l" access-key-id="id" access-key-secret="se\]cret""#;
        assert_eq!(data, expected);
        let entry = parsed(entry);
        assert_eq!((&entry["request"]["uri"], &entry["route_id"]), (&json!(uri), &json!("r1")));
        if uri == "/1" {
            assert_eq!(entry["request"]["body"], "question");
        }
    }
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let sink = Sink::start();
    let logged = Logged::start("sls-logger", conf(&sink, true), Value::Null);
    logged.get("/1");
    logged.get("/2");
    logged.gateway.wait_for_log("failed to perform TLS handshake to TCP server: host[127.0.0.1]");
    assert!(sink.lines.recv_timeout(Duration::ZERO).is_err());
}
