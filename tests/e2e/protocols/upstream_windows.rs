//! Answers of an HTTP/2 upstream that nobody takes: what the gateway lets come of each is bounded, and the other answers on
//! the same connection go on.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use bytes::Bytes;
use h2::SendStream;
use http::Response;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, REFUSED_STREAM, RST_STREAM, frame, request};
use tidegate_testkit::{Client, Gateway, Http2Client, PATIENCE};
use tokio::net::{TcpListener, TcpStream};

use crate::protocols::grpc_peer::runtime;

const STREAMS: u32 = 100;
const STUCK_CLIENTS: u32 = 20;
const INITIAL_WINDOW_SIZE: u16 = 4;
const KILOBYTE: u64 = 1 << 10;

/// Answers `/endless` without end, and everything else with `ok`.
#[derive(Clone, Default)]
struct Counts {
    connections: Arc<AtomicUsize>,
    sent: Arc<AtomicU64>,
}

fn upstream() -> (SocketAddr, Counts) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("non-blocking");
    let address = listener.local_addr().expect("an address");
    let counts = Counts::default();
    let shared = counts.clone();
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, SeqCst);
                tokio::spawn(serve(stream, shared.sent.clone()));
            }
        });
    });
    (address, counts)
}

async fn serve(stream: TcpStream, sent: Arc<AtomicU64>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let Ok(mut body) = respond.send_response(Response::new(()), false) else { continue };
        if request.uri().path() == "/endless" {
            let sent = sent.clone();
            tokio::spawn(async move { flood(&mut body, &sent).await });
        } else {
            let _ = body.send_data(Bytes::from_static(b"ok"), true);
        }
    }
}

/// As much as the gateway has room for.
async fn flood(body: &mut SendStream<Bytes>, sent: &AtomicU64) {
    loop {
        body.reserve_capacity(16 << 10);
        let Some(Ok(room)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else {
            return;
        };
        sent.fetch_add(room as u64, SeqCst);
        if body.send_data(Bytes::from(vec![b'x'; room]), false).is_err() {
            return;
        }
    }
}

impl Counts {
    fn wait_for(&self, bytes: u64) {
        let started = Instant::now();
        while self.sent.load(SeqCst) < bytes {
            assert!(started.elapsed() < PATIENCE, "{} bytes sent", self.sent.load(SeqCst));
            std::thread::yield_now();
        }
    }
}

fn ask_for_endless(client: &mut Http2Client, numbers: Range<u32>) {
    let head = request("GET", "/endless", &[]);
    let all: Vec<u8> =
        numbers.flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &head)).collect();
    client.send_raw(&all).expect("sends");
}

fn wait_for_heads(client: &mut Http2Client, count: u32) {
    for _ in 0..count {
        client.wait_for(HEADERS).expect("a head");
    }
}

#[test]
fn answers_that_nobody_takes_hold_little_and_stop_nobody() {
    let (address, counts) = upstream();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{address}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    assert_eq!(gateway.client().get("h", "/ok").expect("an answer").body_text(), "ok");
    // Each of them leaves less than what makes the windows small.
    let _stuck: Vec<_> = (0..STUCK_CLIENTS)
        .map(|_| {
            let mut stuck =
                Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
            ask_for_endless(&mut stuck, 0..STREAMS / STUCK_CLIENTS);
            wait_for_heads(&mut stuck, STREAMS / STUCK_CLIENTS);
            stuck
        })
        .collect();
    // Every stream has had its window.
    counts.wait_for(u64::from(STREAMS) * 64 * KILOBYTE);
    for _ in 0..50 {
        let answer = gateway.client().get("h", "/ok").expect("an answer while others are stuck");
        assert_eq!(answer.body_text(), "ok");
    }
    assert_eq!(counts.connections.load(SeqCst), 1, "they shared a connection");
    let each = counts.sent.load(SeqCst) / u64::from(STREAMS) / KILOBYTE;
    assert!(each <= 80, "{each} KB of each answer");
}

/// Sent by the upstream is not yet noted by the gateway.
fn wait_until_held(gateway: &Gateway, bytes: u64) {
    let started = Instant::now();
    loop {
        let metrics = Client::connect(gateway.metrics).expect("connects");
        let page = { metrics }.get("m", "/apisix/prometheus/metrics").expect("a page").body_text();
        let name = "apisix_slow_answer_memory_bytes{state=\"held\"} ";
        let held = page.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        if held.parse::<f64>().expect("a number") >= bytes as f64 {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{held} bytes held");
    }
}

/// What waits for one connection is bounded, and so is what may come on it without being read.
#[test]
fn who_leaves_much_gets_little_more() {
    let (address, counts) = upstream();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{address}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}plugins: [prometheus]\n"), Some(&routes));
    let mut greedy = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask_for_endless(&mut greedy, 0..20);
    wait_for_heads(&mut greedy, 20);
    counts.wait_for(20 * 64 * KILOBYTE);
    // Beyond a megabyte nothing more is read for the connection.
    wait_until_held(&gateway, 1024 * KILOBYTE);
    // Twenty answers wait for this client: the others of it get small windows.
    let before = counts.sent.load(SeqCst);
    ask_for_endless(&mut greedy, 20..STREAMS);
    wait_for_heads(&mut greedy, STREAMS - 20);
    counts.wait_for(before + u64::from(STREAMS - 20) * 8 * KILOBYTE);
    let each = (counts.sent.load(SeqCst) - before) / u64::from(STREAMS - 20) / KILOBYTE;
    assert!(each <= 17, "{each} KB of each later answer");
    assert_eq!(counts.connections.load(SeqCst), 2, "full and small windows");
    // Nobody else is held back by it.
    let before = counts.sent.load(SeqCst);
    let mut other = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask_for_endless(&mut other, 0..1);
    wait_for_heads(&mut other, 1);
    counts.wait_for(before + 64 * KILOBYTE);
}

/// What requests hold whose clients take nothing is bounded, see `untaken.rs`; those whose answers come from HTTP/2, too.
#[test]
fn who_takes_nothing_is_cut() {
    let (address, _) = upstream();
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  body_memory: {total: 1m}\n");
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{address}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(&config, Some(&routes));
    let mut greedy = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask_for_endless(&mut greedy, 0..40);
    let (mut refused, mut cut) = (0, 0);
    // Ten begin at once, and three may stay; of those in line some may begin where others are cut.
    while refused + cut < 37 {
        match greedy.wait_for(RST_STREAM).expect("the end of a stream").code() {
            Some(REFUSED_STREAM) => refused += 1,
            _ => cut += 1,
        }
    }
    assert!(cut >= 7, "{refused} refused, {cut} cut");
    let mut other = Http2Client::connect(gateway.http, &[]).expect("connects");
    for number in 0..20 {
        other.get(2 * number + 1, "/ok").expect("sends");
        let answer = other.wait_for(HEADERS).expect("an answer");
        assert_eq!(answer.stream, 2 * number + 1);
    }
    assert_eq!(gateway.client().get("h", "/ok").expect("an answer").status(), 200);
    gateway.wait_for_log("HTTP/2 responses that clients do not read");
}
