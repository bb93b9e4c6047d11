//! Heads that came as HTTP/2 fields (RFC 9113 section 8), brought into the form HTTP/1 heads have.
//!
//! This is where downgrade attacks end: a name, value, method or path that could change meaning once it is written into
//! an HTTP/1 head is refused here, whatever the decoder of frames let through.

use crate::{
    HeaderId, Method, ParseError, RequestHead, RequestLimits, Version,
    connection::ConnectionOptions,
    fields::{TOO_MANY_FIELDS, has_control, is_token_byte},
    trailers,
};

/// The pseudo-header fields of a request.
#[derive(Clone, Copy, Debug)]
pub struct Pseudo<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:authority`; an empty one counts as absent.
    pub authority: Option<&'a [u8]>,
    /// `:path`: path and query.
    pub path: &'a [u8],
    /// A WebSocket through extended CONNECT (RFC 8441). It becomes an HTTP/1 upgrade.
    pub websocket: bool,
}

impl RequestHead {
    /// Fills the head from decoded fields, in their order. `websocket_key` is the nonce that HTTP/1 wants and HTTP/2
    /// does not have.
    pub fn from_fields<'a>(
        &mut self,
        pseudo: Pseudo<'_>,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        websocket_key: impl FnOnce() -> String,
        limits: &RequestLimits,
    ) -> Result<(), ParseError> {
        self.clear();
        self.version = Version::Http2;
        self.connection = ConnectionOptions::default();
        self.take_method_and_path(&pseudo, limits)?;
        if let Some(authority) = pseudo.authority.filter(|authority| !authority.is_empty()) {
            if authority.contains(&b'@') {
                return Err(ParseError::bad("user information in :authority"));
            }
            self.headers.add("Host", authority);
        }
        let mut total = 0;
        let mut cookies: Vec<u8> = Vec::new();
        for (name, value) in fields {
            total += name.len() + value.len() + 4;
            if total > limits.head_bytes {
                return Err(ParseError::with_status(431, "request head larger than the limit"));
            }
            check_field(name, value)?;
            match HeaderId::of(name) {
                HeaderId::Host => self.take_host(value)?,
                // Crumbs of one field (RFC 9113 section 8.2.3); HTTP/1 allows a single line.
                HeaderId::Cookie => {
                    // An empty one would leave a blank at the end, which no field may have.
                    if !cookies.is_empty() && !value.is_empty() {
                        cookies.extend_from_slice(b"; ");
                    }
                    cookies.extend_from_slice(value);
                }
                HeaderId::Te if !value.eq_ignore_ascii_case(b"trailers") => {
                    return Err(ParseError::bad("TE other than trailers in HTTP/2"));
                }
                HeaderId::Connection
                | HeaderId::KeepAlive
                | HeaderId::ProxyConnection
                | HeaderId::TransferEncoding
                | HeaderId::Http2Settings
                | HeaderId::Upgrade => return Err(ParseError::bad("connection-specific field in HTTP/2")),
                _ => self.headers.add(name, value),
            }
        }
        if !cookies.is_empty() {
            self.headers.add("cookie", &cookies);
        }
        if self.headers.len() > limits.fields {
            return Err(TOO_MANY_FIELDS);
        }
        self.end_of_received(limits);
        self.check_credentials()?;
        if pseudo.websocket {
            self.headers.set("Upgrade", "websocket");
            self.headers.set("Sec-WebSocket-Key", websocket_key());
            self.connection.upgrade = true;
        }
        Ok(())
    }

    fn take_method_and_path(
        &mut self,
        pseudo: &Pseudo<'_>,
        limits: &RequestLimits,
    ) -> Result<(), ParseError> {
        let method: &[u8] = if pseudo.websocket { b"GET" } else { pseudo.method };
        crate::request::check_method(method)?;
        self.method = Method::of(method);
        if self.method == Method::Connect {
            return Err(ParseError::with_status(405, "CONNECT is not supported"));
        }
        let path = pseudo.path;
        let star = path == b"*" && self.method == Method::Options;
        if (path.first() != Some(&b'/') && !star) || !crate::request::may_be_target(path) {
            return Err(ParseError::bad("invalid :path"));
        }
        if path.len() > limits.target_bytes {
            return Err(ParseError::with_status(414, "request target longer than the limit"));
        }
        self.set_target(path);
        Ok(())
    }

    /// A `host` field beside `:authority` must have the same value (RFC 9113 section 8.3.1).
    fn take_host(&mut self, value: &[u8]) -> Result<(), ParseError> {
        match self.headers.known(HeaderId::Host) {
            None => self.headers.add("Host", value),
            Some(authority) if authority.eq_ignore_ascii_case(value) => {}
            Some(_) => return Err(ParseError::bad("host and :authority differ")),
        }
        Ok(())
    }
}

/// RFC 9113 section 8.2.1: the bytes that a name and a value may have.
fn check_field(name: &[u8], value: &[u8]) -> Result<(), ParseError> {
    if name.is_empty() || !name.iter().all(|&byte| is_token_byte(byte) && !byte.is_ascii_uppercase()) {
        return Err(ParseError::bad("invalid field name in HTTP/2"));
    }
    if has_control(value) {
        return Err(ParseError::bad("control character in a field value"));
    }
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if blank(value.first()) || blank(value.last()) {
        return Err(ParseError::bad("whitespace around a field value in HTTP/2"));
    }
    Ok(())
}

/// Refuses trailers that HTTP/1 refuses too: too many fields, and invalid bytes in a field.
pub fn check_trailers<'a>(fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Result<(), ParseError> {
    let mut invalid = Ok(());
    let lengths = fields.map(|(name, value)| {
        invalid = invalid.and_then(|()| check_field(name, value));
        name.len() + value.len()
    });
    trailers::check_size(lengths)?;
    invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn read(
        method: &str,
        authority: Option<&str>,
        path: &str,
        fields: Fields,
    ) -> Result<RequestHead, ParseError> {
        let mut head = RequestHead::default();
        let pseudo = Pseudo {
            method: method.as_bytes(),
            authority: authority.map(str::as_bytes),
            path: path.as_bytes(),
            websocket: false,
        };
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        head.from_fields(pseudo, fields, String::new, &RequestLimits::default())?;
        head.host()?;
        crate::framing::request_body(&head)?;
        Ok(head)
    }

    fn lines(head: &RequestHead) -> String {
        let mut out = Vec::new();
        head.headers.write_fields(&mut out, |_| true);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_become_those_of_http1() {
        let cookies = [("cookie", "a=1"), ("accept", "*/*"), ("cookie", "b=2"), ("te", "trailers")];
        let head = read("GET", Some("h:1"), "/a?b", &cookies).unwrap();
        assert_eq!(lines(&head), "Host: h:1\r\naccept: */*\r\nte: trailers\r\ncookie: a=1; b=2\r\n");
        assert_eq!(
            (head.raw_path(), head.query(), head.version.as_str()),
            (&b"/a"[..], Some(&b"b"[..]), "HTTP/2.0")
        );
        let head = read("GET", None, "/", &[("host", "x")]).unwrap();
        assert_eq!(lines(&head), "Host: x\r\n");
        let head = read("GET", None, "/", &[("host", "x"), ("cookie", "a=1"), ("cookie", "")]).unwrap();
        assert_eq!(lines(&head), "Host: x\r\ncookie: a=1\r\n");
        assert!(read("GET", Some("x"), "/", &[("host", "X")]).is_ok());
        assert!(read("OPTIONS", Some("x"), "*", &[]).is_ok());
    }

    #[test]
    fn what_could_change_meaning_downstream_is_refused() {
        let cases: &[(&str, Option<&str>, &str, Fields, u16)] = &[
            ("GET", None, "/", &[], 400),
            ("GET", Some("a"), "/", &[("host", "b")], 400),
            ("GET", Some("a"), "/", &[("host", "a"), ("host", "b")], 400),
            ("GET", Some("u@a"), "/", &[], 400),
            ("GET", Some("a b"), "/", &[], 400),
            ("GET", Some("a\r\nx: y"), "/", &[], 400),
            ("GET", Some("a/b"), "/", &[], 400),
            ("GET", Some("a"), "", &[], 400),
            ("GET", Some("a"), "*", &[], 400),
            ("GET", Some("a"), "http://b/", &[], 400),
            ("GET", Some("a"), "/ HTTP/1.1\r\nx: y", &[], 400),
            ("GET", Some("a"), "/a\tb", &[], 400),
            ("GET", Some("a"), "/a#b", &[], 400),
            ("GET / HTTP/1.1\r\nx: y", Some("a"), "/", &[], 400),
            ("GE T", Some("a"), "/", &[], 400),
            ("", Some("a"), "/", &[], 400),
            ("get", Some("a"), "/", &[], 400),
            // As over HTTP/1.
            (concat!("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "ABCDEFG"), Some("a"), "/", &[], 501),
            ("CONNECT", Some("a"), "/", &[], 405),
            ("GET", Some("a"), "/", &[("x", "a\r\nb: c")], 400),
            ("GET", Some("a"), "/", &[("x", "a\nb")], 400),
            ("GET", Some("a"), "/", &[("x", "a\rb")], 400),
            ("GET", Some("a"), "/", &[("x", "a\0b")], 400),
            ("GET", Some("a"), "/", &[("x", " a")], 400),
            ("GET", Some("a"), "/", &[("x", "a\t")], 400),
            ("GET", Some("a"), "/", &[("x: y\r\nz", "a")], 400),
            ("GET", Some("a"), "/", &[("x:", "a")], 400),
            ("GET", Some("a"), "/", &[("x y", "a")], 400),
            ("GET", Some("a"), "/", &[("", "a")], 400),
            ("GET", Some("a"), "/", &[("X-Upper", "a")], 400),
            ("GET", Some("a"), "/", &[(":path", "/b")], 400),
            ("GET", Some("a"), "/", &[("connection", "close")], 400),
            ("GET", Some("a"), "/", &[("keep-alive", "1")], 400),
            ("GET", Some("a"), "/", &[("proxy-connection", "close")], 400),
            ("GET", Some("a"), "/", &[("upgrade", "h2c")], 400),
            ("GET", Some("a"), "/", &[("http2-settings", "x")], 400),
            ("POST", Some("a"), "/", &[("transfer-encoding", "chunked")], 400),
            ("GET", Some("a"), "/", &[("te", "gzip")], 400),
            ("POST", Some("a"), "/", &[("content-length", "+1")], 400),
            ("POST", Some("a"), "/", &[("content-length", "1"), ("content-length", "2")], 400),
            ("POST", Some("a"), "/", &[("content-length", "1, 1")], 400),
        ];
        for (method, authority, path, fields, status) in cases {
            let result = read(method, *authority, path, fields);
            let found = result.map(|head| lines(&head)).map_err(|error| error.status);
            assert_eq!(found, Err(*status), "{method:?} {authority:?} {path:?} {fields:?}");
        }
    }

    #[test]
    fn heads_are_bounded() {
        let long = "x".repeat(RequestLimits::default().target_bytes);
        assert_eq!(read("GET", Some("a"), &format!("/{long}"), &[]).unwrap_err().status, 414);
        let many: Vec<(&str, &str)> = vec![("x", "y"); 101];
        assert_eq!(read("GET", Some("a"), "/", &many).unwrap_err().status, 431);
        let big = "x".repeat(RequestLimits::default().head_bytes);
        assert_eq!(read("GET", Some("a"), "/", &[("x", &big)]).unwrap_err().status, 431);
    }

    #[test]
    fn a_websocket_becomes_an_upgrade() {
        let mut head = RequestHead::default();
        let pseudo = Pseudo { method: b"CONNECT", authority: Some(b"h"), path: b"/ws", websocket: true };
        head.from_fields(pseudo, std::iter::empty(), || "nonce".to_owned(), &RequestLimits::default())
            .unwrap();
        assert_eq!(lines(&head), "Host: h\r\nUpgrade: websocket\r\nSec-WebSocket-Key: nonce\r\n");
        assert!(head.connection.upgrade && head.method == Method::Get);
    }
}
