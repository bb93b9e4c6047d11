//! Request smuggling: heads that two HTTP implementations could frame differently (RFC 9112 section 6).
//!
//! Each body holds a second request. If it is ever answered or forwarded, framing was read two ways.

use crate::protocols::case::{Case, check};

/// A body of 29 bytes that is also a request.
macro_rules! with_hidden_request {
    ($fields:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: h\r\n", $fields, "\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n")
    };
}

macro_rules! chunked_and_hidden_request {
    ($fields:literal) => {
        concat!(
            "POST / HTTP/1.1\r\nHost: h\r\n",
            $fields,
            "\r\n0\r\n\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n"
        )
    };
}

#[test]
fn content_length() {
    check(&content_length_cases());
}

pub(super) fn content_length_cases() -> Vec<Case> {
    vec![
        Case::refuse("plus sign", with_hidden_request!("Content-Length: +5\r\n")),
        Case::refuse("minus sign", with_hidden_request!("Content-Length: -5\r\n")),
        Case::refuse("minus zero", with_hidden_request!("Content-Length: -0\r\n")),
        Case::refuse("hexadecimal", with_hidden_request!("Content-Length: 0x5\r\n")),
        Case::refuse("exponent", with_hidden_request!("Content-Length: 1e1\r\n")),
        Case::refuse("fraction", with_hidden_request!("Content-Length: 5.0\r\n")),
        Case::refuse("underscore", with_hidden_request!("Content-Length: 1_0\r\n")),
        Case::refuse("empty", with_hidden_request!("Content-Length:\r\n")),
        Case::refuse("words", with_hidden_request!("Content-Length: five\r\n")),
        Case::refuse("space inside", with_hidden_request!("Content-Length: 5 5\r\n")),
        Case::refuse("semicolon", with_hidden_request!("Content-Length: 5;\r\n")),
        Case::refuse("list that agrees", with_hidden_request!("Content-Length: 5, 5\r\n")),
        Case::refuse("list that differs", with_hidden_request!("Content-Length: 5, 6\r\n")),
        Case::refuse("vertical tab", with_hidden_request!("Content-Length: \x0b5\r\n")),
        Case::refuse("NUL", with_hidden_request!("Content-Length: 5\0\r\n")),
        Case::refuse("other script's digits", with_hidden_request!("Content-Length: ٥\r\n")),
        Case::refuse("over 64 bits", with_hidden_request!("Content-Length: 18446744073709551621\r\n")),
        Case::refuse(
            "negative as unsigned",
            with_hidden_request!("Content-Length: 18446744073709551615\r\n"),
        ),
        Case::refuse("two that differ", with_hidden_request!("Content-Length: 0\r\nContent-Length: 34\r\n")),
        Case::refuse(
            "two that differ, other order",
            with_hidden_request!("Content-Length: 34\r\nContent-Length: 0\r\n"),
        ),
        Case::refuse("two that agree", with_hidden_request!("Content-Length: 34\r\nContent-Length: 34\r\n")),
        Case::refuse(
            "two, in different case",
            with_hidden_request!("content-length: 0\r\nCONTENT-LENGTH: 34\r\n"),
        ),
        Case::refuse("space before the colon", with_hidden_request!("Content-Length : 34\r\n")),
        Case::refuse("folded", with_hidden_request!("Content-Length:\r\n 34\r\n")),
        Case::refuse("folded into another field", with_hidden_request!("X: y\r\n Content-Length: 34\r\n")),
    ]
}

#[test]
fn transfer_encoding() {
    check(&transfer_encoding_cases());
}

pub(super) fn transfer_encoding_cases() -> Vec<Case> {
    const UNSUPPORTED: &[u16] = &[400, 501];
    vec![
        Case::refuse(
            "with a length",
            chunked_and_hidden_request!("Content-Length: 39\r\nTransfer-Encoding: chunked\r\n"),
        ),
        Case::refuse(
            "before a length",
            chunked_and_hidden_request!("Transfer-Encoding: chunked\r\nContent-Length: 39\r\n"),
        ),
        Case::refuse(
            "with a length of zero",
            chunked_and_hidden_request!("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"),
        ),
        Case::refuse(
            "identity with a length",
            with_hidden_request!("Transfer-Encoding: identity\r\nContent-Length: 34\r\n"),
        ),
        Case::refuse(
            "unknown with a length",
            with_hidden_request!("Transfer-Encoding: cow\r\nContent-Length: 34\r\n"),
        ),
        Case::refuse(
            "twice",
            chunked_and_hidden_request!("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        ),
        Case::refuse(
            "twice, second unknown",
            chunked_and_hidden_request!("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n"),
        ),
        Case::refuse(
            "twice, first unknown",
            chunked_and_hidden_request!("Transfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n"),
        ),
        Case::refuse(
            "twice, identity",
            chunked_and_hidden_request!("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
        ),
        Case::refuse(
            "in a 1.0 request",
            "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n",
        ),
        Case::refuse(
            "in a 1.0 keep-alive request",
            "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n",
        ),
        Case::refuse(
            "list, chunked last",
            chunked_and_hidden_request!("Transfer-Encoding: gzip, chunked\r\n"),
        )
        .statuses(UNSUPPORTED),
        Case::refuse(
            "list, chunked first",
            chunked_and_hidden_request!("Transfer-Encoding: chunked, gzip\r\n"),
        )
        .statuses(UNSUPPORTED),
        Case::refuse(
            "list, chunked twice",
            chunked_and_hidden_request!("Transfer-Encoding: chunked, chunked\r\n"),
        )
        .statuses(UNSUPPORTED),
        Case::refuse(
            "list, identity",
            chunked_and_hidden_request!("Transfer-Encoding: chunked, identity\r\n"),
        )
        .statuses(UNSUPPORTED),
        Case::refuse(
            "list with empty members",
            chunked_and_hidden_request!("Transfer-Encoding: ,chunked,\r\n"),
        )
        .statuses(UNSUPPORTED),
        Case::refuse("identity", with_hidden_request!("Transfer-Encoding: identity\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("gzip", with_hidden_request!("Transfer-Encoding: gzip\r\n")).statuses(UNSUPPORTED),
        Case::refuse("xchunked", chunked_and_hidden_request!("Transfer-Encoding: xchunked\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("chunkedx", chunked_and_hidden_request!("Transfer-Encoding: chunkedx\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("chunk", chunked_and_hidden_request!("Transfer-Encoding: chunk\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("parameter", chunked_and_hidden_request!("Transfer-Encoding: chunked;q=1\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("quoted", chunked_and_hidden_request!("Transfer-Encoding: \"chunked\"\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("single-quoted", chunked_and_hidden_request!("Transfer-Encoding: 'chunked'\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse("empty", chunked_and_hidden_request!("Transfer-Encoding:\r\n")).statuses(UNSUPPORTED),
        Case::refuse(
            "vertical tab before",
            chunked_and_hidden_request!("Transfer-Encoding: \x0bchunked\r\n"),
        ),
        Case::refuse("form feed after", chunked_and_hidden_request!("Transfer-Encoding: chunked\x0c\r\n")),
        Case::refuse("NUL after", chunked_and_hidden_request!("Transfer-Encoding: chunked\0\r\n")),
        Case::refuse("non-ASCII space", chunked_and_hidden_request!("Transfer-Encoding: \u{a0}chunked\r\n"))
            .statuses(UNSUPPORTED),
        Case::refuse(
            "space before the colon",
            chunked_and_hidden_request!("Transfer-Encoding : chunked\r\n"),
        ),
        Case::refuse("folded", chunked_and_hidden_request!("Transfer-Encoding:\r\n chunked\r\n")),
        Case::refuse(
            "folded behind another field",
            chunked_and_hidden_request!("X: y\r\n Transfer-Encoding: chunked\r\n"),
        ),
        Case::refuse("behind a bare LF", chunked_and_hidden_request!("X: y\nTransfer-Encoding: chunked\r\n")),
        Case::refuse("behind a bare CR", chunked_and_hidden_request!("X: y\rTransfer-Encoding: chunked\r\n")),
    ]
}

#[test]
fn framing_cannot_be_nominated_away() {
    check(&framing_cannot_be_nominated_away_cases());
}

pub(super) fn framing_cannot_be_nominated_away_cases() -> Vec<Case> {
    vec![
        Case::pass("Content-Length", "POST / HTTP/1.1\r\nHost: h\r\nConnection: Content-Length\r\nContent-Length: 5\r\n\r\nhello").seen(&["\r\n\r\nhello"]),
        Case::pass("Transfer-Encoding", "POST / HTTP/1.1\r\nHost: h\r\nConnection: Transfer-Encoding\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n").seen(&["\r\n\r\nhello"]),
        Case::pass("Host", "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: Host\r\n\r\n").seen(&["Host: a.example\r\n"]),
        Case::pass("X-Forwarded-For", "GET / HTTP/1.1\r\nHost: h\r\nConnection: X-Forwarded-For, X-Real-IP\r\n\r\n").seen(&["X-Forwarded-For: 127.0.0.1"]),
        Case::pass("Authorization", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Authorization\r\nAuthorization: Basic YQ==\r\n\r\n").seen(&["Basic YQ=="]),
        Case::pass("underscore alias of a length frames nothing", "GET / HTTP/1.1\r\nHost: h\r\nContent_Length: 5\r\n\r\n").unseen(&["\r\nContent-Length: 5"]),
        Case::pass("underscore alias of a coding frames nothing", "GET / HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\n\r\n").unseen(&["\r\nTransfer-Encoding"]),
    ]
}
