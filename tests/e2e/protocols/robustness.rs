//! Requests such as Http11Probe sends, each with what the RFCs ask for.
//!
//! Where an RFC leaves a choice, the row holds the strict one; docs/smuggling.md compares.

use std::sync::LazyLock;

use crate::protocols::case::{Case, check};

macro_rules! get {
    ($fields:literal) => {
        concat!("GET / HTTP/1.1\r\nHost: h\r\n", $fields, "\r\n")
    };
}

macro_rules! chunks {
    ($body:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", $body)
    };
}

macro_rules! coded {
    ($value:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:", $value, "\r\n\r\n0\r\n\r\n")
    };
}

#[test]
fn chunk_extensions() {
    check(&chunk_extensions_cases());
}

/// RFC 9112 section 7.1.1.
pub(super) fn chunk_extensions_cases() -> Vec<Case> {
    vec![
        Case::pass("name", chunks!("5;a\r\nhello\r\n0\r\n\r\n")),
        Case::pass("name and value", chunks!("5;a=b\r\nhello\r\n0\r\n\r\n")),
        Case::pass("several", chunks!("5;a=b;c;d=\"e\"\r\nhello\r\n0\r\n\r\n")),
        Case::pass("blanks around", chunks!("5 ; a = b ; c\r\nhello\r\n0\r\n\r\n")),
        Case::pass("quoted separators", chunks!("5;a=\"b;c=d\\\"\"\r\nhello\r\n0\r\n\r\n")),
        Case::pass("on the last chunk", chunks!("5\r\nhello\r\n0;a\r\n\r\n")),
        Case::refuse("a bare semicolon", chunks!("5;\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("two semicolons", chunks!("5;;a\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("semicolon at the end", chunks!("5;a;\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("no name", chunks!("5;=b\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("no value", chunks!("5;a=\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("two values", chunks!("5;a=b=c\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("two names", chunks!("5;a b\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("no token", chunks!("5;@a\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("value is not a token", chunks!("5;a=[b]\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("quote does not end", chunks!("5;a=\"b\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("something behind the quote", chunks!("5;a=\"b\"c\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("blank at the end", chunks!("5;a \r\nhello\r\n0\r\n\r\n")),
        Case::refuse("NUL", chunks!("5;a\0\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("bare semicolon on the last chunk", chunks!("5\r\nhello\r\n0;\r\n\r\n")),
    ]
}

/// RFC 9112 sections 6.1 and 6.3: where the last coding is not chunked, the end cannot be found, and 400 goes over the 501
/// for an unknown coding. 501 is left for codings before chunked.
#[test]
fn transfer_codings() {
    check(&[
        Case::pass("capitals", coded!(" ChUnKeD")),
        Case::refuse("chunked, identity", coded!(" chunked, identity")),
        Case::refuse("identity, chunked", coded!(" identity, chunked")).statuses(&[501]),
        Case::refuse("gzip, chunked", coded!(" gzip, chunked")).statuses(&[501]),
        Case::refuse("chunked, gzip", coded!(" chunked, gzip")),
        Case::refuse("chunked twice", coded!(" chunked, chunked")),
        Case::refuse("chunked twice, in capitals", coded!(" Chunked, CHUNKED")),
        Case::refuse("leading comma", coded!(" , chunked")),
        Case::refuse("trailing comma", coded!(" chunked,")),
        Case::refuse("parameter", coded!(" chunked;a=b")),
        Case::refuse("parameter of another", coded!(" chunked, gzip;q=1")),
        Case::refuse("identity", coded!(" identity")),
        Case::refuse("gzip", coded!(" gzip")),
        Case::refuse("unknown", coded!(" xchunked")),
        Case::refuse("empty", coded!("")),
        Case::refuse("vertical tab", coded!(" \x0bchunked")),
        Case::refuse("quoted", coded!(" \"chunked\"")),
        Case::refuse("with a length", coded!(" chunked\r\nContent-Length: 5")),
        Case::refuse("with a bad length", coded!(" chunked\r\nContent-Length: -1")),
        Case::refuse("two fields", coded!(" chunked\r\nTransfer-Encoding: identity")),
        Case::refuse(
            "in HTTP/1.0",
            "POST / HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
    ]);
}

/// RFC 9112 section 3.2.
#[test]
fn targets() {
    check(&[
        Case::pass("absolute form", "GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("absolute form without Host", "GET http://h/a HTTP/1.1\r\n\r\n"),
        Case::refuse("absolute form with two", "GET http://h/a HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"),
        Case::refuse("absolute form with a bad Host", "GET http://h/a HTTP/1.1\r\nHost: h/a\r\n\r\n"),
        Case::refuse("absolute form with an empty Host", "GET http://h/a HTTP/1.1\r\nHost:\r\n\r\n"),
        Case::refuse("absolute form with a bad authority", "GET http://h h/a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("GET *", "GET * HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("OPTIONS *x", "OPTIONS *x HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("authority form", "GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("CONNECT", "CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n").statuses(&[405]),
        Case::refuse("fragment", "GET /#a HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("backslash path", "GET \\a HTTP/1.1\r\nHost: h\r\n\r\n"),
    ]);
}

/// RFC 9110 section 9.3.7: a ping of the server.
#[test]
fn options_of_the_server() {
    check(&[
        Case::answered("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("OPTIONS * without Host", "OPTIONS * HTTP/1.1\r\n\r\n"),
    ]);
}

/// RFC 9110 section 9.1, RFC 9112 sections 2.3 and 3: a method longer than any is 501, not 414.
#[test]
fn methods_and_versions() {
    static LONG: LazyLock<String> = LazyLock::new(|| "A".repeat(40_000));
    let long = |end: &str| [LONG.as_bytes(), end.as_bytes()].concat();
    check(&[
        Case::refuse("33 letters", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\nHost: h\r\n\r\n")
            .statuses(&[501]),
        Case::refuse("40,000 letters", "").sending(long(" / HTTP/1.1\r\nHost: h\r\n\r\n")).statuses(&[501]),
        Case::refuse("40,000 letters and no end", "").sending(long("")).statuses(&[501]),
        Case::refuse("no letters, and no end", "").sending(b"\x16\x03\x01".repeat(100)),
        Case::pass("unknown", "BREW / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("lower case", "get / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("no letters", "G(T / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("TRACE", "TRACE / HTTP/1.1\r\nHost: h\r\n\r\n").statuses(&[405]),
        // RFC 9110 section 2.5: read as the highest minor version that is known.
        Case::pass("1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n").seen(&["GET / HTTP/1.1"]),
        Case::refuse("2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n").statuses(&[505]),
        Case::refuse("01.1", "GET / HTTP/01.1\r\nHost: h\r\n\r\n"),
        Case::refuse("1.1 and more", "GET / HTTP/1.1x\r\nHost: h\r\n\r\n"),
        Case::refuse("small letters", "GET / http/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("none", "GET /\r\nHost: h\r\n\r\n"),
        Case::refuse("space inside", "GET / HTTP/ 1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("tabs", "GET\t/\tHTTP/1.1\r\nHost: h\r\n\r\n"),
        Case::refuse("space at the end", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n"),
        Case::refuse("two empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ]);
}

/// RFC 9112 section 5, RFC 9110 sections 5.5, 7.2 and 8.6.
#[test]
fn fields_and_trailers() {
    check(&[
        Case::refuse("space before the colon", get!("X : 1\r\n")),
        Case::refuse("folded", get!("X: 1\r\n 2\r\n")),
        Case::refuse("bare CR", get!("X: 1\r2\r\n")),
        Case::refuse("bare LF", get!("X: 1\n")),
        Case::refuse("NUL", get!("X: \0\r\n")),
        Case::refuse("no name", get!(": 1\r\n")),
        Case::refuse("no colon", get!("X\r\n")),
        Case::refuse("two hosts", get!("Host: h\r\n")),
        Case::refuse("no host", "GET / HTTP/1.1\r\n\r\n"),
        Case::refuse("host with a path", "GET / HTTP/1.1\r\nHost: h/p\r\n\r\n"),
        Case::refuse("host with a user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n"),
        Case::refuse("length list", get!("Content-Length: 0, 0\r\n")),
        Case::refuse("length twice", get!("Content-Length: 0\r\nContent-Length: 0\r\n")),
        Case::refuse("length -1", get!("Content-Length: -1\r\n")),
        Case::refuse("length +0", get!("Content-Length: +0\r\n")),
        Case::refuse("length 0x0", get!("Content-Length: 0x0\r\n")),
        Case::refuse("length 0.0", get!("Content-Length: 0.0\r\n")),
        Case::refuse("length of nothing", get!("Content-Length: \r\n")),
        Case::refuse("trailer without a name", chunks!("0\r\n: 1\r\n\r\n")),
        Case::refuse("trailer with a bare LF", chunks!("0\r\nX: 1\n\r\n")),
        Case::pass("trailer that frames is dropped", chunks!("0\r\nContent-Length: 5\r\n\r\n"))
            .unseen(&["Content-Length: 5"]),
        Case::pass("trailer that routes is dropped", chunks!("0\r\nHost: evil\r\n\r\n")).unseen(&["evil"]),
        Case::pass("expectation in capitals", get!("Expect: 100-CONTINUE\r\n")),
        Case::pass("obs-text", get!("X: ö\r\n")),
    ]);
}
