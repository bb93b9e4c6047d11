//! Requests no HTTP/1.1 client sends by accident: 400, and the connection ends (RFC 9112 sections 2-5).

use crate::protocols::case::{Case, check};

#[test]
fn request_lines() {
    check(&request_lines_cases());
}

pub(super) fn request_lines_cases() -> Vec<Case> {
    vec![
        Case::refuse("only a method", "GET\r\n\r\n"),
        Case::refuse("HTTP/0.9", "GET /\r\n\r\n"),
        Case::refuse("no target", "GET HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("two spaces before the target", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("two spaces before the version", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("space at the end", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
        Case::refuse("space in the target", "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("space before the method", " GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("tab instead of space", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("vertical tab in the target", "GET /\x0b HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("NUL in the target", "GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("DEL in the target", "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("fragment in the target", "GET /#top HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("backslash in the path", "GET /open\\..\\a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("relative target", "GET a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("asterisk without OPTIONS", "GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("other scheme", "GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("absolute form without authority", "GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("user in the authority", "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("method with @", "G@T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("method with bracket", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("method with NUL", "G\0T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("lower-case protocol", "GET / http/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("comma in the version", "GET / HTTP/1,1\r\nHost: h\r\n\r\n"),
        Case::refuse("no minor version", "GET / HTTP/1\r\nHost: h\r\n\r\n"),
        Case::refuse("three-part version", "GET / HTTP/1.1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("two-digit version", "GET / HTTP/1.10\r\nHost: h\r\n\r\n"),
        Case::refuse("signed version", "GET / HTTP/+1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("version 2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n").statuses(&[505]),
        Case::refuse("version 0.9", "GET / HTTP/0.9\r\nHost: h\r\n\r\n").statuses(&[400, 505]),
        Case::refuse("version 9.9", "GET / HTTP/9.9\r\nHost: h\r\n\r\n").statuses(&[505]),
        Case::refuse("CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n")
            .statuses(&[400, 405])
            .may_close(),
        Case::refuse("TRACE", "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n").statuses(&[405]).may_close(),
        Case::refuse("a TLS hello", "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n"),
    ]
}

#[test]
fn line_ends() {
    check(&line_ends_cases());
}

pub(super) fn line_ends_cases() -> Vec<Case> {
    vec![
        Case::refuse("bare LF after the request line", "GET / HTTP/1.1\nHost: h\r\n\r\n"),
        Case::refuse("bare LF after a field", "GET / HTTP/1.1\r\nHost: h\n\r\n"),
        Case::refuse("bare LF everywhere", "GET / HTTP/1.1\nHost: h\n\n"),
        Case::refuse("bare LF as the empty line", "GET / HTTP/1.1\r\nHost: h\r\n\n"),
        Case::refuse("bare LF before the request", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("bare CR in the request line", "GET /\rX HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("bare CR in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\rb\r\n\r\n"),
        Case::refuse(
            "bare CR hides a field",
            "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\rContent-Length: 5\r\n\r\n",
        ),
        Case::refuse("CR CR LF", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n"),
    ]
}

#[test]
fn fields() {
    check(&fields_cases());
}

pub(super) fn fields_cases() -> Vec<Case> {
    vec![
        Case::refuse("space before the colon", "GET / HTTP/1.1\r\nHost: h\r\nX-A : b\r\n\r\n"),
        Case::refuse("tab before the colon", "GET / HTTP/1.1\r\nHost: h\r\nX-A\t: b\r\n\r\n"),
        Case::refuse("folded with a space", "GET / HTTP/1.1\r\nHost: h\r\nX-A: b\r\n c\r\n\r\n"),
        Case::refuse("folded with a tab", "GET / HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\tc\r\n\r\n"),
        Case::refuse("first field starts with a space", "GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
        Case::refuse("no colon", "GET / HTTP/1.1\r\nHost: h\r\nnonsense\r\n\r\n"),
        Case::refuse("no name", "GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n"),
        Case::refuse("space in a name", "GET / HTTP/1.1\r\nHost: h\r\nX A: b\r\n\r\n"),
        Case::refuse("NUL in a name", "GET / HTTP/1.1\r\nHost: h\r\nX\0A: b\r\n\r\n"),
        Case::pass("bracket in a name", "GET / HTTP/1.1\r\nHost: h\r\nX(A): b\r\n\r\n").unseen(&["X(A)"]),
        Case::pass("quote in a name", "GET / HTTP/1.1\r\nHost: h\r\n\"X\": b\r\n\r\n").unseen(&["\"X\""]),
        Case::pass("slash in a name", "GET / HTTP/1.1\r\nHost: h\r\nX/A: b\r\n\r\n").unseen(&["X/A"]),
        Case::pass("non-ASCII name", "GET / HTTP/1.1\r\nHost: h\r\nX-é: b\r\n\r\n").unseen(&["X-é"]),
        Case::refuse("NUL in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\0b\r\n\r\n"),
        Case::refuse("control byte in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\x01b\r\n\r\n"),
        Case::refuse("vertical tab in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\x0bb\r\n\r\n"),
        Case::refuse("escape in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: \x1b[31m\r\n\r\n"),
        Case::refuse("DEL in a value", "GET / HTTP/1.1\r\nHost: h\r\nX-A: a\x7f\r\n\r\n"),
    ]
}

#[test]
fn hosts() {
    check(&hosts_cases());
}

pub(super) fn hosts_cases() -> Vec<Case> {
    vec![
        Case::refuse("none in 1.1", "GET / HTTP/1.1\r\n\r\n"),
        Case::refuse("two that differ", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        Case::refuse("two that agree", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"),
        Case::refuse("two in 1.0", "GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"),
        Case::refuse("two with an absolute form", "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        Case::refuse("empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n"),
        Case::refuse("space inside", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n"),
        Case::refuse("slash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"),
        Case::refuse("user", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"),
        Case::refuse("question mark", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n"),
        Case::refuse("hash", "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n"),
        Case::refuse("backslash", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n"),
    ]
}
