//! Code that builds a head emits its fields once, to a writer for the protocol in use.

use http::{HeaderName, HeaderValue};
use tidegate_protocol::{Field, Head};

/// A name in both forms: as the start of an HTTP/1 line, and for HTTP/2.
///
/// To the compiler, a `HeaderName` may have interior mutability: behind a reference, the length of `line` is still a known
/// constant where the name is written, and a copy takes a few moves instead of a call.
pub(crate) struct Name {
    line: &'static [u8],
    http2: &'static HeaderName,
}

impl Name {
    /// `line`: with colon and blank.
    const fn new(line: &'static str, http2: &'static HeaderName) -> Name {
        Name { line: line.as_bytes(), http2 }
    }

    pub(crate) fn http2(&self) -> &HeaderName {
        self.http2
    }
}

macro_rules! names {
    ($($item:ident = $text:literal, $http2:literal;)*) => {
        $(pub(crate) static $item: Name = {
            static HTTP2: HeaderName = HeaderName::from_static($http2);
            Name::new(concat!($text, ": "), &HTTP2)
        };)*

        #[cfg(test)]
        const NAMES: &[(&Name, &str)] = &[$((&$item, $text)),*];
    };
}

names! {
    CONTENT_LENGTH = "Content-Length", "content-length";
    CONTENT_TYPE = "Content-Type", "content-type";
    DATE = "Date", "date";
    SERVER = "Server", "server";
    X_FORWARDED_FOR = "X-Forwarded-For", "x-forwarded-for";
    X_FORWARDED_HOST = "X-Forwarded-Host", "x-forwarded-host";
    X_FORWARDED_PORT = "X-Forwarded-Port", "x-forwarded-port";
    X_FORWARDED_PROTO = "X-Forwarded-Proto", "x-forwarded-proto";
    X_REAL_IP = "X-Real-IP", "x-real-ip";
}

/// Where the fields of a head go. One implementation for each protocol.
pub(crate) trait Fields {
    /// Adds the fields of another head for which `passes` is true.
    fn pass(&mut self, head: &Head, passes: impl FnMut(&Field) -> bool);

    /// Adds a field whose value `write` appends.
    fn add(&mut self, name: &'static Name, write: impl FnOnce(&mut Vec<u8>));

    /// Adds a field that is the same in many heads.
    fn add_line(&mut self, line: &FieldLine);

    /// Adds a field that only HTTP/1 has, for framing or the connection: `Name: value CRLF`, in parts.
    fn add_hop_by_hop(&mut self, line: &[&[u8]]);
}

/// The writer for HTTP/1: appends lines.
pub(crate) struct Http1Lines<'a>(pub(crate) &'a mut Vec<u8>);

impl Fields for Http1Lines<'_> {
    fn pass(&mut self, head: &Head, passes: impl FnMut(&Field) -> bool) {
        head.write_fields(self.0, passes);
    }

    #[inline]
    fn add(&mut self, name: &'static Name, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.line);
        write(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn add_line(&mut self, line: &FieldLine) {
        self.0.extend_from_slice(&line.line);
    }

    fn add_hop_by_hop(&mut self, line: &[&[u8]]) {
        for part in line {
            self.0.extend_from_slice(part);
        }
    }
}

/// A field that is kept in both forms, since it is in many heads.
pub(crate) struct FieldLine {
    name: &'static Name,
    line: Vec<u8>,
    /// `None`: HTTP/2 cannot represent it.
    http2: Option<HeaderValue>,
}

impl FieldLine {
    pub(crate) fn new(name: &'static Name, value: &str) -> FieldLine {
        let mut line = FieldLine { name, line: Vec::new(), http2: None };
        line.set(value);
        line
    }

    /// Replaces the value.
    pub(crate) fn set(&mut self, value: &str) {
        self.line.clear();
        Http1Lines(&mut self.line).add(self.name, |line| line.extend_from_slice(value.as_bytes()));
        self.http2 = HeaderValue::from_bytes(value.trim_ascii().as_bytes()).ok();
    }

    pub(crate) fn name(&self) -> &'static Name {
        self.name
    }

    pub(crate) fn http2(&self) -> Option<&HeaderValue> {
        self.http2.as_ref()
    }
}

/// Appends a number in decimal digits.
pub(crate) fn write_decimal(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_both_protocols() {
        for (name, text) in NAMES {
            assert_eq!(name.http2.as_str(), text.to_ascii_lowercase());
            assert_eq!(name.line, format!("{text}: ").as_bytes());
        }
    }

    #[test]
    fn a_line_has_both_forms() {
        let mut line = FieldLine::new(&SERVER, "Tidegate ");
        assert_eq!(line.line, b"Server: Tidegate \r\n");
        assert_eq!(line.http2().map(HeaderValue::as_bytes), Some(&b"Tidegate"[..]));
        line.set("");
        assert_eq!(line.line, b"Server: \r\n");
        assert_eq!(line.http2().map(HeaderValue::as_bytes), Some(&b""[..]));
        line.set("\x01");
        assert_eq!(line.http2(), None);
    }

    #[test]
    fn decimals() {
        for (value, text) in [(0, "0"), (7, "7"), (1024, "1024"), (u64::MAX, "18446744073709551615")] {
            let mut out = Vec::new();
            write_decimal(value, &mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
