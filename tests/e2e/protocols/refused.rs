//! What is refused before it is a request leaves a line in the access log, as anything else that was answered.

use std::time::Instant;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, RST_STREAM, field, request};
use tidegate_testkit::{Gateway, Http2Client, PATIENCE};

const FORMAT: &str = "enable_access_log: true, client_header_timeout: 300ms, \
    access_log_format: '$remote_addr|$request|$status|$body_bytes_sent|$request_method|$request_uri|$http_host'";

fn lines(gateway: &Gateway) -> Vec<String> {
    let log = std::fs::read_to_string(gateway.prefix().join("logs/access.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// Waits for the line that belongs to a request.
fn wait_for(gateway: &Gateway, what: &str, is_it: impl Fn(&[&str]) -> bool) {
    let started = Instant::now();
    loop {
        let lines = lines(gateway);
        if lines.iter().any(|line| is_it(&line.split('|').collect::<Vec<_>>())) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{what} is not in the access log: {lines:#?}");
        std::thread::yield_now();
    }
}

fn gateway() -> Gateway {
    Gateway::start(&YAML_PROVIDER.replace("enable_access_log: false", FORMAT), Some("routes: []\n"))
}

#[test]
fn over_http1() {
    let gateway = gateway();
    let (long, many) = ("x".repeat(40_000), "A: b\r\n".repeat(101));
    let big = format!("A: {}\r\n", "x".repeat(40_000));
    let cases: &[(&str, String, &str, &str)] = &[
        ("no version", "GET /no-version\r\n\r\n".to_owned(), "400", "GET /no-version"),
        (
            "a folded line",
            "GET /fold HTTP/1.1\r\nHost: h\r\n x\r\n\r\n".to_owned(),
            "400",
            "GET /fold HTTP/1.1",
        ),
        ("no Host", "GET /hostless HTTP/1.1\r\n\r\n".to_owned(), "400", "GET /hostless HTTP/1.1"),
        (
            "two lengths",
            "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n".to_owned(),
            "400",
            "POST /2 HTTP/1.1",
        ),
        ("a TLS hello", "\x16\x03\x01\r\n\r\n".to_owned(), "400", "\\x16\\x03\\x01"),
        ("another version", "GET /v9 HTTP/9.9\r\nHost: h\r\n\r\n".to_owned(), "505", "GET /v9 HTTP/9.9"),
        ("TRACE", "TRACE /t HTTP/1.1\r\nHost: h\r\n\r\n".to_owned(), "405", "TRACE /t HTTP/1.1"),
        ("a long target", format!("GET /{long} HTTP/1.1\r\nHost: h\r\n\r\n"), "414", "GET /xxxx"),
        ("many fields", format!("GET /many HTTP/1.1\r\nHost: h\r\n{many}\r\n"), "431", "GET /many HTTP/1.1"),
        ("a large head", format!("GET /big HTTP/1.1\r\nHost: h\r\n{big}\r\n"), "431", "GET /big HTTP/1.1"),
        ("half a head", "GET /slow HTTP/1.1\r\nHost: h\r\n".to_owned(), "408", "GET /slow HTTP/1.1"),
    ];
    for (what, text, status, line) in cases {
        let mut client = gateway.client();
        let _ = client.send(text.as_bytes());
        let answer = client.response().unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(answer.status().to_string(), *status, "{what}");
        wait_for(&gateway, what, |fields| {
            fields.first() == Some(&"127.0.0.1")
                && fields.get(1).is_some_and(|request| request.starts_with(line))
                && fields.get(2) == Some(status)
                && fields.get(3).is_some_and(|bytes| *bytes != "0")
        });
    }
    wait_for(&gateway, "method, target and host of a head that could be read", |fields| {
        fields.get(4..) == Some(&["POST", "/2", "h"])
    });
    wait_for(&gateway, "method and target of one that could not", |fields| {
        fields.get(4..) == Some(&["GET", "/no-version", "-"])
    });
    let longest = lines(&gateway).iter().map(String::len).max().unwrap_or(0);
    assert!(longest < 4096 * 2, "a request line is logged up to a limit: {longest} bytes");
    assert!(lines(&gateway).iter().filter(|line| line.contains("/slow")).count() == 1, "one line each");
}

#[test]
fn over_http2() {
    let gateway = gateway();
    let (long, big) = (format!("/{}", "x".repeat(20_000)), "x".repeat(12_000));
    let cases: &[(&str, Vec<u8>, &str, &str)] = &[
        ("two hosts", request("GET", "/hosts", &[("host", "other")]), "400", "GET /hosts HTTP/2.0"),
        ("a long path", request("GET", &long, &[]), "414", "GET /xxx"),
        ("a blank before a value", request("GET", "/blank", &[("a", " b")]), "400", "GET /blank HTTP/2.0"),
        (
            "a large head",
            [request("GET", "/big2", &[]), field("a", &big), field("b", &big), field("c", &big)].concat(),
            "431",
            "GET /big2 HTTP/2.0",
        ),
    ];
    for (what, block, status, line) in cases {
        let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
        send_block(&mut client, block);
        loop {
            let frame = client.read().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(frame.kind != RST_STREAM, "{what} is answered");
            if frame.kind == HEADERS {
                break;
            }
        }
        wait_for(&gateway, what, |fields| {
            fields.get(1).is_some_and(|request| request.starts_with(line)) && fields.get(2) == Some(status)
        });
    }
}

/// In frames of at most 16 kB.
fn send_block(client: &mut Http2Client, block: &[u8]) {
    let mut pieces = block.chunks(16_384).enumerate().peekable();
    while let Some((number, piece)) = pieces.next() {
        let end = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        let (kind, flags) = if number == 0 {
            (HEADERS, end | END_STREAM)
        } else {
            (tidegate_testkit::http2::CONTINUATION, end)
        };
        client.send(kind, flags, 1, piece).expect("sends");
    }
}
