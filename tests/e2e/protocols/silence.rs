//! What stays open and says nothing is given up: connections to nodes, and a Redis that hangs.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, Relay, Upstream, servers};

use crate::protocols::grpc_peer::{Caller, Server, runtime};

fn grpc_gateway(relay: &Relay, read_s: u64) -> Gateway {
    let routes = format!(
        "routes:\n- uri: /*\n  upstream: {{scheme: grpc, nodes: {{\"{}\": 1}}, timeout: {{connect: 2, send: 2, read: {read_s}}}}}\n",
        relay.address
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

/// Those under way are lost; the next one is answered over a new connection.
#[test]
fn a_read_timeout_retires_an_http2_connection() {
    let server = Server::start();
    let relay = Relay::to(server.address);
    let gateway = grpc_gateway(&relay, 1);
    runtime().block_on(async {
        let caller = Caller::connect(gateway.http).await;
        assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 200);
        relay.silence_open();
        let lost: Vec<_> = (0..3)
            .map(|_| {
                let caller = caller.clone();
                tokio::spawn(async move { caller.call("/e.Echo/Unary", &[b"x"], false).await.status })
            })
            .collect();
        for one in lost {
            assert_eq!(one.await.expect("ends"), 504);
        }
        for _ in 0..10 {
            assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 200);
        }
    });
    assert_eq!(relay.opened(), 2);
}

/// Long before their own limit: a PING asks. Streams that are only quiet go on.
#[test]
fn a_connection_that_answers_no_ping_is_given_up() {
    let server = Server::start();
    let (cut, whole) = (Relay::to(server.address), Relay::to(server.address));
    let (through_cut, through_whole) = (grpc_gateway(&cut, 60), grpc_gateway(&whole, 60));
    runtime().block_on(async {
        let quiet = Caller::connect(through_whole.http).await;
        let quiet = tokio::spawn(async move { quiet.call("/e.Echo/Silent", &[b"x"], false).await });
        let caller = Caller::connect(through_cut.http).await;
        assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 200);
        cut.silence_open();
        let started = Instant::now();
        assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 502);
        assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
        assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 200);
        assert!(!quiet.is_finished(), "a quiet stream is not a silent connection");
        quiet.abort();
    });
    assert_eq!((cut.opened(), whole.opened()), (2, 1));
}

/// Of five idle connections that went silent together, one costs a request, not each.
#[test]
fn a_read_timeout_empties_the_pool_of_what_is_as_old() {
    let upstream = Upstream::start();
    let relay = Relay::to(upstream.address);
    let routes = format!(
        "routes:\n- uri: /*\n  upstream: {{nodes: {{\"{}\": 1}}, timeout: {{connect: 1, send: 1, read: 1}}}}\n",
        relay.address
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let mut clients: Vec<Client> = (0..5).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(b"GET /delay/100 HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    }
    for client in &mut clients {
        assert_eq!(client.response().expect("answers").status(), 200);
    }
    assert_eq!(relay.opened(), 5);
    relay.silence_open();
    let mut client = gateway.client();
    let mut status = || client.get("h", "/").expect("answers").status();
    assert_eq!(status(), 504);
    assert_eq!([status(), status(), status(), status()], [200; 4]);
}

/// A request loses its second; the others do not wait for it, and each does what its route says of such a Redis.
#[test]
fn a_redis_that_hangs_costs_one_request_its_time() {
    let redis = servers::redis(&[]);
    let upstream = Upstream::start();
    let route = |path: &str, degrade: bool| {
        format!(
            "- uri: {path}\n  upstream: {{nodes: {{\"{}\": 1}}}}\n  plugins: {{limit-count: {{count: 1000, \
             time_window: 60, key: x, key_type: constant, policy: redis, redis_host: 127.0.0.1, redis_port: {}, \
             allow_degradation: {degrade}}}}}\n",
            upstream.address,
            redis.address.port(),
        )
    };
    let routes = format!("routes:\n{}{}", route("/open", true), route("/shut", false));
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let mut client = gateway.client();
    let mut status = |path: &str| client.get("h", path).expect("answers").status();
    assert_eq!([status("/open"), status("/shut")], [200, 200]);
    redis.process.signal(Signal::STOP);
    let started = Instant::now();
    for _ in 0..15 {
        assert_eq!([status("/open"), status("/shut")], [200, 500]);
    }
    assert!(started.elapsed() < Duration::from_secs(8), "30 requests took {:?}", started.elapsed());
    // One has just waited in vain: this is when Redis is not asked.
    loop {
        let asked = Instant::now();
        assert_eq!(status("/shut"), 500);
        if asked.elapsed() > Duration::from_millis(500) {
            break;
        }
    }
    redis.process.signal(Signal::CONT);
    let continued = Instant::now();
    while status("/shut") != 200 {}
    assert!(continued.elapsed() < Duration::from_millis(300), "refused for {:?}", continued.elapsed());
    assert_eq!([status("/shut"), status("/open")], [200, 200]);
}

/// A node that accepts connections, says `greeting` on each, and reads nothing.
fn deaf_node(greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(greeting);
            held.push(stream);
        }
    });
    address
}

/// What the client sends meanwhile has a limit of its own (`client_body_timeout`, 60 s), which is not the node's.
#[test]
fn a_node_that_takes_no_body_has_the_time_to_send() {
    const NO_WINDOW: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";
    let gateway = |scheme: &str, node: SocketAddr, read_s: u64| {
        let routes = format!(
            "routes:\n- uri: /*\n  upstream: {{scheme: {scheme}, retries: 0, nodes: {{\"{node}\": 1}}, timeout: {{connect: 2, send: 1, read: {read_s}}}}}\n"
        );
        Gateway::start(YAML_PROVIDER, Some(&routes))
    };
    let limit = Duration::from_secs(20);

    let plain = gateway("http", deaf_node(b""), 50);
    let mut client = TcpStream::connect(plain.http).expect("connects");
    client.set_read_timeout(Some(limit)).expect("a limit");
    let mut sender = client.try_clone().expect("a second handle");
    std::thread::spawn(move || {
        let _ = sender.write_all(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
        while sender.write_all(&[b'x'; 65_536]).is_ok() {}
    });
    let mut status = [0; 12];
    client.read_exact(&mut status).expect("an answer in time");
    assert_eq!(&status, b"HTTP/1.1 504");

    // Where the call leaves before the settings arrive, it is the answer that is waited for.
    let grpc = gateway("grpc", deaf_node(NO_WINDOW), 1);
    runtime().block_on(async {
        let caller = Caller::connect(grpc.http).await;
        for _ in 0..2 {
            let started = Instant::now();
            assert_eq!(caller.call("/e.Echo/Unary", &[b"x"], false).await.status, 504);
            assert!(started.elapsed() < limit, "{:?}", started.elapsed());
        }
    });
}
