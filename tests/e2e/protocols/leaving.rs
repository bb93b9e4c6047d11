//! Clients that leave before they have their answer: the attempt ends, and with it what they held.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use socket2::{Domain, SockRef, Socket, Type};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{PATIENCE, Upstream, free_port};

use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

const SILENT: &[u8] = b"GET /silent HTTP/1.1\r\nHost: h\r\n\r\n";

fn config() -> String {
    YAML_PROVIDER
        .replace("enable_access_log: false", "access_log_format: \"$request_uri $status $upstream_status\"")
}

/// One request at a time.
fn one_at_a_time(node: SocketAddr) -> String {
    format!(
        "routes:\n- {{id: 1, uri: \"/*\", plugins: {{limit-conn: {{conn: 1, burst: 0, default_conn_delay: 0.01, \
         key: remote_addr, rejected_code: 503}}}}, upstream: {{type: roundrobin, nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

/// Until a request is let in; at once is soon enough, a time limit of the upstream is not.
fn wait_for_place(gateway: &Gateway, why: &str) {
    let left = Instant::now();
    while gateway.client().get("h", "/next").expect("answers").status() != 200 {
        assert!(left.elapsed() < Duration::from_secs(5), "{why}: the place is not free after 5 s");
    }
}

/// Leaves its connection in some way.
type Leave = fn(TcpStream) -> Option<TcpStream>;

#[test]
fn a_client_that_left_frees_its_place() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(&config(), Some(&one_at_a_time(upstream.address)));
    let ways: [(&str, Leave); 4] = [
        ("closed", |_| None),
        ("reset", |stream| {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("closes with RST");
            None
        }),
        ("half-closed", |stream| {
            stream.shutdown(Shutdown::Write).expect("half-closes");
            Some(stream)
        }),
        ("closed after another request", |mut stream| {
            stream.write_all(b"GET /never HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
            None
        }),
    ];
    for (number, (name, leave)) in ways.into_iter().enumerate() {
        let mut stream = TcpStream::connect(gateway.http).expect("connects");
        stream.write_all(SILENT).expect("sends");
        upstream.wait_for(1);
        assert_eq!(gateway.client().get("h", "/next").expect("answers").status(), 503, "{name}");
        let _held = leave(stream);
        wait_for_place(&gateway, name);
        let seen = upstream.take();
        assert!(seen.iter().all(|seen| seen.message.target() != "/never"), "{name}: {seen:?}");
        let log = gateway.prefix().join("logs/access.log");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if text.matches("/silent 499 -\n").count() == number + 1 {
                break;
            }
            assert!(Instant::now() < deadline, "{name}: {text}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn the_connection_to_the_upstream_is_closed() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let node = listener.local_addr().expect("an address");
    let tls = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let pair = self_signed("a.test");
    let listen = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}", tls.port());
    let resources = format!(
        "{}ssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
        one_at_a_time(node),
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let gateway = Gateway::start(&config().replace("ssl: {enable: false}", &listen), Some(&resources));
    for begun in ["", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"] {
        for secure in [false, true] {
            let client: Box<dyn std::any::Any> = if secure {
                let mut client =
                    Secure::connect(tls, "a.test", &Offer::default().config(None)).expect("connects");
                client.send(b"GET /silent HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sends");
                Box::new(client)
            } else {
                let mut client = TcpStream::connect(gateway.http).expect("connects");
                client.write_all(SILENT).expect("sends");
                Box::new(client)
            };
            let (mut upstream, _) = listener.accept().expect("a connection");
            upstream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
            let mut head = [0; 4096];
            assert_ne!(upstream.read(&mut head).expect("a request"), 0);
            upstream.write_all(begun.as_bytes()).expect("sends");
            drop(client);
            let left = Instant::now();
            match upstream.read(&mut head) {
                Ok(0) => {}
                // Bytes that nobody will read are told so.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                other => panic!("TLS {secure}, {begun:?}: {other:?}"),
            }
            assert!(left.elapsed() < Duration::from_secs(5), "TLS {secure}, {begun:?}: {:?}", left.elapsed());
        }
    }
}

#[test]
fn a_client_that_leaves_while_the_gateway_connects_frees_its_place() {
    // A listener that takes nobody in, whose queue is full: connecting to it takes until the time limit.
    let full = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    full.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("binds");
    full.listen(0).expect("listens");
    let node = full.local_addr().expect("an address").as_socket().expect("an IP address");
    let (told, filled) = mpsc::channel();
    let filling = std::thread::spawn(move || {
        let mut held = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&node, Duration::from_millis(200)) {
            held.push(stream);
        }
        told.send(()).expect("told");
        held
    });
    filled.recv().expect("filled");
    let held = filling.join().expect("filled");
    let gateway = Gateway::start(&config(), Some(&one_at_a_time(node)));
    for _ in 0..2 {
        let mut client = TcpStream::connect(gateway.http).expect("connects");
        client.write_all(SILENT).expect("sends");
        // Refused while the first is there.
        while gateway_status(&gateway) != Some(503) {}
        drop(client);
        let left = Instant::now();
        while gateway_status(&gateway) == Some(503) {
            assert!(left.elapsed() < Duration::from_secs(5), "the place is not free");
        }
    }
    drop(held);
}

/// The status of an answer that comes at once; a client that waits is let go.
fn gateway_status(gateway: &Gateway) -> Option<u16> {
    let mut client = TcpStream::connect(gateway.http).expect("connects");
    client.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit");
    client.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    let mut head = [0; 12];
    client.read_exact(&mut head).ok()?;
    String::from_utf8_lossy(&head).get(9..)?.parse().ok()
}

#[test]
fn what_comes_behind_a_request_is_not_its_end() {
    let upstream = Upstream::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: \"/*\", upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    let gateway = Gateway::start(&config(), Some(&routes));
    let mut client = gateway.client();
    client.send(b"GET /delay/200 HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    upstream.wait_for(1);
    // More than is read ahead, with a body among them.
    let filler = "f".repeat(1000);
    for number in 0..40 {
        let next = format!(
            "POST /behind/{number} HTTP/1.1\r\nHost: h\r\nX-Filler: {filler}\r\nContent-Length: 3\r\n\r\nabc"
        );
        client.send(next.as_bytes()).expect("sends");
    }
    assert_eq!(client.response().expect("answers").body_text(), "late");
    for number in 0..40 {
        let answer = client.response().unwrap_or_else(|error| panic!("request {number}: {error}"));
        let text = answer.body_text();
        assert!(text.starts_with(&format!("POST /behind/{number} ")) && text.ends_with("abc"), "{text}");
    }
}

/// Nobody else has a use for what a function answers, or for a verdict: the question is left with its client.
#[test]
fn a_question_is_left_with_its_client() {
    let upstream = Upstream::start();
    let silent = format!("http://{}/silent", upstream.address);
    let routes = format!(
        "routes:\n- {{id: 1, uri: /fn, plugins: {{azure-functions: {{function_uri: \"{silent}\", timeout: 60000}}}}}}\n\
         - {{id: 2, uri: /auth, plugins: {{forward-auth: {{uri: \"{silent}\", timeout: 60000}}}}, \
         upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    let gateway = Gateway::start(&config(), Some(&routes));
    for (number, path) in ["/fn", "/auth"].into_iter().enumerate() {
        let mut stream = TcpStream::connect(gateway.http).expect("connects");
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
        upstream.wait_for(number + 1);
        drop(stream);
        let log = gateway.prefix().join("logs/access.log");
        let written = || std::fs::read_to_string(&log).unwrap_or_default();
        tidegate_testkit::eventually_within(Duration::from_secs(20), path, || {
            written().contains(&format!("{path} 499 -\n"))
        });
    }
}
