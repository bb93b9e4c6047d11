//! Bodies in log entries: a short answer that unfolds into a very long one takes no more memory than log entries may, and long
//! bodies are logged whole.

use std::io::Write;
use std::net::TcpListener;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Behaviour, Gateway, Step, Upstream};

const MEGABYTE: usize = 1 << 20;

/// Members of one megabyte each, which readers take for one text.
fn gzip_of(byte: u8, megabytes: usize) -> Vec<u8> {
    let mut member = GzEncoder::new(Vec::new(), Compression::best());
    member.write_all(&vec![byte; MEGABYTE]).expect("compresses");
    member.finish().expect("compresses").repeat(megabytes)
}

fn compressed(body: Vec<u8>) -> Upstream {
    Upstream::with(move |_| {
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", body.len());
        Behaviour { read_body: true, steps: vec![Step::Send([head.as_bytes(), &body].concat())] }
    })
}

fn start(upstream: &Upstream, plugins: &Value) -> Gateway {
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": plugins,
        "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
    }]});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

#[test]
fn an_answer_that_unfolds_takes_what_log_entries_may() {
    let upstream = compressed(gzip_of(b' ', 512));
    let receiver = TcpListener::bind("127.0.0.1:0").expect("a port");
    let uri = format!("http://{}/", receiver.local_addr().expect("an address"));
    let conf = json!({"uri": uri, "include_resp_body": true, "max_resp_body_bytes": 1_000_000_000});
    let gateway = start(&upstream, &json!({"http-logger": conf}));
    let (status, grown) = growth(&gateway, || {
        let status = gateway.client().get("h", "/").expect("an answer").status();
        gateway.wait_for_log("a response body is not logged: bodies kept for logs take too much memory");
        status
    });
    println!("512 MB in {} KB: +{} MB", gzip_of(b' ', 512).len() >> 10, grown >> 20);
    assert_eq!(status, 200);
    assert!(grown < 64 << 20, "+{} MB", grown >> 20);
    assert!(!gateway.error_log().contains("is stuck"), "no worker does it");
}

/// By each way that an entry is made and leaves.
#[test]
fn long_bodies_are_logged_whole() {
    let upstream = compressed(gzip_of(b'a', 2));
    let sink = Upstream::start();
    let file = tempfile::tempdir().expect("a folder");
    let path = file.path().join("entries");
    let both = |more: Value| {
        let mut conf = json!({
            "include_req_body": true, "include_resp_body": true,
            "max_req_body_bytes": MEGABYTE, "max_resp_body_bytes": 4 * MEGABYTE,
        });
        if let (Some(conf), Some(more)) = (conf.as_object_mut(), more.as_object()) {
            conf.extend(more.clone());
        }
        conf
    };
    let gateway = start(
        &upstream,
        &json!({
            "http-logger": both(json!({
                "uri": format!("http://{}/sink", sink.address), "batch_max_size": 1,
                "log_format": {"status": "$status", "in": {"a": ["$request_body", "x"]}, "out": "$resp_body"},
            })),
            "file-logger": both(json!({"path": path})),
        }),
    );
    let body = vec![b'q'; MEGABYTE + 1];
    let mut client = gateway.client();
    let head = format!("POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head.as_bytes()).expect("sends");
    client.send(&body).expect("sends");
    assert_eq!(client.response().expect("an answer").status(), 200);

    let delivered = sink.wait_for(1).remove(0).message.body_text();
    let entry: Value = serde_json::from_str(&delivered).expect("JSON");
    let length = |value: &Value, of: char| {
        let text = value.as_str().expect("a text");
        assert!(text.chars().all(|each| each == of), "{of}");
        text.len()
    };
    assert_eq!(length(&entry["in"]["a"][0], 'q'), MEGABYTE);
    assert_eq!((length(&entry["out"], 'a'), &entry["in"]["a"][1]), (2 * MEGABYTE, &json!("x")));

    let started = std::time::Instant::now();
    let line = loop {
        match std::fs::read_to_string(&path) {
            Ok(text) if text.ends_with('\n') => break text,
            _ => assert!(started.elapsed() < tidegate_testkit::PATIENCE, "a line in the file"),
        }
    };
    let entry: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(length(&entry["request"]["body"], 'q'), MEGABYTE);
    assert_eq!(length(&entry["response"]["body"], 'a'), 2 * MEGABYTE);
}
