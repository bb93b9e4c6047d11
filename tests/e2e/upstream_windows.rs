//! Answers of an HTTP/2 upstream that nobody takes: what the gateway lets come of each is bounded, and the other answers on
//! the same connection go on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use bytes::Bytes;
use h2::SendStream;
use http::Response;
use testkit::gateway::YAML_PROVIDER;
use testkit::http2::{END_HEADERS, END_STREAM, HEADERS, frame, request};
use testkit::{Gateway, Http2Client, PATIENCE};
use tokio::net::{TcpListener, TcpStream};

use crate::grpc_peer::runtime;

const STREAMS: u32 = 100;
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

#[test]
fn answers_that_nobody_takes_hold_little_and_stop_nobody() {
    let (address, counts) = upstream();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{address}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    assert_eq!(gateway.client().get("h", "/ok").expect("an answer").body_text(), "ok");
    let mut stuck = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    let head = request("GET", "/endless", &[]);
    let all: Vec<u8> =
        (0..STREAMS).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &head)).collect();
    stuck.send_raw(&all).expect("sends");
    for _ in 0..STREAMS {
        stuck.wait_for(HEADERS).expect("a head");
    }
    // Every stream has had its window, or the connection its own.
    let started = Instant::now();
    while counts.sent.load(SeqCst) < 3_900 * KILOBYTE {
        assert!(started.elapsed() < PATIENCE, "{} bytes sent", counts.sent.load(SeqCst));
        std::thread::yield_now();
    }
    for _ in 0..50 {
        let answer = gateway.client().get("h", "/ok").expect("an answer while others are stuck");
        assert_eq!(answer.body_text(), "ok");
    }
    assert_eq!(counts.connections.load(SeqCst), 1, "they shared a connection");
    let each = counts.sent.load(SeqCst) / u64::from(STREAMS) / KILOBYTE;
    assert!(each <= 80, "{each} KB of each answer");
}
