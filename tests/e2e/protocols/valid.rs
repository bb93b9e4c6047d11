//! Requests that must work, and what the upstream must see of them.

use crate::protocols::case::{Case, check};

#[test]
fn plain_requests() {
    check(&plain_requests_cases());
}

pub(super) fn plain_requests_cases() -> Vec<Case> {
    vec![
        Case::pass("simple", "GET /simple HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /simple HTTP/1.1\r\n", "\r\nHost: h\r\n"]),
        Case::pass("no space after the colon", "GET / HTTP/1.1\r\nHost:h\r\nX-A:b\r\n\r\n")
            .seen(&["\r\nX-A: b\r\n"]),
        Case::pass("blanks around a value", "GET / HTTP/1.1\r\nHost:  h \r\nX-A: \t b \t\r\n\r\n")
            .seen(&["\r\nX-A: b\r\n"]),
        Case::pass("tab inside a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\tb\r\n\r\n").seen(&["a\tb"]),
        Case::pass("empty value", "GET / HTTP/1.1\r\nHost: h\r\nX-Empty:\r\n\r\n").seen(&["X-Empty:"]),
        Case::pass("non-ASCII value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: é\r\n\r\n").seen(&["X-A: é\r\n"]),
        Case::pass(
            "every token character in a name",
            "GET / HTTP/1.1\r\nHost: h\r\nX!#$%&'*+-.^_`|~9: a\r\n\r\n",
        )
        .unseen(&["X!#"]),
        Case::pass("underscore in a name", "GET / HTTP/1.1\r\nHost: h\r\nx_under: a\r\n\r\n")
            .seen(&["x_under: a"]),
        Case::pass("empty line before the request", "\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /x "]),
        Case::pass(
            "repeated fields keep their order",
            "GET / HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n",
        )
        .seen(&["X-A: 1\r\nX-B: 2\r\nX-A: 3"]),
        Case::pass("cookies", "GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1; b=2\r\n\r\n")
            .seen(&["Cookie: a=1; b=2"]),
        Case::pass("query", "GET /q?a=1&b=%20&a=2 HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /q?a=1&b=%20&a=2 HTTP/1.1"]),
        Case::pass("empty query", "GET /q? HTTP/1.1\r\nHost: h\r\n\r\n").seen(&["GET /q? HTTP/1.1"]),
        Case::pass("second question mark", "GET /q?a?b HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /q?a?b HTTP/1.1"]),
        Case::pass("percent-encoded path", "GET /a%20b%2Fc HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /a%20b%2Fc HTTP/1.1"]),
        Case::pass("semicolon in the path", "GET /a;b=c HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /a;b=c HTTP/1.1"]),
        Case::pass("host with port", "GET / HTTP/1.1\r\nHost: h.example:8080\r\n\r\n")
            .seen(&["Host: h.example:8080\r\n"]),
        Case::pass("IPv6 host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").seen(&["Host: [::1]:80\r\n"]),
        Case::pass("Host in the middle and lower case", "GET / HTTP/1.1\r\na: b\r\nhost: h\r\nc: d\r\n\r\n")
            .seen(&["host: h\r\n"]),
        Case::pass("PUT", "PUT /p HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na")
            .seen(&["PUT /p ", "\r\n\r\na"]),
        Case::pass("DELETE without body", "DELETE /p HTTP/1.1\r\nHost: h\r\n\r\n").seen(&["DELETE /p "]),
        Case::pass("PATCH", "PATCH /p HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na")
            .seen(&["PATCH /p "]),
        Case::pass("OPTIONS with a path", "OPTIONS /p HTTP/1.1\r\nHost: h\r\n\r\n").seen(&["OPTIONS /p "]),
        Case::pass("PURGE, a method of nobody's list", "PURGE /p HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["PURGE /p "]),
        Case::pass("HEAD", "HEAD /bytes/500 HTTP/1.1\r\nHost: h\r\n\r\n").seen(&["HEAD /bytes/500 "]),
    ]
}

#[test]
fn bodies() {
    check(&bodies_cases());
}

pub(super) fn bodies_cases() -> Vec<Case> {
    vec![
        Case::pass("length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
            .seen(&["\r\n\r\nhello"]),
        Case::pass("length zero", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
        Case::pass(
            "length with leading zeros",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0005\r\n\r\nhello",
        )
        .seen(&["\r\n\r\nhello"]),
        Case::pass("no length, no body", "POST / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::pass("GET with a body", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
            .seen(&["\r\n\r\nhello"]),
        Case::pass("DELETE with a body", "DELETE / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello")
            .seen(&["\r\n\r\nhello"]),
        Case::pass(
            "body that looks like a request",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 29\r\n\r\nGET /x HTTP/1.1\r\nHost: evil\r\n",
        )
        .seen(&["\r\n\r\nGET /x"]),
        Case::pass(
            "body with NUL and CRLF",
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\na\0\r\n\r\n",
        )
        .seen(&["\r\n\r\na\0\r\n\r\n"]),
        Case::pass("large body", "").sending(with_length(300_000)).seen(&["zzzzzzzz"]),
        Case::pass("large chunked body", "").sending(with_chunks(300, 1000)).seen(&["zzzzzzzz"]),
        Case::pass("many one-byte chunks", "").sending(with_chunks(2000, 1)).seen(&["zzzzzzzz"]),
    ]
}

#[test]
fn versions_and_persistence() {
    check(&versions_and_persistence_cases());
}

pub(super) fn versions_and_persistence_cases() -> Vec<Case> {
    vec![
        Case::pass("1.0 closes", "GET / HTTP/1.0\r\nHost: h\r\n\r\n").closes(),
        Case::pass("1.0 without Host", "GET /old HTTP/1.0\r\n\r\n")
            .closes()
            .seen(&["GET /old HTTP/1."])
            .unseen(&["X-Forwarded-Host"]),
        Case::pass("1.0 keep-alive", "GET / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"),
        Case::pass("1.0 with a body", "POST / HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\n\r\nok")
            .closes()
            .seen(&["\r\n\r\nok"]),
        Case::pass("1.1 keep-alive said", "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\n\r\n"),
        Case::pass("1.1 close", "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").closes(),
        Case::pass("close in capitals", "GET / HTTP/1.1\r\nHost: h\r\nConnection: CLOSE\r\n\r\n").closes(),
        Case::pass("close in a list", "GET / HTTP/1.1\r\nHost: h\r\nConnection: x, close\r\n\r\n").closes(),
        Case::pass(
            "close in the second field",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
        )
        .closes(),
        Case::pass(
            "nothing is read after close",
            "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n",
        )
        .closes(),
    ]
}

#[test]
fn targets() {
    check(&targets_cases());
}

pub(super) fn targets_cases() -> Vec<Case> {
    vec![
        Case::pass("absolute form", "GET http://a.example/p HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .seen(&["GET /p HTTP/1.1", "Host: a.example\r\n"]),
        Case::pass(
            "absolute form wins over Host",
            "GET http://a.example/p HTTP/1.1\r\nHost: b.example\r\n\r\n",
        )
        .seen(&["Host: a.example\r\n"])
        .unseen(&["b.example"]),
        Case::pass("absolute form without Host", "GET http://a.example/p HTTP/1.0\r\n\r\n")
            .closes()
            .seen(&["Host: a.example\r\n"]),
        Case::pass("absolute form, https", "GET https://a.example/p HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .seen(&["GET /p HTTP/1.1"]),
        Case::pass("absolute form, capitals", "GET HTTP://a.example/p HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .seen(&["GET /p HTTP/1.1"]),
        Case::pass("absolute form, no path", "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .seen(&["GET / HTTP/1.1"]),
        Case::pass(
            "absolute form, only a query",
            "GET http://a.example?x=1 HTTP/1.1\r\nHost: a.example\r\n\r\n",
        )
        .seen(&["GET /?x=1 HTTP/1.1"]),
        Case::pass("raw UTF-8", "GET /caf\u{e9} HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /caf\u{e9} HTTP/1.1"]),
        Case::pass("backslash in the query", "GET /a?b=\\d HTTP/1.1\r\nHost: h\r\n\r\n")
            .seen(&["GET /a?b=\\d "]),
    ]
}

#[test]
fn headers_between_hops() {
    check(&headers_between_hops_cases());
}

pub(super) fn headers_between_hops_cases() -> Vec<Case> {
    vec![
        Case::pass("nominated field", "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n").unseen(&["x-hop"]),
        Case::pass("Keep-Alive", "GET / HTTP/1.1\r\nHost: h\r\nKeep-Alive: timeout=5\r\n\r\n").unseen(&["timeout=5"]),
        Case::pass("Proxy-Connection", "GET / HTTP/1.1\r\nHost: h\r\nProxy-Connection: keep-alive\r\n\r\n").unseen(&["proxy-connection"]),
        Case::pass("TE", "GET / HTTP/1.1\r\nHost: h\r\nTE: gzip\r\nConnection: TE\r\n\r\n").unseen(&["\r\nTE:"]),
        Case::pass("h2c upgrade is not passed on", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n").unseen(&["h2c", "http2-settings"]),
        Case::pass("websocket upgrade without enable_websocket", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n").unseen(&["\r\nUpgrade:"]),
        Case::pass("forwarded headers are added", "GET / HTTP/1.1\r\nHost: h\r\n\r\n").seen(&["X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: h\r\n", "X-Forwarded-Port: ", "X-Real-IP: 127.0.0.1"]),
        Case::pass("forwarded headers are not believed", "GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\n\r\n").seen(&["X-Forwarded-Proto: http\r\n", "X-Forwarded-Host: h\r\n"]).unseen(&["evil", "https"]),
    ]
}

fn with_length(bytes: usize) -> Vec<u8> {
    let body = "z".repeat(bytes);
    format!("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: {bytes}\r\n\r\n{body}").into_bytes()
}

fn with_chunks(count: usize, bytes: usize) -> Vec<u8> {
    let chunk = format!("{bytes:x}\r\n{}\r\n", "z".repeat(bytes));
    let chunks = chunk.repeat(count);
    format!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n").into_bytes()
}
