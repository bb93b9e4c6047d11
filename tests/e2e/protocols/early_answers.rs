//! An upstream that answers before it has the whole request: what of it has not gone out is never followed by another request,
//! which the upstream would take for the rest of the body; and a rest that is refused ends the answer.

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

/// Answers with the start of a body that goes on for as long as somebody takes it. Returns how its connection ended.
fn start_answer(stream: &mut TcpStream) -> std::io::Result<usize> {
    let start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    stream.write_all(start).expect("written");
    std::io::copy(stream, &mut std::io::sink()).map(|count| count as usize)
}

/// What is wrong with a client's body ends an answer that has begun, over both protocols alike: the client is not what it says,
/// and whatever the upstream still sends is about a request that it never had.
#[test]
fn a_body_that_is_refused_ends_the_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address").to_string();
    let config = YAML_PROVIDER
        .replace("enable_access_log: false", "enable_access_log: false, client_max_body_size: 30000")
        .replace("worker_processes: 1", "worker_processes: 1\n  error_log_level: info");
    let route = json!({"id": "1", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {address: 1}}});
    let gateway = Gateway::start(&config, Some(&json!({"routes": [route]}).to_string()));
    // More than is gathered before a node is chosen.
    let start = format!("5000\r\n{}\r\n", "x".repeat(0x5000));
    for (wrong, rest, status) in [("malformed", "xyz\r\n", 400), ("too large", &start, 413)] {
        let mut client = gateway.client();
        let head = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        client.send(format!("{head}{start}").as_bytes()).expect("sent");
        let mut upstream = accept(&listener);
        std::thread::scope(|scope| {
            let ended = scope.spawn(move || start_answer(&mut upstream));
            let received = client.exactly(b"HTTP/1.1 200 OK\r\n".len()).expect("a head");
            assert!(received.starts_with(b"HTTP/1.1 200"), "{wrong}");
            client.send(rest.as_bytes()).expect("sent");
            // Neither side is left waiting for the other.
            let received = client.to_close().unwrap_or_default();
            assert!(!received.ends_with(b"0\r\n\r\n"), "{wrong}: the answer looks whole");
            let ended = ended.join().expect("the upstream's side");
            assert!(
                !matches!(&ended, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
                "{wrong}"
            );
        });
        gateway.wait_for_log(&format!("request body refused after its response began (status {status})"));
    }
}
