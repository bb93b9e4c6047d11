//! HTTP/2 with clients: `curl` and `nghttp` in front, HTTP/1 behind, over TLS and in the clear.

use std::process::Command;

use bytes::Bytes;
use http::Request;
use rcgen::{CertificateParams, KeyPair};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, request};
use tidegate_testkit::{Gateway, Http2Client, PATIENCE, Upstream, eventually, free_port};

use crate::protocols::grpc_peer::runtime;

struct Fixture {
    gateway: Gateway,
    upstream: Upstream,
    tls_port: u16,
}

fn fixture(more: &str) -> Fixture {
    let upstream = Upstream::start();
    let tls_port = free_port();
    let tls = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {tls_port}}}]}}{more}");
    let config = YAML_PROVIDER.replace("ssl: {enable: false}", &tls).replace(
        "{enable_access_log: false}",
        "{access_log_format: \"$server_protocol $scheme $host $status\"}",
    );
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let key = KeyPair::generate().expect("a key");
    let cert = CertificateParams::new(vec!["h2.test".to_owned()]).expect("a name").self_signed(&key);
    let quoted = |text: &str| format!("\"{}\"", text.replace('\n', "\\n"));
    let (cert, key) = (quoted(&cert.expect("a certificate").pem()), quoted(&key.serialize_pem()));
    let routes = format!(
        "routes:\n- {{id: all, uri: /*, {node}}}\n- {{id: ws, uri: /upgrade*, enable_websocket: true, {node}}}\n\
         - {{id: own, uri: /own, plugins: {{mocking: {{response_example: mine}}}}}}\n\
         ssls:\n- {{id: 1, sni: h2.test, cert: {cert}, key: {key}}}\n"
    );
    Fixture { gateway: Gateway::start(&config, Some(&routes)), upstream, tls_port }
}

impl Fixture {
    /// Protocol and status, then what curl printed.
    fn curl(&self, tls: bool, path: &str, more: &[&str]) -> (String, Vec<u8>) {
        let port = if tls { self.tls_port } else { self.gateway.http.port() };
        let output = Command::new("curl")
            .args(["-sk", "--max-time", "10", "-w", "%{stderr}%{http_version} %{http_code}"])
            .args(["--resolve", &format!("h2.test:{port}:127.0.0.1")])
            .args(more)
            .arg(format!("{}://h2.test:{port}{path}", if tls { "https" } else { "http" }))
            .output()
            .expect("curl runs");
        (String::from_utf8_lossy(&output.stderr).into_owned(), output.stdout)
    }
}

#[test]
fn both_protocols_on_both_ports() {
    let fixture = fixture("");
    let prior = &["--http2-prior-knowledge"][..];
    for (tls, more, expected) in [
        (true, &[][..], "2 200"),
        (true, &["--http1.1"][..], "1.1 200"),
        (false, prior, "2 200"),
        (false, &[], "1.1 200"),
    ] {
        let (told, body) = fixture.curl(tls, "/echo/me?a=b", more);
        assert_eq!(told, expected, "tls {tls} {more:?}\n{}", fixture.gateway.error_log());
        let seen = String::from_utf8_lossy(&body).into_owned();
        assert!(seen.starts_with("GET /echo/me?a=b HTTP/1.1\r\nHost: h2.test"), "{seen}");
        let scheme = if tls { "X-Forwarded-Proto: https\r\n" } else { "X-Forwarded-Proto: http\r\n" };
        assert!(seen.contains(scheme), "{seen}");
        assert_eq!(fixture.curl(tls, "/own", more).1, b"mine", "{more:?}");
        assert_eq!(fixture.curl(tls, "/status/404", more).0, expected.replace("200", "404"));
    }
    let log = fixture.gateway.prefix().join("logs/access.log");
    let wanted = ["HTTP/2.0 https h2.test 200", "HTTP/2.0 http h2.test 200", "HTTP/1.1 https h2.test 200"];
    eventually("the log has a line of each protocol", || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        wanted.iter().all(|line| text.contains(line))
    });
}

/// HEAD gets the fields that GET would get, over both protocols, also from the gateway itself.
#[test]
fn head_has_the_length_of_the_gateways_own_answers() {
    let fixture = fixture("");
    for more in [&["--http2-prior-knowledge"][..], &["--http1.1"]] {
        let got = fixture.curl(false, "/own", more).1;
        let head = fixture.curl(false, "/own", &[more, &["-I"]].concat()).1;
        let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
        let length = format!("content-length: {}\r\n", got.len());
        assert!(head.contains(&length), "{more:?}: {length}{head}");
    }
}

#[test]
fn it_can_be_switched_off() {
    let fixture = fixture("\n  enable_http2: false");
    assert_eq!(fixture.curl(true, "/", &[]).0, "1.1 200");
    assert_ne!(fixture.curl(false, "/", &["--http2-prior-knowledge"]).0, "2 200");
}

#[test]
fn bodies_of_all_sizes_and_kinds() {
    let fixture = fixture("");
    let folder = tempfile::tempdir().expect("a folder");
    let large: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(folder.path().join("large"), &large).expect("writes");
    let upload = format!("@{}", folder.path().join("large").display());
    for tls in [true, false] {
        let prior: &[&str] = if tls { &[] } else { &["--http2-prior-knowledge"] };
        for (path, more, expected) in [
            ("/bytes/0", &[][..], &b""[..]),
            ("/bytes/5", &[], b"xxxxx"),
            ("/chunked", &[], b"hello world"),
            ("/until-close", &[], b"until close"),
            ("/status/204", &[], b""),
            ("/bytes/5", &["-I", "-o", "/dev/null"], b""),
        ] {
            let (told, body) = fixture.curl(tls, path, &[prior, more].concat());
            let status = if path.ends_with("204") { "2 204" } else { "2 200" };
            assert_eq!((told.as_str(), body.as_slice()), (status, expected), "{path} {more:?}");
        }
        assert_eq!(fixture.curl(tls, "/bytes/5000000", prior).1.len(), 5_000_000);
        fixture.upstream.take();
        let (told, _) = fixture.curl(
            tls,
            "/up",
            &[prior, &["--data-binary", &upload, "-H", "Expect: 100-continue"]].concat(),
        );
        assert_eq!(told, "2 200");
        let seen = fixture.upstream.take();
        assert!(seen[0].message.body == large, "{} bytes", seen[0].message.body.len());
        // Of unknown length: it goes on in chunks.
        let (told, _) = fixture.curl(
            tls,
            "/up",
            &[prior, &["-H", "Content-Length:", "--data-binary", "in pieces"]].concat(),
        );
        assert_eq!(told, "2 200");
        assert_eq!(fixture.upstream.take()[0].message.body_text(), "in pieces");
    }
    // An answer that breaks off must not look whole.
    for path in ["/close-mid-body", "/no-last-chunk", "/reset-mid-body"] {
        let output = Command::new("curl")
            .args(["-s", "--max-time", "10", "--http2-prior-knowledge"])
            .arg(format!("http://{}{path}", fixture.gateway.http))
            .output()
            .expect("curl runs");
        assert!(!output.status.success(), "{path}");
    }
}

#[test]
fn trailers_come_through() {
    let fixture = fixture("");
    let output = Command::new("nghttp")
        .args(["-v", "-t", "10", &format!("http://{}/trailers", fixture.gateway.http)])
        .output()
        .expect("nghttp runs: scripts/install-deps.sh installs it");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("x-checksum: abc"), "{text}");
}

#[test]
fn heads_that_would_change_meaning_are_refused() {
    let fixture = fixture("");
    let cases: &[(&str, &str, &[(&str, &str)])] = &[
        ("two hosts", "/", &[("host", "other")]),
        ("connection", "/", &[("connection", "close")]),
        ("transfer coding", "/", &[("transfer-encoding", "chunked")]),
        ("upgrade", "/", &[("upgrade", "h2c")]),
        ("te", "/", &[("te", "gzip")]),
        ("upper case", "/", &[("X-Upper", "a")]),
        ("line break in a value", "/", &[("x", "a\r\nsmuggled: 1")]),
        ("NUL in a value", "/", &[("x", "a\0b")]),
        ("line break in a name", "/", &[("x\r\nsmuggled", "1")]),
        ("colon in a name", "/", &[("x:y", "1")]),
        ("blank in a name", "/", &[("x y", "1")]),
        ("pseudo field late", "/", &[("x", "1"), (":path", "/other")]),
        ("line break in the path", "/ HTTP/1.1\r\nsmuggled: 1\r\n", &[]),
        ("blank in the path", "/a b", &[]),
        ("no path", "", &[]),
        ("absolute path", "http://other/", &[]),
        ("two lengths", "/", &[("content-length", "1"), ("content-length", "2")]),
        ("length without a body", "/", &[("content-length", "5")]),
        ("signed length", "/", &[("content-length", "+0")]),
    ];
    for (name, path, fields) in cases {
        let mut client = Http2Client::connect(fixture.gateway.http, &[]).expect("connects");
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", path, fields)).expect("sends");
        let answer = loop {
            match client.read() {
                Ok(frame) if frame.kind == HEADERS || frame.kind == RST_STREAM => break Some(frame),
                Ok(_) => {}
                Err(_) => break None,
            }
        };
        // An answer of the gateway itself (400 has no place in HPACK's table but as 0x8c), a reset, or the end.
        let refused =
            answer.as_ref().is_none_or(|frame| frame.kind == RST_STREAM || frame.payload[0] == 0x8c);
        assert!(refused, "{name}: {answer:?}");
    }
    // Cookies come in crumbs, and HTTP/1 knows one line.
    let mut client = Http2Client::connect(fixture.gateway.http, &[]).expect("connects");
    let block = request("GET", "/crumbs", &[("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block).expect("sends");
    client.wait_for(HEADERS).expect("answers");
    let seen = fixture.upstream.take();
    assert_eq!(seen.len(), 1, "{seen:?}");
    let text = seen[0].text();
    assert!(text.contains("cookie: a=1; b=2\r\n") && !text.contains("te: trailers"), "{text}");
}

#[test]
fn websocket_through_a_stream() {
    let fixture = fixture("");
    runtime().block_on(async {
        let talk = async {
            let stream = tokio::net::TcpStream::connect(fixture.gateway.http).await.expect("connects");
            let (send, mut connection) = h2::client::handshake(stream).await.expect("shakes hands");
            // Whether the gateway offers it is known once its settings are here.
            let mut ready = send.ready().await.expect("ready");
            while !ready.is_extended_connect_protocol_enabled() {
                std::future::poll_fn(|context| {
                    let _ = std::pin::Pin::new(&mut connection).poll(context);
                    std::task::Poll::Ready(())
                })
                .await;
                tokio::task::yield_now().await;
            }
            tokio::spawn(connection);
            let ask = |path: &str| {
                let mut request =
                    Request::connect(format!("http://h2.test{path}")).body(()).expect("a request");
                request.extensions_mut().insert(h2::ext::Protocol::from_static("websocket"));
                request.headers_mut().insert("sec-websocket-version", "13".parse().expect("a value"));
                request
            };
            let (response, mut out) = ready.send_request(ask("/upgrade"), false).expect("sends");
            let response = response.await.expect("answers");
            assert_eq!(response.status(), 200, "{}", fixture.gateway.error_log());
            assert!(!response.headers().contains_key("upgrade"), "{response:?}");
            let mut body = response.into_body();
            for round in 0..3 {
                let sent = format!("\u{1}round {round}");
                out.send_data(Bytes::from(sent.clone()), false).expect("sends");
                let mut received = Vec::new();
                while received.len() < sent.len() {
                    let data = body.data().await.expect("more").expect("data");
                    let _ = body.flow_control().release_capacity(data.len());
                    received.extend_from_slice(&data);
                }
                assert_eq!(received, sent.as_bytes());
            }
            out.send_data(Bytes::new(), true).expect("ends");
            while let Some(data) = body.data().await {
                assert!(data.expect("an end").is_empty(), "nothing but the end is left");
            }
            // Refused by the upstream, and on a route without WebSocket.
            for (path, status) in [("/upgrade-refused", 403), ("/echo", 501)] {
                let mut ready = ready.clone().ready().await.expect("ready");
                let (response, _out) = ready.send_request(ask(path), false).expect("sends");
                assert_eq!(response.await.expect("answers").status(), status, "{path}");
            }
            // CONNECT to anywhere is not a service here.
            let mut ready = ready.clone().ready().await.expect("ready");
            let (response, _out) = ready
                .send_request(Request::connect("h2.test:80").body(()).expect("a request"), false)
                .expect("sends");
            assert_eq!(response.await.expect("answers").status(), 405);
        };
        tokio::time::timeout(PATIENCE, talk).await.expect("in time");
    });
    let text = fixture.upstream.seen()[0].text();
    assert!(text.starts_with("GET /upgrade HTTP/1.1\r\n") && text.contains("Sec-WebSocket-Key: "), "{text}");
    assert!(text.contains("Connection: Upgrade\r\nUpgrade: websocket\r\n"), "{text}");
}

#[test]
fn quitting_sends_goaway() {
    let mut fixture = fixture("");
    let mut client = Http2Client::connect(fixture.gateway.http, &[]).expect("connects");
    client.get(1, "/bytes/3").expect("sends");
    client.wait_for(HEADERS).expect("answers");
    let reading = std::thread::spawn(move || client.wait_for(GOAWAY).map(|frame| frame.code()));
    fixture.gateway.process.signal(rustix::process::Signal::QUIT);
    assert_eq!(reading.join().expect("reads").expect("a GOAWAY"), Some(0));
    assert!(fixture.gateway.process.wait_for_exit().success());
}
