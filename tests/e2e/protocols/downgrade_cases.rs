//! Requests in HTTP/2 that would mean something else once they are written as HTTP/1: the tables of [`crate::protocols::downgrade`].

use tidegate_testkit::http2::field;

/// What this gateway must make of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outlook {
    Refused,
    Served,
    /// Crate `h2` leaves out what would be wrong, or it shows only when the head is on its way.
    Harmless,
}

/// One stream's request, and what must come of it.
pub(super) struct Case {
    pub name: &'static str,
    /// Names and values in their order, pseudo-header fields included.
    pub fields: Vec<(&'static str, &'static str)>,
    /// `None`: the head ends the stream.
    pub body: Option<&'static str>,
    pub trailers: &'static [(&'static str, &'static str)],
    pub outlook: Outlook,
    /// What a request that passes must have become, and what must not be in it, in small letters.
    pub seen: &'static str,
    pub unseen: &'static str,
}

type Fields = &'static [(&'static str, &'static str)];
type Table = (&'static str, Vec<Case>);

/// A body that is also a request.
const STOLEN: &str = "GET /stolen HTTP/1.1\r\nHost: h\r\n\r\n";
/// The same behind the end of a chunked body.
const BEHIND_CHUNKS: &str = "0\r\n\r\nGET /stolen HTTP/1.1\r\nHost: h\r\n\r\n";

impl Case {
    /// A GET with these fields more; refused.
    fn get(name: &'static str, more: Fields) -> Case {
        Case::of(name, ["GET", "h", "/"], more)
    }

    /// A POST with these fields and a body; refused.
    fn post(name: &'static str, more: Fields, body: &'static str) -> Case {
        Case { body: Some(body), ..Case::of(name, ["POST", "h", "/"], more) }
    }

    fn of(name: &'static str, [method, authority, path]: [&'static str; 3], more: Fields) -> Case {
        let pseudo = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)];
        let fields = pseudo.into_iter().chain(more.iter().copied()).collect();
        Case::exactly(name, fields)
    }

    fn exactly(name: &'static str, fields: Vec<(&'static str, &'static str)>) -> Case {
        Case {
            name,
            fields,
            body: None,
            trailers: &[],
            outlook: Outlook::Refused,
            seen: "",
            unseen: "smuggled",
        }
    }

    fn passes(self, seen: &'static str) -> Case {
        Case { outlook: Outlook::Served, seen, ..self }
    }

    fn harmless(self) -> Case {
        Case { outlook: Outlook::Harmless, ..self }
    }

    fn without(self, unseen: &'static str) -> Case {
        Case { unseen, ..self }
    }

    fn trailers(self, trailers: Fields) -> Case {
        Case { trailers, ..self }
    }

    fn path(self, path: &'static str) -> Case {
        self.with(":path", path)
    }

    fn method(self, method: &'static str) -> Case {
        self.with(":method", method)
    }

    fn with(mut self, wanted: &str, text: &'static str) -> Case {
        self.fields.iter_mut().filter(|(name, _)| *name == wanted).for_each(|(_, value)| *value = text);
        self
    }

    pub(super) fn block(&self) -> Vec<u8> {
        self.fields.iter().flat_map(|(name, value)| field(name, value)).collect()
    }
}

pub(super) fn tables() -> Vec<Table> {
    vec![
        ("lengths", lengths()),
        ("codings", codings()),
        ("fields of a connection", connection_fields()),
        ("pseudo fields", pseudo_fields()),
        ("methods", methods()),
        ("paths", paths()),
        ("authorities", authorities()),
        ("names", names()),
        ("values", values()),
        ("trailers", trailers()),
        ("right requests", right()),
    ]
}

fn lengths() -> Vec<Case> {
    vec![
        Case::post("zero, and a body", &[("content-length", "0")], STOLEN).harmless(),
        Case::post("shorter than the body", &[("content-length", "5")], STOLEN),
        Case::post("longer than the body", &[("content-length", "200")], STOLEN),
        Case::get("without a body", &[("content-length", "5")]),
        Case::post("two that differ", &[("content-length", "0"), ("content-length", "33")], STOLEN),
        Case::post(
            "two that differ, other order",
            &[("content-length", "33"), ("content-length", "0")],
            STOLEN,
        ),
        Case::post("two that agree", &[("content-length", "33"), ("content-length", "33")], STOLEN),
        Case::post("list that agrees", &[("content-length", "33, 33")], STOLEN),
        Case::post("plus sign", &[("content-length", "+33")], STOLEN),
        Case::get("plus sign and zero", &[("content-length", "+0")]),
        Case::post("minus sign", &[("content-length", "-33")], STOLEN),
        Case::post("hexadecimal", &[("content-length", "0x21")], STOLEN),
        Case::post("empty", &[("content-length", "")], STOLEN),
        Case::post("blank inside", &[("content-length", "3 3")], STOLEN),
        Case::post("blank before", &[("content-length", " 33")], STOLEN),
        Case::post("over 64 bits", &[("content-length", "18446744073709551649")], STOLEN),
        Case::post("in a value behind a line break", &[("x", "a\r\ncontent-length: 0")], STOLEN),
        Case::post("in a name before a line break", &[("content-length: 0\r\nx", "a")], STOLEN),
        Case::post("in the path behind a line break", &[], STOLEN)
            .path("/ HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"),
    ]
}

fn codings() -> Vec<Case> {
    vec![
        Case::post("chunked", &[("transfer-encoding", "chunked")], BEHIND_CHUNKS),
        Case::post(
            "chunked with a length",
            &[("transfer-encoding", "chunked"), ("content-length", "38")],
            BEHIND_CHUNKS,
        ),
        Case::post(
            "length, then chunked",
            &[("content-length", "38"), ("transfer-encoding", "chunked")],
            BEHIND_CHUNKS,
        ),
        Case::post("identity", &[("transfer-encoding", "identity")], STOLEN),
        Case::post("in capitals", &[("Transfer-Encoding", "chunked")], BEHIND_CHUNKS),
        Case::post("unknown", &[("transfer-encoding", "xchunked")], BEHIND_CHUNKS),
        Case::post("blank behind the name", &[("transfer-encoding ", "chunked")], BEHIND_CHUNKS),
        Case::post("colon in the name", &[("transfer-encoding:chunked", "")], BEHIND_CHUNKS),
        Case::post("vertical tab before the name", &[("\u{b}transfer-encoding", "chunked")], BEHIND_CHUNKS),
        Case::post(
            "in a value behind a line break",
            &[("x", "a\r\ntransfer-encoding: chunked")],
            BEHIND_CHUNKS,
        ),
        Case::post("in a value behind a line feed", &[("x", "a\ntransfer-encoding: chunked")], BEHIND_CHUNKS),
        Case::post(
            "in a name before a line break",
            &[("transfer-encoding: chunked\r\nx", "a")],
            BEHIND_CHUNKS,
        ),
        Case::post("in the method", &[], BEHIND_CHUNKS)
            .method("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nx:"),
        Case::get("TE other than trailers", &[("te", "gzip")]),
        Case::get("TE with more than trailers", &[("te", "trailers, chunked")]),
    ]
}

fn connection_fields() -> Vec<Case> {
    vec![
        Case::get("connection: close", &[("connection", "close")]),
        Case::post("connection: content-length", &[("connection", "content-length")], STOLEN),
        Case::get("keep-alive", &[("keep-alive", "timeout=5")]),
        Case::get("proxy-connection", &[("proxy-connection", "close")]),
        Case::get("upgrade: h2c", &[("upgrade", "h2c")]),
        Case::get(
            "upgrade: websocket",
            &[("upgrade", "websocket"), ("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==")],
        ),
        Case::get("http2-settings", &[("http2-settings", "AAMAAABkAAQAAP__")]),
    ]
}

fn pseudo_fields() -> Vec<Case> {
    let one = |name, fields: Fields| Case::exactly(name, fields.to_vec());
    vec![
        Case::get("path behind a field", &[("x", "1"), (":path", "/stolen")]),
        Case::get("two paths", &[(":path", "/stolen")]),
        Case::get("two methods", &[(":method", "POST")]),
        Case::get("two authorities", &[(":authority", "other")]),
        Case::get("two schemes", &[(":scheme", "https")]),
        Case::get("unknown", &[(":foo", "bar")]),
        Case::get("of an answer", &[(":status", "200")]),
        Case::get("protocol without CONNECT", &[(":protocol", "websocket")]),
        one("no method", &[(":scheme", "http"), (":authority", "h"), (":path", "/")]),
        one("no scheme", &[(":method", "GET"), (":authority", "h"), (":path", "/")]),
        one("no path", &[(":method", "GET"), (":scheme", "http"), (":authority", "h")]),
        one(
            "scheme with a line break",
            &[(":method", "GET"), (":scheme", "http\r\nsmuggled: 1"), (":authority", "h"), (":path", "/")],
        ),
        one(
            "scheme that holds a URI",
            &[(":method", "GET"), (":scheme", "http://h/stolen?"), (":authority", "h"), (":path", "/")],
        ),
    ]
}

fn methods() -> Vec<Case> {
    let one = |name, method| Case::of(name, [method, "h", "/"], &[]);
    vec![
        one("a whole request", "GET /stolen HTTP/1.1\r\nHost: h\r\n\r\nGET"),
        one("a request line and a field", "GET / HTTP/1.1\r\nsmuggled: 1\r\nx:"),
        one("a target", "GET /stolen"),
        one("tab", "GET\t/stolen"),
        one("NUL", "GE\0T"),
        one("bracket", "GE(T"),
        one("empty", ""),
        Case::exactly("CONNECT", vec![(":method", "CONNECT"), (":authority", "h:80")]),
        one("CONNECT with a path", "CONNECT"),
    ]
}

fn paths() -> Vec<Case> {
    let one = |name, path| Case::of(name, ["GET", "h", path], &[]);
    vec![
        one("a whole request", "/ HTTP/1.1\r\nHost: h\r\n\r\nGET /stolen HTTP/1.1\r\nx: y"),
        one("a version and a field", "/ HTTP/1.1\r\nsmuggled: 1\r\nx: y"),
        one("behind line feeds", "/ HTTP/1.1\nsmuggled: 1\nx: y"),
        one("behind a bare CR", "/\rsmuggled: 1"),
        one("version", "/stolen HTTP/1.1"),
        one("blank", "/a b"),
        one("tab", "/a\tb"),
        one("NUL", "/a\0b"),
        one("DEL", "/a\u{7f}b"),
        one("backslash", "/a\\..\\b"),
        one("fragment", "/a#b").harmless(),
        one("empty", ""),
        one("asterisk without OPTIONS", "*"),
        Case::of("asterisk with OPTIONS, which is answered here", ["OPTIONS", "h", "*"], &[]).harmless(),
        one("relative", "stolen"),
        one("absolute", "http://other/"),
        one("absolute, other scheme", "ftp://other/"),
        one("blank before", " /stolen"),
    ]
}

fn authorities() -> Vec<Case> {
    let one = |name, authority| Case::of(name, ["GET", authority, "/"], &[]);
    vec![
        one("line break and a field", "h\r\nsmuggled: 1"),
        one("line break and a request", "h\r\n\r\nGET /stolen HTTP/1.1\r\nHost: h"),
        one("line feed and a field", "h\nsmuggled: 1"),
        one("NUL", "h\0"),
        one("blank", "a b"),
        one("slash", "h/stolen"),
        one("user", "user@h"),
        one("question mark", "h?a"),
        one("hash", "h#a"),
        one("backslash", "h\\a"),
        one("comma, which a name may hold", "h,other").passes("host: h,other\r\n"),
        Case::get("host that differs", &[("host", "other")]),
        Case::get("two hosts", &[("host", "h"), ("host", "other")]),
        Case::get("host with a line break", &[("host", "h\r\nsmuggled: 1")]),
        Case::exactly(
            "neither authority nor host",
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/")],
        ),
    ]
}

fn names() -> Vec<Case> {
    vec![
        Case::get("line break and a field", &[("x: y\r\nsmuggled", "1")]),
        Case::get("line break and a request", &[("x: y\r\n\r\nGET /stolen HTTP/1.1\r\nhost: h\r\nx", "y")]),
        Case::get("line feed and a field", &[("x: y\nsmuggled", "1")]),
        Case::get("bare CR", &[("x\rsmuggled", "1")]),
        Case::get("colon behind", &[("x:", "y")]),
        Case::get("colon inside", &[("host:other", "y")]),
        Case::get("blank inside", &[("x y", "z")]),
        Case::get("blank behind", &[("x ", "y")]),
        Case::get("tab", &[("x\ty", "z")]),
        Case::get("NUL", &[("x\0y", "z")]),
        Case::get("empty", &[("", "y")]),
        Case::get("upper case", &[("X-Upper", "y")]),
        Case::get("bracket", &[("x(y", "z")]),
        Case::get("slash", &[("x/y", "z")]),
        Case::get("DEL", &[("x\u{7f}", "y")]),
        Case::get("not ASCII", &[("x\u{e9}", "y")]),
    ]
}

fn values() -> Vec<Case> {
    vec![
        Case::get("line break and a field", &[("x", "y\r\nsmuggled: 1")]),
        Case::get("line break and a request", &[("x", "y\r\n\r\nGET /stolen HTTP/1.1\r\nhost: h")]),
        Case::get("line feed and a field", &[("x", "y\nsmuggled: 1")]),
        Case::get("bare CR", &[("x", "y\rsmuggled: 1")]),
        Case::get("line break and a blank", &[("x", "y\r\n smuggled: 1")]),
        Case::get("line break at the end", &[("x", "y\r\n")]),
        Case::get("NUL", &[("x", "y\0z")]),
        Case::get("blank before", &[("x", " y")]),
        Case::get("tab behind", &[("x", "y\t")]),
        Case::get("control", &[("x", "y\u{1}z")]),
        Case::get("DEL", &[("x", "y\u{7f}z")]),
        Case::get("cookie with a line break", &[("cookie", "a=1\r\nsmuggled: 1")]),
    ]
}

fn trailers() -> Vec<Case> {
    let one = |name, trailers| Case::post(name, &[], "hello").trailers(trailers);
    vec![
        one("line break and a field", &[("x", "y\r\nsmuggled: 1")]),
        one("line break in a name", &[("x: y\r\nsmuggled", "1")]),
        one("a pseudo field", &[(":path", "/stolen")]).harmless(),
        one("upper case", &[("X-Upper", "y")]),
        one("a length is dropped", &[("content-length", "0")]).passes("post / ").without("content-length: 0"),
        one("a host is dropped", &[("host", "other")]).passes("post / ").without("other"),
        one("a checksum", &[("x-checksum", "abc")]).passes("post / "),
    ]
}

fn right() -> Vec<Case> {
    vec![
        Case::get("simple", &[]).passes("get / http/1.1\r\n"),
        Case::get("the same host", &[("host", "h")]).passes("host: h\r\n"),
        Case::get("crumbs of a cookie", &[("cookie", "a=1"), ("cookie", "b=2")])
            .passes("cookie: a=1; b=2\r\n"),
        Case::get("TE: trailers", &[("te", "trailers")]).passes("get / "),
        Case::get("length zero without a body", &[("content-length", "0")]).passes("get / "),
        Case::post("body without a length", &[], STOLEN).passes("post / ").without("content-length: 0"),
        Case::post("body with its length", &[("content-length", "33")], STOLEN)
            .passes("post / ")
            .without("content-length: 0"),
        Case::post("empty body", &[], "").passes("post / "),
        Case::of("query and a second question mark", ["GET", "h", "/a?b?c"], &[])
            .passes("get /a?b?c http/1.1\r\n"),
        Case::of("port", ["GET", "h:8080", "/"], &[]).passes("host: h:8080\r\n"),
        Case::exactly(
            "host instead of authority",
            vec![(":method", "GET"), (":scheme", "http"), (":path", "/"), ("host", "h")],
        )
        .passes("host: h\r\n"),
    ]
}
