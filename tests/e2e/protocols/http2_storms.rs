//! HTTP/2 upstreams that pause or have no streams left: how many connections they get, and what becomes of those who wait.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, frame, request};
use tidegate_testkit::{Gateway, Http2Client, Relay, eventually};
use tokio::net::TcpListener;

use crate::protocols::grpc_peer::{Server, runtime};

/// What a worker may open to a node, see docs/guide/limits.md.
const MOST: usize = 64;

fn gateway(upstream: SocketAddr, connect_s: u64) -> Gateway {
    let routes = format!(
        "routes:\n- uri: /*\n  upstream: {{scheme: grpc, nodes: {{\"{upstream}\": 1}}, timeout: {{connect: {connect_s}, send: 60, read: 60}}}}\n"
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

fn connect(gateway: &Gateway) -> Http2Client {
    Http2Client::connect(gateway.http, &[]).expect("connects")
}

/// Asks for so many answers at once, from stream 1 on.
fn ask(client: &mut Http2Client, count: u32) {
    let head = request("GET", "/e.Echo/Get", &[]);
    let all: Vec<u8> =
        (0..count).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &head)).collect();
    client.send_raw(&all).expect("sends");
}

/// A thousand requests that were at work when the node paused end without being sent again on connections of their own.
/// Then one connection asks whether the node is there, and who has left waits for nothing.
#[test]
fn a_node_that_pauses_gets_no_storm() {
    let server = Server::start();
    let relay = Relay::to(server.address);
    let gateway = gateway(relay.address, 60);
    assert_eq!(gateway.client().get("h", "/e.Echo/Get").expect("an answer").status(), 200);
    relay.partition();
    let mut clients: Vec<_> = (0..10).map(|_| connect(&gateway)).collect();
    clients.iter_mut().for_each(|client| ask(client, 100));
    for client in &mut clients {
        for _ in 0..100 {
            client.wait_for(HEADERS).expect("an answer");
        }
    }
    drop(clients);
    let opened = relay.opened();
    assert!(opened <= MOST, "{opened} connections for 1000 requests");
    let mut waiting: Vec<_> = (0..10).map(|_| connect(&gateway)).collect();
    waiting.iter_mut().for_each(|client| ask(client, 100));
    eventually("a new connection", || relay.opened() > opened);
    // The one that asks is given up in its turn, and the next one asks.
    eventually("another one", || relay.opened() > opened + 1);
    drop(waiting);
    let (opened, calls) = (relay.opened(), server.calls());
    relay.heal();
    for _ in 0..20 {
        assert_eq!(gateway.client().get("h", "/e.Echo/Get").expect("an answer").status(), 200);
    }
    // Up to two may have asked before the gateway heard that its clients had left.
    let after = relay.opened();
    assert!(after <= opened + 3, "{opened} connections before the pause ended, {after} after it");
    // Each connection carried at most what it was opened for; a thousand others were not sent.
    let late = server.calls() - calls;
    assert!(late <= 20 + 1100, "{late} calls");
}

/// A server that takes one stream on each connection. Returns how many connections there are.
fn narrow_server() -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("non-blocking");
    let address = listener.local_addr().expect("an address");
    let (open, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, holding) = (open.clone(), held.clone());
    std::thread::spawn(move || {
        runtime().block_on(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                let (opened, holding) = (opened.clone(), holding.clone());
                opened.fetch_add(1, SeqCst);
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    let shaken = builder.max_concurrent_streams(1).handshake::<_, bytes::Bytes>(stream).await;
                    if let Ok(mut connection) = shaken {
                        while let Some(Ok((_, mut respond))) = connection.accept().await {
                            let holding = holding.clone();
                            tokio::spawn(async move {
                                let head = http::Response::new(());
                                let Ok(mut send) = respond.send_response(head, false) else { return };
                                holding.fetch_add(1, SeqCst);
                                // Until the gateway takes it back.
                                let _ = std::future::poll_fn(|context| send.poll_reset(context)).await;
                                holding.fetch_sub(1, SeqCst);
                            });
                        }
                    }
                    opened.fetch_sub(1, SeqCst);
                });
            }
        });
    });
    (address, open, held)
}

/// Connections with small windows and those that were given up count too. Who finds no stream waits, and takes the first
/// that becomes free.
#[test]
fn a_node_gets_no_more_connections_than_the_bound() {
    let (address, open, held) = narrow_server();
    let gateway = gateway(address, 2);
    let mut clients: Vec<Http2Client> = Vec::new();
    for number in 0..MOST {
        let mut client = connect(&gateway);
        ask(&mut client, 1);
        client.wait_for(HEADERS).expect("an answer");
        clients.push(client);
        eventually("the stream is open", || held.load(SeqCst) == number + 1);
    }
    let mut patient = connect(&gateway);
    ask(&mut patient, 1);
    // What comes after its acknowledgement waits behind it.
    patient.send(PING, 0, 0, &[0; 8]).expect("sends");
    patient.wait_for(PING).expect("the acknowledgement");
    let mut late: Vec<_> = (0..20).map(|_| gateway.client()).collect();
    for client in &mut late {
        client.send(b"GET /e.Echo/Get HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    }
    let mut first = clients.swap_remove(0);
    first.send(RST_STREAM, 0, 1, &8u32.to_be_bytes()).expect("cancels");
    patient.wait_for(HEADERS).expect("the stream that became free");
    for client in &mut late {
        assert_eq!(client.response().expect("an answer").status(), 504);
    }
    gateway.wait_for_log("no HTTP/2 stream to the upstream became free");
    assert_eq!(open.load(SeqCst), MOST, "all that may be, and not one more");
    assert_eq!(held.load(SeqCst), MOST);
}
