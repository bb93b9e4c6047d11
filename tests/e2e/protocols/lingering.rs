//! Answers arrive whole although the client sends more than is read.
//!
//! Bytes that nobody has read when a socket closes become a reset, and that throws away what the client has not read.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, PATIENCE, Upstream, servers};

const ANSWER_BYTES: usize = 3_000_000;

fn gateway(upstream: &Upstream) -> Gateway {
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let early =
        |path: &str, plugin: &str| format!("  - uri: {path}\n    plugins: {{{plugin}}}\n    {node}\n");
    let routes = format!(
        "routes:\n  - uri: /*\n    {node}\n{}{}{}",
        early("/small", "client-control: {max_body_size: 10}"),
        early("/abort", "fault-injection: {abort: {http_status: 403, body: \"no\"}}"),
        early("/key", "key-auth: {}"),
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

/// Takes little at a time, so that most of an answer is still with the gateway when that closes.
fn slow_client(gateway: &Gateway) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(64 * 1024).expect("a small buffer");
    socket.set_send_buffer_size(64 * 1024).expect("a small buffer");
    socket.connect(&gateway.http.into()).expect("connects");
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.set_write_timeout(Some(PATIENCE)).expect("a limit");
    stream
}

/// Sends all, then reads to the end. `Err`: what came before a reset.
fn sent_first(gateway: &Gateway, head: &str, behind: usize) -> Result<String, String> {
    let mut client = slow_client(gateway);
    // At once: what comes after the end of a connection that had nothing more to read resets it, as with nginx.
    // A gateway that has closed already shows in what is read.
    let sent = client.write_all(&[head.as_bytes(), &vec![b'x'; behind]].concat());
    let mut received = Vec::new();
    let ended = client.read_to_end(&mut received);
    let text = String::from_utf8_lossy(&received).into_owned();
    match (sent, ended) {
        (Ok(()), Ok(_)) => Ok(text),
        (sent, ended) => Err(format!("{sent:?}, {ended:?}, {} bytes received", text.len())),
    }
}

/// `TIDEGATE_CLOSES`: how many connections, for a longer run.
#[test]
fn bytes_behind_the_last_request_cut_no_answer() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let count: usize =
        std::env::var("TIDEGATE_CLOSES").map_or(48, |text| text.parse().expect("a number of connections"));
    let head = format!("GET /bytes/{ANSWER_BYTES} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let cut: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|first| {
                let (gateway, head) = (&gateway, &head);
                scope.spawn(move || {
                    (first..count)
                        .step_by(8)
                        .filter_map(|number| match sent_first(gateway, head, 100 + number % 4 * 50_000) {
                            Ok(text) if text.len() > ANSWER_BYTES => None,
                            Ok(text) => Some(format!("{number}: only {} bytes", text.len())),
                            Err(why) => Some(format!("{number}: {why}")),
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client ends")).collect()
    });
    assert!(cut.is_empty(), "{} of {count} cut:\n{}", cut.len(), cut.join("\n"));
}

#[test]
fn refusals_arrive_although_a_body_is_coming() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let post = |path: &str, fields: &str| format!("POST {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    let long = "a".repeat(60_000);
    let length = "Content-Length: 3500000\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n\r\nZZ\r\n";
    for (name, head, status) in [
        ("malformed field", post("/", "bad field\r\nContent-Length: 3500000\r\n"), 400),
        ("malformed chunk", post("/", chunked), 400),
        ("long target", post(&format!("/{long}"), length), 414),
        ("long field", post("/", &format!("X-Long: {long}\r\n")), 431),
        ("large body", post("/small", length), 413),
        ("abort of a plugin", post("/abort", length), 403),
        ("no key", post("/key", &format!("{length}Connection: close\r\n")), 401),
        ("no route's method", post("/key", &format!("Expect: 100-continue\r\n{length}")), 401),
    ] {
        let answer = sent_first(&gateway, &head, 3_500_000).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {answer}");
    }
}

#[test]
fn a_client_that_never_ends_is_closed() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let mut client = slow_client(&gateway);
    client.set_write_timeout(Some(Duration::from_secs(20))).expect("a limit");
    client.write_all(b"BAD\r\n\r\n").expect("sends");
    let (started, mut sent) = (Instant::now(), 0);
    let piece = vec![b'x'; 64 * 1024];
    let ended = loop {
        match client.write(&piece) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "{sent} bytes were taken");
    };
    assert!(started.elapsed() < Duration::from_secs(15), "{ended} after {:?}", started.elapsed());
}

/// curl before 8.1 drops an answer whose stream is reset before it has looked at it.
#[test]
fn an_early_answer_over_http2_reaches_curl() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let folder = tempfile::tempdir().expect("a folder");
    let body = folder.path().join("body");
    std::fs::write(&body, vec![b'b'; 3_000_000]).expect("a body");
    for (path, wanted) in [("/key", "401"), ("/abort", "403"), ("/small", "413")] {
        for round in 0..5 {
            let output = std::process::Command::new(servers::find("curl"))
                .args(["-s", "-m", "20", "--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}"])
                .args(["-H", "Expect:", "-X", "POST", "--data-binary"])
                .arg(format!("@{}", body.display()))
                .arg(format!("http://{}{path}", gateway.http))
                .output()
                .expect("curl runs");
            let status = String::from_utf8_lossy(&output.stdout);
            assert_eq!((status.as_ref(), output.status.code()), (wanted, Some(0)), "{path}, round {round}");
        }
    }
}
