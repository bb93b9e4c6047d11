//! A batch of requests keeps nobody else waiting, however large it or its answers are.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::{assert_done_in_pieces, longest_piece};
use tidegate_testkit::{Client, Gateway};

const PLUGINS: &str = "plugins: [public-api, batch-requests, mocking]\n";

fn gateway() -> Gateway {
    let mocked = |id: &str, status: u16, body: &str| {
        json!({"id": id, "uri": format!("/{id}"), "plugins": {"mocking":
            {"response_status": status, "response_example": body, "with_mock_header": false}}})
    };
    let routes = json!({"routes": [
        {"id": "batch", "uri": "/apisix/batch-requests", "plugins": {"public-api": {}}},
        mocked("quick", 204, ""),
        mocked("small", 200, "small"),
        mocked("large", 200, &"x".repeat(1 << 20)),
        mocked("escaped", 200, &"\u{1}".repeat(1 << 20)),
    ], "plugin_metadata": [{"id": "batch-requests", "max_body_size": 64 << 20}]});
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  body_memory: {total: 4g}\n");
    Gateway::start(&(config + PLUGINS), Some(&routes.to_string()))
}

fn post(gateway: &Gateway, body: &str) -> (u16, String) {
    let mut client = gateway.client();
    let length = body.len();
    let head = format!("POST /apisix/batch-requests HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n");
    client.send(head.as_bytes()).expect("sends the head");
    client.send(body.as_bytes()).expect("sends the body");
    let answer = client.response().expect("an answer");
    (answer.status(), answer.body_text())
}

fn many(count: usize, item: &Value) -> Vec<Value> {
    vec![item.clone(); count]
}

#[test]
fn large_batches_are_done_in_pieces() {
    let gateway = gateway();
    let headers =
        |count: usize| (0..count).map(|n| (format!("x-{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let query =
        |count: usize| (0..count).map(|n| (format!("q{n}"), json!("v"))).collect::<serde_json::Map<_, _>>();
    let item = json!({"path": "/small"});
    let cases: Vec<(&str, Value, usize, u64)> = vec![
        ("many", json!({"pipeline": many(1000, &item)}), 1000, 200),
        ("common headers", json!({"headers": headers(30_000), "pipeline": many(200, &item)}), 200, 431),
        ("own headers", json!({"pipeline": [{"path": "/small", "headers": headers(100_000)}]}), 1, 431),
        (
            "long lists",
            json!({"pipeline": [{"path": "/small", "headers": {"x": many(80_000, &json!("v"))}}]}),
            1,
            431,
        ),
        ("common query", json!({"query": query(50_000), "pipeline": many(200, &item)}), 200, 431),
        ("long path", json!({"pipeline": [{"path": "/".repeat(4 << 20)}]}), 1, 431),
        ("large answers", json!({"pipeline": many(30, &json!({"path": "/large"}))}), 30, 200),
        ("escaped answers", json!({"pipeline": many(3, &json!({"path": "/escaped"}))}), 3, 200),
    ];
    for (what, batch, count, status) in cases {
        let started = Instant::now();
        let (got, text) = post(&gateway, &batch.to_string());
        assert_eq!(got, 200, "{what}: {text:.300}");
        let answers: Vec<Value> = serde_json::from_str(&text).expect("a list of answers");
        assert_eq!(answers.len(), count, "{what}");
        for answer in &answers {
            assert_eq!(answer["status"], status, "{what}: {answer:.300}");
        }
        println!("{what}: {:?}, longest piece so far {:?}", started.elapsed(), longest_piece(&gateway));
    }
    assert_done_in_pieces(&gateway);
}

/// Others have their turn between the requests of a batch.
#[test]
fn others_go_on_during_a_batch() {
    let gateway = gateway();
    let batch = json!({"pipeline": many(1000, &json!({"path": "/small"}))}).to_string();
    let (answered, others) = thread::scope(|scope| {
        let batch = scope.spawn(|| post(&gateway, &batch));
        let mut client = gateway.client();
        let mut others = 0;
        while !batch.is_finished() {
            assert_eq!(quick(&mut client), 204);
            others += 1;
        }
        (batch.join().expect("an answer"), others)
    });
    assert_eq!(answered.0, 200);
    assert!(others > 20, "{others} requests were answered during the batch");
}

fn quick(client: &mut Client) -> u16 {
    client.send(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    client.response().expect("an answer").status()
}

/// An upstream that sends a byte now and then, for ever.
fn dripping() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            thread::spawn(move || {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
                let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
                // The request, then silence, then the end: each read is the pause before the next byte.
                while stream.write_all(b"x").is_ok() && !matches!(stream.read(&mut [0; 4096]), Ok(0)) {}
            });
        }
    });
    address
}

#[test]
fn an_answer_that_drips_ends() {
    let routes = json!({"routes": [
        {"id": "batch", "uri": "/apisix/batch-requests", "plugins": {"public-api": {}}},
        {"id": "drip", "uri": "/drip", "upstream": {"type": "roundrobin", "nodes": {dripping().to_string(): 1}}},
        {"id": "quick", "uri": "/quick", "plugins": {"mocking": {"response_status": 204, "response_example": ""}}},
    ]});
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}{PLUGINS}"), Some(&routes.to_string()));
    let pipeline = json!([{"path": "/drip"}, {"path": "/quick"}]);
    let (status, text) = post(&gateway, &json!({"timeout": 500, "pipeline": pipeline}).to_string());
    assert_eq!(status, 200, "{text}");
    let answers: Vec<Value> = serde_json::from_str(&text).expect("a list of answers");
    let statuses: Vec<_> = answers.iter().map(|answer| answer["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(504), Some(204)]);
}
