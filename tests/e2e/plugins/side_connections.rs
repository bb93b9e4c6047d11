//! Connections to services that plugins ask: one that the service closes as it lies idle costs no request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

/// How a connection ends that has answered once.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Once the next request is there: the moment of a close that crosses it.
    Closed,
    /// With a reset.
    Reset,
    /// After a piece of an answer.
    Begun,
}

/// A service that answers each connection's first request, and ends it at its second.
struct Service {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    end: Arc<Mutex<End>>,
    /// Ends connections at their first request, too.
    down: Arc<AtomicUsize>,
}

/// Reads a head and a body by its length.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut one = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut one).ok()?;
        bytes.push(one[0]);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).ok()?;
    Some(head)
}

fn serve(mut stream: TcpStream, end: &Mutex<End>, down: &AtomicUsize) -> Option<()> {
    let head = read_request(&mut stream)?;
    if down.load(SeqCst) > 0 {
        return None;
    }
    let body = if head.contains("/v1/data/") { r#"{"result":{"allow":true}}"# } else { "" };
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).ok()?;
    read_request(&mut stream)?;
    let end = *end.lock().expect("no thread panics with it");
    match end {
        End::Closed => {}
        End::Reset => socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).ok()?,
        End::Begun => stream.write_all(b"HTTP/1.1 200").ok()?,
    }
    None
}

impl Service {
    fn start() -> Service {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let service = Service {
            address: listener.local_addr().expect("an address"),
            connections: Arc::default(),
            end: Arc::new(Mutex::new(End::Closed)),
            down: Arc::default(),
        };
        let (connections, end, down) =
            (service.connections.clone(), service.end.clone(), service.down.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, SeqCst);
                let (end, down) = (end.clone(), down.clone());
                std::thread::spawn(move || serve(stream, &end, &down));
            }
        });
        service
    }

    fn set(&self, end: End) {
        *self.end.lock().expect("no thread panics with it") = end;
    }
}

#[test]
fn a_service_that_closes_an_idle_connection_is_asked_once_more() {
    let service = Service::start();
    let address = service.address;
    let upstream = Upstream::start();
    let plugins = [
        ("get", format!("forward-auth: {{uri: \"http://{address}/auth\"}}")),
        ("post", format!("forward-auth: {{uri: \"http://{address}/auth\", request_method: POST}}")),
        ("opa", format!("opa: {{host: \"http://{address}\", policy: p}}")),
    ];
    let mut routes = "routes:\n".to_owned();
    for (name, plugin) in &plugins {
        routes += &format!(
            "- {{id: {name}, uri: /{name}, plugins: {{{plugin}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
            upstream.address,
        );
    }
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let mut client = gateway.client();
    let mut status = |name: &str| {
        let request = format!("POST /{name} HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody");
        client.request(&request).expect("an answer").status()
    };
    for end in [End::Closed, End::Reset] {
        service.set(end);
        for (name, _) in &plugins {
            let before = service.connections.load(SeqCst);
            // Each answers once, so every request but the first meets a connection that ends.
            for number in 0..4 {
                assert_eq!(status(name), 200, "{name} {end:?} {number}: {}", gateway.error_log());
            }
            let opened = service.connections.load(SeqCst) - before;
            assert!((3..=4).contains(&opened), "{name} {end:?}: {opened} connections");
        }
    }
    // An answer that has begun is not asked for again, and neither is one that a new connection does not bring.
    service.set(End::Begun);
    let statuses: Vec<u16> = (0..4).map(|_| status("post")).collect();
    assert!(statuses.contains(&403) && statuses.contains(&200), "{statuses:?}");
    service.set(End::Closed);
    while status("post") != 200 {}
    service.down.store(1, SeqCst);
    let before = service.connections.load(SeqCst);
    assert_eq!(status("post"), 403, "{}", gateway.error_log());
    assert_eq!(service.connections.load(SeqCst) - before, 1, "once more, and not again and again");
}
