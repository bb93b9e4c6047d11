//! Interim answers (1xx) of upstreams: a few are normal, an endless row of them is answered with 502.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, HEADERS, SETTINGS, frame};
use tidegate_testkit::{Gateway, PATIENCE};

/// Serves each connection by this, once it has said something.
fn upstream(serve: impl Fn(TcpStream) + Copy + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                serve(stream);
            });
        }
    });
    address
}

fn gateway(scheme: &str, address: SocketAddr) -> Gateway {
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, scheme: {scheme}, retries: 0, nodes: {{\"{address}\": 1}}}}}}\n"
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

fn check_refused(gateway: &Gateway) {
    let started = Instant::now();
    let mut client = gateway.client();
    assert_eq!(client.get("h", "/").expect("an answer").status(), 502);
    assert!(started.elapsed() < PATIENCE / 2, "{:?}", started.elapsed());
    gateway.wait_for_log("upstream sent too many interim answers");
}

#[test]
fn a_hundred_at_most() {
    const ANSWER: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let few = upstream(|mut stream| {
        let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n".repeat(100);
        let _ = stream.write_all(format!("{hints}{ANSWER}").as_bytes());
    });
    let answer = gateway("http", few).client().get("h", "/").expect("an answer");
    assert_eq!((answer.status(), answer.body_text()), (200, "ok".to_owned()));
    let small = upstream(|mut stream| while stream.write_all(b"HTTP/1.1 100 C\r\n\r\n").is_ok() {});
    check_refused(&gateway("http", small));
    // Few, but long.
    let long = upstream(|mut stream| {
        let hints = format!("HTTP/1.1 103 Early Hints\r\nLink: {}\r\n\r\n", "a".repeat(30_000)).repeat(3);
        let _ = stream.write_all(format!("{hints}{ANSWER}").as_bytes());
        let _ = stream.read(&mut [0; 1]);
    });
    check_refused(&gateway("http", long));
}

#[test]
fn a_hundred_at_most_in_http2() {
    let small = upstream(|mut stream| {
        let _ = stream.write_all(&frame(SETTINGS, 0, 0, &[]));
        // Index 8 of the static table is `:status`.
        let hints = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103").repeat(50);
        // Streams exist once their request has come, which needs no look here: the first connection has stream 1.
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        while !matches!(stream.read(&mut [0; 4096]), Err(_) | Ok(0)) {}
        while stream.write_all(&hints).is_ok() {}
    });
    check_refused(&gateway("grpc", small));
}
