//! `tidegate echo`: over HTTP/1, HTTP/2, WebSockets, gRPC and TLS, and what it does not let a client do.

use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::process::Process;
use tidegate_testkit::{Client, free_port};

use crate::protocols::grpc_peer::{message, runtime};

struct Echo {
    process: Process,
    address: SocketAddr,
}

fn echo(options: &[&str]) -> Echo {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let mut command = Command::new(binary());
    command.arg("echo").args(["-p", &address.port().to_string()]).args(options);
    let mut process = Process::start("tidegate echo", &mut command);
    process.wait_for_port(address);
    Echo { process, address }
}

impl Echo {
    fn client(&self) -> Client {
        Client::connect(self.address).expect("connects")
    }
}

fn curl(arguments: &[&str]) -> String {
    let output = Command::new("curl").args(["-sS", "-m", "20"]).args(arguments).output().expect("curl runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A delay of nothing must not last to the next millisecond.
#[test]
fn without_a_delay_it_answers_at_once() {
    let echo = echo(&["--size", "5"]);
    let mut client = echo.client();
    let fastest = (0..100).map(|_| {
        let begun = Instant::now();
        assert_eq!(client.get("h", "/").expect("an answer").status(), 200);
        begun.elapsed()
    });
    let fastest = fastest.min().unwrap_or_default();
    assert!(fastest < Duration::from_micros(800), "{fastest:?}");
}

#[test]
fn the_request_comes_back_as_it_was() {
    let mut echo = echo(&[]);
    let mut client = echo.client();
    let request = "POST /a?b=c HTTP/1.1\r\nhost: h\r\nX-mIxEd: 1\r\nContent-Length: 5\r\n\r\nhello";
    let answer = client.request(request).expect("an answer");
    assert_eq!((answer.status(), answer.body_text()), (200, request.replace('\r', "")));
    let chunked =
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert!(client.request(chunked).expect("an answer").body_text().ends_with("\n\nabcde"));
    let waiting = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    client.send(waiting.as_bytes()).expect("sent");
    assert_eq!(client.response().expect("interim").status(), 100);
    client.send(b"ok").expect("sent");
    assert!(client.response().expect("final").body_text().ends_with("\n\nok"));
    let head = client.request("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n").expect("an answer");
    assert_eq!((head.status(), head.body.len()), (200, 0));
    assert_eq!(client.request("GET / HTTP/1.0\r\n\r\n").expect("an answer").status(), 200);
    assert_eq!(client.to_close().expect("closes"), b"");
    // What is not HTTP is answered, and ends the connection.
    for (bytes, status) in
        [("NONSENSE\r\n\r\n", "400"), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400")]
    {
        let mut client = echo.client();
        client.send(bytes.as_bytes()).expect("sent");
        let text = String::from_utf8(client.to_close().expect("closes")).expect("text");
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
    }
    assert!(echo.process.stop().success());
}

#[test]
fn paths_choose_status_delay_size_and_events() {
    let echo = echo(&["--events", "3", "--event-interval", "1ms"]);
    let mut client = echo.client();
    let mut get = |path: &str| client.get("h", path).expect("an answer");
    assert_eq!(get("/status/503").status(), 503);
    assert_eq!(get("/status/204").status(), 204);
    assert_eq!(get("/status/304").status(), 304);
    assert_eq!(get("/bytes/70000").body.len(), 70_000);
    let begun = Instant::now();
    assert!(get("/delay/60ms").body_text().starts_with("GET /delay/60ms HTTP/1.1\n"));
    assert!(begun.elapsed() >= Duration::from_millis(60));
    let events = get("/events");
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    assert_eq!(events.body_text().matches("data: event ").count(), 3, "{}", events.body_text());
    let asked = client.request("GET / HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n");
    assert!(asked.expect("an answer").body_text().starts_with("id: 1\ndata: event 1 of 3\n\n"));
}

#[test]
fn options_are_for_every_request() {
    let echo = echo(&["--status", "429", "--size", "1k", "--delay", "20ms"]);
    let begun = Instant::now();
    let answer = echo.client().get("h", "/x").expect("an answer");
    assert_eq!((answer.status(), answer.body.len()), (429, 1024));
    assert!(begun.elapsed() >= Duration::from_millis(20));
}

#[test]
fn a_websocket_gets_its_frames_back_through_a_gateway() {
    let echo = echo(&[]);
    let routes = format!(
        "routes: [{{id: 1, uri: /*, enable_websocket: true, upstream: {{nodes: {{'{}': 1}}}}}}]\n",
        echo.address
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for mut client in [echo.client(), gateway.client()] {
        let answer = client.request(
            "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), 101);
        assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        client.send(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58").expect("sent");
        assert_eq!(client.exactly(7).expect("a frame"), b"\x81\x05Hello");
        client.send(b"\x89\x81\0\0\0\0p\x88\x82\0\0\0\0\x03\xe8").expect("sent");
        assert_eq!(client.exactly(7).expect("frames"), b"\x8a\x01p\x88\x02\x03\xe8");
        assert_eq!(client.to_close().expect("closes"), b"");
    }
}

#[test]
fn http2_and_grpc_with_prior_knowledge() {
    let echo = echo(&[]);
    let url = format!("http://{}", echo.address);
    let text = curl(&["--http2-prior-knowledge", "-d", "body", &format!("{url}/x?y")]);
    assert!(text.starts_with("POST /x?y HTTP/2\n:authority: ") && text.ends_with("\n\nbody"), "{text}");
    let letters = curl(&["--http2-prior-knowledge", &format!("{url}/bytes/200000")]);
    assert_eq!(letters.len(), 200_000);
    let status = ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}"];
    assert_eq!(curl(&[&status[..], &[&format!("{url}/status/418")]].concat()), "418");
    assert_eq!(call(echo.address), (message(b"abc"), Some("0".to_owned())));
    let failing = self::echo(&["--grpc-status", "14"]);
    assert_eq!(call(failing.address), (Vec::new(), Some("14".to_owned())));
}

/// The messages of a call's answer, and its status.
fn call(address: SocketAddr) -> (Vec<u8>, Option<String>) {
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.expect("connects");
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let request = http::Request::post(format!("http://{address}/a.B/C")).header("te", "trailers");
        let request = request.header("content-type", "application/grpc+proto").body(()).expect("a request");
        let (response, mut body) =
            send.ready().await.expect("ready").send_request(request, false).expect("sent");
        let sent = body.send_data(Bytes::from(message(b"abc")), true);
        let response = response.await.expect("an answer");
        let early = response.headers().get("grpc-status").cloned();
        if early.is_none() {
            sent.expect("sent");
        }
        let mut body = response.into_body();
        let mut received = Vec::new();
        while let Some(piece) = body.data().await {
            received.extend_from_slice(&piece.expect("a piece"));
        }
        let trailers = body.trailers().await.expect("an end");
        let status = early.or_else(|| trailers?.get("grpc-status").cloned());
        (received, status.map(|value| value.to_str().expect("text").to_owned()))
    })
}

#[test]
fn tls_with_a_certificate_made_now_or_given() {
    let echo = echo(&["--tls", "self-signed"]);
    let port = echo.address.port();
    let url = format!("https://localhost:{port}/secure");
    assert!(curl(&["-k", &url]).starts_with("GET /secure HTTP/2\n"));
    assert!(curl(&["-k", "--http1.1", &url]).starts_with("GET /secure HTTP/1.1\n"));
    let plain = curl(&[&format!("http://127.0.0.1:{port}/")]);
    assert!(plain.contains("use https://"), "{plain}");
    let open = self::echo(&[]);
    let mut client = open.client();
    client.send(b"\x16\x03\x01\x00\x05hello\r\n\r\n").expect("sent");
    let text = String::from_utf8_lossy(&client.to_close().expect("closes")).into_owned();
    assert!(text.contains("use http://"), "{text}");
    let folder = tempfile::tempdir().expect("a folder");
    let pair = rcgen::generate_simple_self_signed(vec!["name.test".to_owned()]).expect("a certificate");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, pair.cert.pem()).expect("written");
    std::fs::write(&key, pair.signing_key.serialize_pem()).expect("written");
    let given = self::echo(&["--tls", &format!("{},{}", certificate.display(), key.display())]);
    let port = given.address.port();
    let text = curl(&[
        "--cacert",
        &certificate.display().to_string(),
        "--resolve",
        &format!("name.test:{port}:127.0.0.1"),
        &format!("https://name.test:{port}/named"),
    ]);
    assert!(text.starts_with("GET /named HTTP/2\n"), "{text}");
}

#[test]
fn values_that_cannot_be_used_are_refused_before_a_port_opens() {
    for (words, code, reason) in [
        (&["--status", "99"][..], 2, "200..=599"),
        (&["--delay", "soon"], 2, "500ms"),
        (&["--delay", "99h"], 2, "up to 60s"),
        (&["--size", "big"], 2, "64k"),
        (&["--grpc-status", "17"], 2, "0..=16"),
        (&["--listen", "nowhere"], 2, "127.0.0.1:8080"),
        (&["--tls", "cert.pem"], 2, "CERT,KEY"),
        (&["--tls", "/nonexistent,/nonexistent"], 2, "cannot read /nonexistent"),
    ] {
        let output = Command::new(binary()).arg("echo").args(words).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && said.contains(reason), "{words:?}: {said}");
        assert!(!said.contains("echo on"), "{words:?}: {said}");
    }
    let taken = echo(&[]);
    let output = Command::new(binary()).args(["echo", "--listen", &taken.address.to_string()]).output();
    let output = output.expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let owner = format!("process {} (tidegate) listens on {}", taken.process.id(), taken.address);
    assert!(output.status.code() == Some(1) && said.contains(&owner), "{said}");
}

/// A body of any length is read, and its length is reported.
#[test]
fn long_bodies_are_counted_and_not_kept() {
    let echo = echo(&[]);
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(64 << 20).expect("a hole");
    let path = format!("@{}", file.path().display());
    let text = curl(&["-H", "Expect:", "--data-binary", &path, &format!("http://{}/", echo.address)]);
    assert!(text.ends_with(&format!("\n... and {} bytes more\n", 63 << 20)), "{}", text.len());
    let status = std::fs::read_to_string(format!("/proc/{}/status", echo.process.id())).expect("its status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kilobytes < 64 << 10, "{kilobytes} KB");
}
