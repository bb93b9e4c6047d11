//! The chunked coding, good and bad (RFC 9112 section 7.1).
//!
//! A bad chunk may come when the head is already forwarded: what counts is that the upstream never gets a
//! complete request, the client gets 400, and nothing after it is read.

use tidegate_testkit::Upstream;
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};

use crate::protocols::case::{Case, check};

macro_rules! chunked {
    ($body:literal) => {
        concat!("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", $body)
    };
}

#[test]
fn accepted() {
    check(&accepted_cases());
}

pub(super) fn accepted_cases() -> Vec<Case> {
    vec![
        Case::pass("one chunk", chunked!("5\r\nhello\r\n0\r\n\r\n")).seen(&["\r\n\r\nhello"]),
        Case::pass("two chunks", chunked!("3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")).seen(&["\r\n\r\nhello"]),
        Case::pass("empty body", chunked!("0\r\n\r\n")),
        Case::pass("capital digits", chunked!("A\r\n0123456789\r\n0\r\n\r\n")).seen(&["0123456789"]),
        Case::pass("small digits", chunked!("a\r\n0123456789\r\n0\r\n\r\n")).seen(&["0123456789"]),
        Case::pass("leading zeros", chunked!("0005\r\nhello\r\n0000\r\n\r\n")).seen(&["\r\n\r\nhello"]),
        Case::pass("CRLF in the data", chunked!("4\r\n\r\n\r\n\r\n0\r\n\r\n")),
        Case::pass(
            "coding in capitals",
            "POST / HTTP/1.1\r\nHost: h\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        )
        .seen(&["\r\n\r\nok"]),
        Case::pass(
            "tab before the coding",
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\tchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        )
        .seen(&["\r\n\r\nok"]),
        Case::pass("extensions are dropped", chunked!("5;name=value;other\r\nhello\r\n0;last\r\n\r\n"))
            .seen(&["hello"])
            .unseen(&["name=value", ";last"]),
        Case::pass("quoted extension", chunked!("5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n")).seen(&["hello"]),
        Case::pass("blank before an extension", chunked!("5 ;a\r\nhello\r\n0\r\n\r\n")).seen(&["hello"]),
        Case::pass("trailer", chunked!("5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n")).seen(&["hello"]),
        Case::pass(
            "trailers cannot frame",
            chunked!("5\r\nhello\r\n0\r\nContent-Length: 7707707\r\nTransfer-Encoding: gzip\r\n\r\n"),
        )
        .seen(&["hello"])
        .unseen(&["7707707", "gzip"]),
        Case::pass(
            "trailers cannot authenticate",
            chunked!("5\r\nhello\r\n0\r\nAuthorization: Basic YQ==\r\nHost: evil\r\n\r\n"),
        )
        .unseen(&["YQ==", "evil"]),
    ]
}

#[test]
fn refused_sizes() {
    check(&refused_sizes_cases());
}

pub(super) fn refused_sizes_cases() -> Vec<Case> {
    vec![
        Case::refuse("no digit", chunked!("g\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("empty size", chunked!("\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("minus", chunked!("-5\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("plus", chunked!("+5\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("0x", chunked!("0x5\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("underscore", chunked!("0_5\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("space before", chunked!(" 5\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("space after", chunked!("5 \r\nhello\r\n0\r\n\r\n")),
        Case::refuse("tab after", chunked!("5\t\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("comma", chunked!("5,\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("17 digits", chunked!("00000000000000005\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("overflows to 5", chunked!("10000000000000005\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("all bits set", chunked!("ffffffffffffffff\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("overflows when two are added", chunked!("fffffffffffffffe\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("endless size line", "")
            .sending([chunked!("").as_bytes(), "1".repeat(5000).as_bytes()].concat()),
        Case::refuse("endless extension", "")
            .sending([chunked!("5;").as_bytes(), "x".repeat(20_000).as_bytes()].concat()),
    ]
}

#[test]
fn refused_line_ends() {
    check(&refused_line_ends_cases());
}

pub(super) fn refused_line_ends_cases() -> Vec<Case> {
    vec![
        Case::refuse("bare LF after a size", chunked!("5\nhello\r\n0\r\n\r\n")),
        Case::refuse("bare CR after a size", chunked!("5\rhello\r\n0\r\n\r\n")),
        Case::refuse("CR CR LF after a size", chunked!("5\r\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("bare LF after an extension", chunked!("5;a\nhello\r\n0\r\n\r\n")),
        Case::refuse("bare CR in an extension", chunked!("5;a\rb\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("NUL in an extension", chunked!("5;a\0\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("data longer than its size", chunked!("4\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("data shorter than its size", chunked!("6\r\nhello\r\n0\r\n\r\n")),
        Case::refuse("bare LF after data", chunked!("5\r\nhello\n0\r\n\r\n")),
        Case::refuse("nothing after data", chunked!("5\r\nhello0\r\n\r\n")),
        Case::refuse("bare LF after the last size", chunked!("0\n\r\n")),
        Case::refuse("bare LF at the very end", chunked!("0\r\n\n")),
        Case::refuse("bare LF after a trailer", chunked!("0\r\nX-A: b\n\r\n")),
        Case::refuse("trailer without colon", chunked!("0\r\nnonsense\r\n\r\n")),
        Case::refuse("trailer with a space before the colon", chunked!("0\r\nX-A : b\r\n\r\n")),
        Case::refuse("folded trailer", chunked!("0\r\nX-A: b\r\n c\r\n\r\n")),
        Case::refuse("NUL in a trailer", chunked!("0\r\nX-A: b\0\r\n\r\n")),
        Case::refuse(
            "request instead of the last line end",
            chunked!("0\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n"),
        ),
    ]
}

/// As fields of a head are (RFC 6585 section 5), whoever reads the body.
#[test]
fn trailers_beyond_their_bounds_are_answered_431() {
    let upstream = Upstream::start();
    let node = upstream.address;
    let routes = format!(
        "routes:\n- {{id: 1, uri: /echo, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n\
         - {{id: 2, uri: /echo, vars: [[arg_whole, ==, \"1\"]], priority: 1, \
         plugins: {{request-validation: {{body_schema: {{type: object}}}}}}, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let field = |number: usize, length: usize| format!("X-{number}: {}\r\n", "v".repeat(length));
    let cases = [
        ("as many as may be", (0..64).map(|number| field(number, 9)).collect::<String>() + "\r\n", 200),
        ("too many", (0..65).map(|number| field(number, 9)).collect::<String>() + "\r\n", 431),
        ("too long together", (0..5).map(|number| field(number, 4000)).collect::<String>() + "\r\n", 431),
        ("one that does not end", format!("X-1: {}", "v".repeat(20_000)), 431),
    ];
    for path in ["/echo", "/echo?whole=1"] {
        for (what, trailers, status) in &cases {
            let mut client = gateway.client();
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2\r\n{{}}\r\n0\r\n{trailers}"
            );
            client.send(request.as_bytes()).expect("sends");
            assert_eq!(client.response().expect("an answer").status(), *status, "{path}: {what}");
        }
    }
}
