//! Clients that ask for much and take nothing: what the gateway holds for them is small for each, and bounded for all.

use std::fs;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, WINDOW_UPDATE, frame, request};
use tidegate_testkit::servers::Server;
use tidegate_testkit::usage::status_bytes;
use tidegate_testkit::{Client, Gateway, Http2Client, PATIENCE, servers};

const INITIAL_WINDOW_SIZE: u16 = 4;
const KILOBYTE: u64 = 1 << 10;

/// Answers `/big` with 10 MB.
fn big_files() -> Server {
    let upstream = servers::nginx("root html; location = /ok { return 200 ok; }");
    fs::create_dir_all(upstream.folder().join("html")).expect("a folder");
    fs::write(upstream.folder().join("html/big"), vec![b'b'; 10_000_000]).expect("a file");
    upstream
}

fn gateway(upstream: &Server, apisix: &str, http: &str) -> Gateway {
    let config = YAML_PROVIDER
        .replacen("apisix:\n", &format!("apisix:\n{apisix}"), 1)
        .replace("enable_access_log: false", &format!("enable_access_log: false, {http}"));
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    let gateway = Gateway::start(&config, Some(&routes));
    for _ in 0..100 {
        assert_eq!(gateway.client().get("h", "/ok").expect("an answer").status(), 200);
    }
    gateway
}

/// Opens this many requests on a connection whose window lets nothing through, and waits for all their heads.
fn asks(gateway: &Gateway, streams: u32, window: u32) -> Http2Client {
    let mut client = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, window)]).expect("connects");
    client.send_raw(&requests(streams)).expect("sends");
    for _ in 0..streams {
        client.wait_for(HEADERS).expect("a head");
    }
    client
}

/// The bytes that ask for it on so many streams.
fn requests(streams: u32) -> Vec<u8> {
    let head = request("GET", "/big", &[]);
    (0..streams).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &head)).collect()
}

/// What the process holds once it has stopped changing.
fn settled(gateway: &Gateway) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    let (mut last, mut same) = (0, 0);
    while same < 5 {
        assert!(Instant::now() < deadline, "it keeps growing");
        // Answers of the same worker: time in which it does what is due.
        for _ in 0..100 {
            gateway.client().get("h", "/ok").expect("an answer");
        }
        let now = status_bytes(gateway, "VmRSS");
        same = if now.abs_diff(last) < 256 * KILOBYTE { same + 1 } else { 0 };
        last = now;
    }
    last
}

/// 2,000 streams, none of whose windows ever opens.
#[test]
fn streams_with_closed_windows_hold_little() {
    let upstream = big_files();
    let gateway = gateway(&upstream, "", "send_timeout: 60s");
    let before = settled(&gateway);
    let clients: Vec<Http2Client> = (0..20).map(|_| asks(&gateway, 100, 0)).collect();
    let each = (settled(&gateway) - before) / 2_000 / KILOBYTE;
    println!("{each} KB per stream");
    assert!(each <= 20, "{each} KB per stream");
    drop(clients);
}

/// All windows are open, and nobody reads: what is handed over for the socket is bounded for the connection.
#[test]
fn connections_that_nobody_reads_hold_little() {
    let upstream = big_files();
    let gateway = gateway(&upstream, "", "send_timeout: 60s");
    let before = settled(&gateway);
    let clients: Vec<Http2Client> = (0..10)
        .map(|_| {
            let mut client = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, i32::MAX as u32)])
                .expect("connects");
            let room = frame(WINDOW_UPDATE, 0, 0, &(i32::MAX as u32 - 65_535).to_be_bytes());
            client.send_raw(&[room, requests(100)].concat()).expect("sends");
            client.wait_for(HEADERS).expect("a head");
            client
        })
        .collect();
    let each = (settled(&gateway) - before) / 1_000 / KILOBYTE;
    println!("{each} KB per stream");
    assert!(each <= 48, "{each} KB per stream");
    drop(clients);
}

/// The same with HTTP/1, where a connection has one answer.
#[test]
fn readers_of_one_answer_hold_little() {
    let upstream = big_files();
    let gateway = gateway(&upstream, "", "send_timeout: 60s");
    let before = settled(&gateway);
    let clients: Vec<Client> = (0..300)
        .map(|_| {
            let mut client = gateway.client();
            client.send(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
            client
        })
        .collect();
    let each = (settled(&gateway) - before) / 300 / KILOBYTE;
    println!("{each} KB per connection");
    assert!(each <= 120, "{each} KB per connection");
    drop(clients);
}

/// A byte now and then keeps no memory once there is none left: such clients are ended, and others served.
#[test]
fn memory_that_is_spent_is_not_held_by_a_trickle() {
    let upstream = big_files();
    let memory = "  body_memory: {total: 1m, rate_window: 500ms}\n";
    let gateway = gateway(&upstream, memory, "send_timeout: 60s");
    let mut trickling = asks(&gateway, 4, 0);
    let clients: Vec<Client> = (0..60)
        .map(|_| {
            let mut client = gateway.client();
            client.send(b"GET /big HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
            client
        })
        .collect();
    gateway.wait_for_log("responses that clients do not read take more than 262144 bytes");
    let answer = gateway.client().get("h", "/big").expect("others are served");
    assert_eq!((answer.status(), answer.body.len()), (200, 10_000_000));
    let byte = |n: u32| frame(WINDOW_UPDATE, 0, 2 * n + 1, &1u32.to_be_bytes());
    let trickle: Vec<u8> = (0..4).flat_map(byte).collect();
    let mut writer = trickling.try_clone().expect("a second handle");
    let writing = std::thread::spawn(move || {
        // The pause is what is tested: a client that always takes something.
        while writer.send_raw(&trickle).is_ok() {
            std::thread::sleep(Duration::from_millis(200));
        }
    });
    let started = Instant::now();
    trickling.wait_for(RST_STREAM).expect("the end of a stream");
    println!("ended after {:?}", started.elapsed());
    drop((trickling, clients));
    drop(gateway);
    writing.join().expect("writes");
}

/// Files that the gateway reads itself.
#[test]
fn streams_of_files_hold_little() {
    let upstream = big_files();
    let root = upstream.folder().join("html");
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, plugins: {{static-files: {{root: \"{}\"}}}}}}\n",
        root.display()
    );
    fs::write(root.join("ok"), "ok").expect("a file");
    let config =
        YAML_PROVIDER.replace("enable_access_log: false", "enable_access_log: false, send_timeout: 60s");
    let gateway = Gateway::start(&config, Some(&routes));
    for _ in 0..100 {
        assert_eq!(gateway.client().get("h", "/ok").expect("an answer").status(), 200);
    }
    let before = settled(&gateway);
    let clients: Vec<Http2Client> = (0..10).map(|_| asks(&gateway, 100, 0)).collect();
    let each = (settled(&gateway) - before) / 1_000 / KILOBYTE;
    println!("{each} KB per stream");
    assert!(each <= 24, "{each} KB per stream");
    drop(clients);
}

/// A compressor holds 4 MB until its client has taken all: there are only as many as memory is meant for.
#[test]
fn compressors_have_a_total() {
    let upstream = servers::nginx("root html; types { text/html html; }");
    fs::create_dir_all(upstream.folder().join("html")).expect("a folder");
    let text: String = (0..1_000_000).map(|n: u32| format!("{} ", n.wrapping_mul(2_654_435_761))).collect();
    fs::write(upstream.folder().join("html/text.html"), text).expect("a file");
    for (plugin, coding, count, most, each_kb) in
        [("brotli", "br", 30, 4, 1_000), ("gzip", "gzip", 70, 36, 500)]
    {
        let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  body_memory: {total: 32m}\n", 1);
        let config = format!("{config}plugins: [{plugin}, prometheus]\n");
        let routes = format!(
            "routes:\n- {{id: 1, uri: /*, plugins: {{{plugin}: {{types: [text/html]}}}}, \
             upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
            upstream.address
        );
        let gateway = Gateway::start(&config, Some(&routes));
        let asks = |count: usize| {
            let mut clients: Vec<Client> = (0..count).map(|_| gateway.client()).collect();
            for client in &mut clients {
                let head = format!("GET /text.html HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {coding}\r\n\r\n");
                client.send(head.as_bytes()).expect("sends");
            }
            clients
        };
        drop(asks(1));
        let before = settled(&gateway);
        let mut clients = asks(count);
        for client in &mut clients {
            assert_eq!(client.exactly(12).expect("the start of an answer"), b"HTTP/1.1 200");
        }
        gateway.wait_for_log("a response is not compressed");
        let each = (settled(&gateway) - before) / count as u64 / KILOBYTE;
        let metrics = Client::connect(gateway.metrics).expect("connects");
        let page = { metrics }.get("m", "/apisix/prometheus/metrics").expect("a page").body_text();
        let name = "apisix_answers_not_compressed_total ";
        let left_out = page.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        println!("{plugin}: {left_out} of {count} as they are, {each} KB per connection");
        let left_out: usize = left_out.parse().expect("a number");
        assert!((count - most..count).contains(&left_out), "{left_out}");
        assert!(each <= each_kb, "{each} KB per connection");
        drop(clients);
        // Who comes later finds room again.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let head = asks(1).remove(0).exactly(300).expect("the start of an answer");
            if String::from_utf8_lossy(&head).contains(&format!("Content-Encoding: {coding}")) {
                break;
            }
            assert!(Instant::now() < deadline, "never compressed again");
        }
    }
}
