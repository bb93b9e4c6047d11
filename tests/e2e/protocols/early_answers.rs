//! An upstream that answers before it has the whole request: what of it has not gone out is never followed by another request,
//! which the upstream would take for the rest of the body.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use serde_json::json;
use tidegate_testkit::{Gateway, PATIENCE, gateway::YAML_PROVIDER};

/// Reads a head and no more, and answers.
fn answer(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        assert_eq!(stream.read(&mut byte).expect("a head"), 1, "{}", String::from_utf8_lossy(&head));
        head.extend_from_slice(&byte);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").expect("written");
    String::from_utf8_lossy(&head).into_owned()
}

/// A connection, or none in time.
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("set");
    let deadline = std::time::Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("set");
                stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
                return stream;
            }
            Err(_) => assert!(std::time::Instant::now() < deadline, "no new connection"),
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_has_not_gone_out_ends_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let node = json!({"type": "roundrobin", "nodes": {address: 1}});
    let validation = json!({"request-validation": {"body_schema": {"type": "object"}}});
    let routes = json!({"routes": [
        {"id": "gathered", "uri": "/gathered", "plugins": validation, "upstream": node},
        {"id": "passed", "uri": "/passed", "upstream": node},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    // More than the buffers of two sockets take.
    let body = format!("{{\"a\":\"{}\"}}", "x".repeat(8 << 20));
    for path in ["/gathered", "/passed"] {
        let (mut poster, mut getter) = (gateway.client(), gateway.client());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut first = std::thread::scope(|scope| {
            let posting = scope.spawn(|| {
                // The answer may come, and the connection end, before all is taken.
                let _ = poster.send(head.as_bytes()).and_then(|()| poster.send(body.as_bytes()));
                assert_eq!(poster.response().expect("an answer").status(), 200, "{path}");
            });
            let mut accepted = accept(&listener);
            assert!(answer(&mut accepted).starts_with(&format!("POST {path} ")), "{path}");
            posting.join().expect("posted");
            accepted
        });
        std::thread::scope(|scope| {
            let getting = scope.spawn(|| getter.get("h", "/passed").expect("an answer").status());
            let mut second = accept(&listener);
            assert!(answer(&mut second).starts_with("GET /passed "), "{path}");
            assert_eq!(getting.join().expect("asked"), 200, "{path}");
        });
        // The first one has nothing but its own body, and ends.
        let mut rest = Vec::new();
        let _ = first.read_to_end(&mut rest);
        assert!(!rest.windows(4).any(|four| four == b"GET "), "{path}: another request is in the body");
    }
}
