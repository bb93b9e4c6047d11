//! What upstreams answer, well and badly, and what clients get.

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::{Client, Message, ReadError, Upstream};

use crate::protocols::case::gateway_for;

/// What the client must get for a path.
enum Want {
    /// Status and body, connection usable.
    Answer(u16, &'static str),
    /// The gateway's own error, connection in any state.
    Error(u16),
    /// The answer begins and the connection is then cut: nothing may make it look complete.
    Cut,
    /// Either, when the fault comes so early that the head may not have left yet.
    CutOrError(u16),
}

fn final_answer(client: &mut Client, method: &str) -> Result<Message, ReadError> {
    loop {
        let answer = client.response_to(method)?;
        if answer.status() >= 200 {
            return Ok(answer);
        }
    }
}

fn check(rows: &[(&str, Want)]) {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut failures = Vec::new();
    for (request, want) in rows {
        let (method, path) = request.split_once(' ').unwrap_or(("GET", request));
        let mut client = gateway.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
        let answer = final_answer(&mut client, method);
        let good = match (want, &answer) {
            (Want::Answer(status, body), Ok(answer)) => {
                answer.status() == *status && answer.body_text() == *body && still_usable(&mut client)
            }
            (Want::Error(status), Ok(answer)) => answer.status() == *status,
            (Want::Cut | Want::CutOrError(_), Err(ReadError::Cut(_))) => true,
            (Want::CutOrError(status), Ok(answer)) => answer.status() == *status,
            _ => false,
        };
        if !good {
            failures.push(format!("{request}: {answer:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn still_usable(client: &mut Client) -> bool {
    client.get("h", "/after").is_ok_and(|next| next.body_text().starts_with("GET /after HTTP/1.1\r\n"))
}

#[test]
fn good_answers() {
    use Want::Answer;
    check(&[
        ("/status/200", Answer(200, "status 200")),
        ("/status/201", Answer(201, "status 201")),
        ("/status/204", Answer(204, "")),
        ("/status/301", Answer(301, "status 301")),
        ("/status/304", Answer(304, "")),
        ("/status/404", Answer(404, "status 404")),
        ("/status/418", Answer(418, "status 418")),
        ("/status/500", Answer(500, "status 500")),
        ("/status/503", Answer(503, "status 503")),
        ("/bytes/0", Answer(200, "")),
        ("HEAD /bytes/70000", Answer(200, "")),
        ("HEAD /status/404", Answer(404, "")),
        ("/chunked", Answer(200, "hello world")),
        ("/chunked-pieces", Answer(200, "hello world")),
        ("/chunk-extension", Answer(200, "hello")),
        ("/trailers", Answer(200, "hello")),
        ("/until-close", Answer(200, "until close")),
        ("/http10", Answer(200, "old")),
        ("/connection-close", Answer(200, "bye")),
        ("/hop-by-hop", Answer(200, "ok")),
        ("/head-in-pieces", Answer(200, "ok")),
        ("/hints", Answer(200, "hinted")),
        ("/no-reason", Answer(200, "ok")),
        ("/coded-204", Answer(204, "")),
        ("/two-cookies", Answer(200, "ok")),
        ("/head-bytes/4000", Answer(200, "ok")),
        ("/delay/30", Answer(200, "late")),
    ]);
}

#[test]
fn broken_answers() {
    use Want::{Cut, CutOrError, Error};
    check(&[
        ("/close", Error(502)),
        ("/reset", Error(502)),
        ("/close-mid-head", Error(502)),
        ("/both-lengths", Error(502)),
        ("/two-lengths", Error(502)),
        ("/signed-length", Error(502)),
        ("/gzip-coding", Error(502)),
        ("HEAD /two-lengths", Error(502)),
        ("HEAD /list-of-lengths", Error(502)),
        ("HEAD /both-lengths", Error(502)),
        ("HEAD /signed-length", Error(502)),
        ("/list-of-lengths", Error(502)),
        ("/two-lengths-304", Error(502)),
        ("/two-lengths-204", Error(502)),
        ("/two-lengths-103", Error(502)),
        ("/both-lengths-304", Error(502)),
        ("/bad-status-line", Error(502)),
        ("/bad-status", Error(502)),
        ("/bare-lf", Error(502)),
        ("/folded", Error(502)),
        ("/nul-in-header", Error(502)),
        ("/space-before-colon", Error(502)),
        ("/unasked-101", Error(502)),
        ("/head-bytes/1000000", Error(502)),
        ("/silent", Error(504)),
        ("/close-mid-body", Cut),
        ("/reset-mid-body", Cut),
        ("/close-mid-chunk", Cut),
        ("/no-last-chunk", Cut),
        ("/bad-chunk-size", CutOrError(502)),
    ]);
}

#[test]
fn bytes_after_an_answer_reach_nobody() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    for request in
        ["GET /extra-bytes", "GET /two-answers", "HEAD /answer-to-head-with-body", "GET /204-with-body"]
    {
        let (method, path) = request.split_once(' ').expect("two words");
        let mut client = gateway.client();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
        final_answer(&mut client, method).unwrap_or_else(|error| panic!("{request}: {error}"));
        for _ in 0..3 {
            let next =
                gateway.client().get("h", "/next").unwrap_or_else(|error| panic!("{request}: {error}"));
            assert!(next.body_text().starts_with("GET /next "), "{request}: {next:?}");
        }
    }
}

#[test]
fn headers_between_hops() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let answer = gateway.client().get("h", "/hop-by-hop").expect("answers");
    for name in ["x-secret", "keep-alive", "proxy-connection"] {
        assert_eq!(answer.header(name), None, "{answer:?}");
    }
    let answer = gateway.client().get("h", "/two-cookies").expect("answers");
    assert_eq!(answer.count("set-cookie"), 2, "{answer:?}");
    let mut client = gateway.client();
    let answer = client.request("HEAD /bytes/500 HTTP/1.1\r\nHost: h\r\n\r\n").expect("answers");
    assert_eq!(answer.header("content-length"), Some("500"));
    let seen = upstream.take();
    assert!(seen.iter().all(|seen| seen.message.header("connection").is_none_or(|value| value != "close")));
}

#[test]
fn an_http10_client_never_gets_chunks() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    let answer = client.request("GET /chunked HTTP/1.0\r\nHost: h\r\n\r\n").expect("answers");
    assert_eq!((answer.header("transfer-encoding"), answer.body_text().as_str()), (None, "hello world"));
}

#[test]
fn large_bodies_arrive_whole() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    for bytes in [1, 16_383, 16_384, 16_385, 1_000_000, 20_000_000] {
        let answer = client.get("h", &format!("/bytes/{bytes}")).expect("answers");
        assert_eq!(answer.body.len(), bytes);
    }
}

#[test]
fn an_early_answer_is_passed_on_while_the_client_still_sends() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    for path in ["/early", "/early-close"] {
        let mut client = gateway.client();
        let head = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n");
        client.send((head + &"x".repeat(10_000)).as_bytes()).expect("sends");
        let answer = client.response().unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!((answer.status(), answer.body_text().as_str()), (413, "early"), "{path}");
    }
}

#[test]
fn a_kept_connection_the_upstream_closed_is_not_an_error() {
    // Says nothing about closing, then closes: the race every keep-alive pool must survive.
    let upstream = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec()), Step::Close],
    });
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    for number in 0..50 {
        let answer = client.get("h", "/").unwrap_or_else(|error| panic!("request {number}: {error}"));
        assert_eq!(answer.status(), 200, "request {number}");
    }
}

#[test]
fn no_listener_is_502_and_no_route_is_404() {
    let upstream = Upstream::start();
    let gone = tidegate_testkit::free_port();
    let routes = format!(
        "routes:\n  - id: 1\n    uri: /gone\n    upstream: {{type: roundrobin, nodes: {{\"127.0.0.1:{gone}\": 1}}}}\n\
         \x20 - id: 2\n    uri: /here\n    upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}\n",
        upstream.address
    );
    let gateway = tidegate_testkit::Gateway::start(tidegate_testkit::gateway::YAML_PROVIDER, Some(&routes));
    let mut client = gateway.client();
    assert_eq!(client.get("h", "/here").expect("answers").status(), 200);
    assert_eq!(client.get("h", "/gone").expect("answers").status(), 502);
    let missing = gateway.client().get("h", "/nowhere").expect("answers");
    assert_eq!(
        (missing.status(), missing.body_text().as_str()),
        (404, "{\"error_msg\":\"404 Route Not Found\"}\n")
    );
}

/// nginx's status for closing without an answer, as plugins may be told to reject with.
#[test]
fn status_444_closes_without_an_answer() {
    let routes = "routes:\n- {id: 1, uri: /gone, plugins: {fault-injection: {abort: {http_status: 444}}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    let mut client = gateway.client();
    client.send(b"GET /gone HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    assert_eq!(client.to_close().expect("an orderly end"), b"");
}
