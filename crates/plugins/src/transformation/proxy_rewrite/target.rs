//! The target to send, put together of what the configuration and what the client wrote.

use std::ops::Range;

use tidegate_plugin_api::{
    Slashes,
    uri_text::{Kind, UriPart},
};

/// How the path and its pieces are read.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// Everything goes out as it stands.
    pub raw: bool,
    /// What `%2F` in a piece of the path is.
    pub slashes: Slashes,
}

pub(super) struct Target {
    reading: Reading,
    /// Ready to be sent.
    bytes: Vec<u8>,
    place: UriPart,
    /// Where the query begins, which only the configuration says.
    query: Option<usize>,
    /// The path, decoded, and the parts of it that a client wrote.
    path: Vec<u8>,
    written: Vec<Range<usize>>,
    /// A piece of the path has a `%2F`, and it is unknown which.
    is_unclear: bool,
}

impl Target {
    pub(super) fn new(reading: Reading) -> Target {
        Target {
            reading,
            bytes: Vec::new(),
            place: UriPart::default(),
            query: None,
            path: Vec::new(),
            written: Vec::new(),
            is_unclear: false,
        }
    }

    /// Of the configuration.
    pub(super) fn push(&mut self, text: &[u8]) {
        let end = match self.query {
            Some(_) => 0,
            None => text.iter().position(|&byte| byte == b'?').unwrap_or(text.len()),
        };
        let (path, query) = text.split_at(end);
        path.iter().for_each(|&byte| self.write_path(byte));
        if self.query.is_none() && !query.is_empty() {
            self.query = Some(self.bytes.len());
        }
        query.iter().for_each(|&byte| self.write_query(byte));
        self.place = self.place.behind(text);
    }

    /// A piece of the client's decoded path.
    pub(super) fn push_path(&mut self, text: &[u8]) {
        let start = self.path.len();
        let is_path = self.place == UriPart::Path;
        let mut rest = text;
        while let Some((&byte, behind)) = rest.split_first() {
            let slash = rest.strip_prefix(b"%2F");
            self.is_unclear |= slash.is_some() && self.reading.slashes == Slashes::Mixed;
            let slash = slash.filter(|_| self.reading.slashes == Slashes::Encoded);
            match slash {
                Some(_) => self.bytes.extend_from_slice(b"%2F"),
                None => self.write_client(Kind::Path, byte),
            }
            if slash.is_some() && is_path {
                self.path.push(b'/');
            }
            rest = slash.unwrap_or(behind);
        }
        self.written.extend(is_path.then_some(start..self.path.len()));
    }

    /// The value of a variable.
    pub(crate) fn push_value(&mut self, kind: Kind, text: &[u8]) {
        if kind == Kind::Path {
            return self.push_path(text);
        }
        let (kind, start, is_path) = (kind.at(self.place), self.path.len(), self.place == UriPart::Path);
        text.iter().for_each(|&byte| self.write_client(kind, byte));
        self.written.extend(is_path.then_some(start..self.path.len()));
    }

    fn write_client(&mut self, kind: Kind, byte: u8) {
        if self.place == UriPart::Path {
            // Only the configuration starts a query.
            return match self.reading.raw && byte == b'?' {
                true => self.bytes.extend_from_slice(b"%3F"),
                false => self.write_path(byte),
            };
        }
        if kind.escapes(self.place, byte) {
            return tidegate_protocol::uri::encode_component(&[byte], &mut self.bytes);
        }
        self.place = self.place.behind(&[byte]);
        self.write_query(byte);
    }

    fn write_path(&mut self, byte: u8) {
        self.path.push(byte);
        match self.reading.raw {
            true => self.bytes.push(byte),
            false => tidegate_protocol::uri::encode_path(&[byte], &mut self.bytes),
        }
    }

    /// Encodes what no request line may have. A `#` would cut off what is behind it (RFC 9112 section 3.2 has no fragment).
    fn write_query(&mut self, byte: u8) {
        if !self.reading.raw && (byte <= 0x20 || byte == 0x7f || byte == b'#') {
            tidegate_protocol::uri::encode_component(&[byte], &mut self.bytes);
        } else {
            self.bytes.push(byte);
        }
    }

    pub(super) fn is_unclear(&self) -> bool {
        self.is_unclear && !self.reading.raw
    }

    /// Whether the client has written some of a segment `.` or `..`: with `/v2/$1` for `^/files(.*)` it might climb out of `/v2`.
    /// What follows a `;` is left out: servlet containers take `..;x` for `..`.
    pub(super) fn climbs(&self) -> bool {
        let mut start = 0;
        !self.reading.raw
            && self.path.split(|&byte| byte == b'/').any(|segment| {
                let end = start + segment.len();
                let is_written = self.written.iter().any(|part| part.start <= end && start <= part.end);
                start = end + 1;
                let name = segment.split(|&byte| byte == b';').next().unwrap_or_default();
                is_written && matches!(name, b"." | b"..")
            })
    }

    /// With the client's query behind that of the configuration. An empty path is sent as `/` (RFC 9112 section 3.2.1).
    pub(crate) fn with_query(mut self, query: Option<&[u8]>) -> Vec<u8> {
        if self.bytes.is_empty() || self.query == Some(0) {
            self.bytes.insert(0, b'/');
        }
        if let Some(query) = query.filter(|query| !query.is_empty() || self.reading.raw) {
            self.bytes.push(if self.query.is_some() { b'&' } else { b'?' });
            self.bytes.extend_from_slice(query);
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target::new(Reading { raw: false, slashes: Slashes::Text })
    }

    /// Parts in turn of the configuration and of the client's path.
    fn built(mut target: Target, parts: &[&str]) -> Target {
        for (index, part) in parts.iter().enumerate() {
            match index % 2 {
                0 => target.push(part.as_bytes()),
                _ => target.push_path(part.as_bytes()),
            }
        }
        target
    }

    fn text(target: Target, client_query: Option<&str>) -> String {
        String::from_utf8(target.with_query(client_query.map(str::as_bytes))).expect("text")
    }

    #[test]
    fn what_the_client_wrote_is_no_structure() {
        let cases: &[(&[&str], Option<&str>, &str)] = &[
            (&["", "/a b"], None, "/a%20b"),
            (&["", "/a?b"], Some("c=d"), "/a%3Fb?c=d"),
            (&["/a?b=c"], Some("d=e"), "/a?b=c&d=e"),
            (&["/a"], Some("d=e"), "/a?d=e"),
            (&["/a?x\r\ny"], None, "/a?x%0D%0Ay"),
            (&["/a?x=", "1#", "&role=user"], None, "/a?x=1%23&role=user"),
            (&["/a"], Some(""), "/a"),
            (&[""], None, "/"),
            (&[""], Some("a=b"), "/?a=b"),
            (&["?a=", "b"], Some("c=d"), "/?a=b&c=d"),
            (&["/", "b?c", "?id=", "1&role=admin"], Some("d=e"), "/b%3Fc?id=1%26role=admin&d=e"),
            (&["/q?", "a=1&b=2", ""], None, "/q?a=1%26b=2"),
            (&["/q?id=", "c++ 100% é;", ""], None, "/q?id=c%2B%2B%20100%25%20é%3B"),
            (&["/q?id=", "a.b-c_d~/e:@!$'()*,=?"], None, "/q?id=a.b-c_d~/e:@!$'()*,=?"),
            (&["/v", "/a%2Fb%3F"], None, "/v/a%252Fb%253F"),
        ];
        for (parts, client, expected) in cases {
            assert_eq!(text(built(target(), parts), *client), *expected, "{parts:?}");
        }
    }

    #[test]
    fn values_of_variables() {
        for (before, kind, value, expected) in [
            ("/a/", Kind::Raw, "b?c?d", "/a/b%3Fc%3Fd"),
            ("/a/", Kind::Path, "b?c%3F", "/a/b%3Fc%253F"),
            ("/a?", Kind::Raw, "b=c&d=e", "/a?b=c&d=e"),
            ("/a?b=", Kind::Value, "c&role=admin", "/a?b=c%26role=admin"),
            ("/a?b=", Kind::Value, "%26+", "/a?b=%26+"),
            ("/a?b=", Kind::Decoded, "%26+", "/a?b=%2526%2B"),
            ("/a?", Kind::Value, "b=c&d=e", "/a?b=c&d=e"),
            ("/a?b=", Kind::Path, "/c&d", "/a?b=/c%26d"),
        ] {
            let mut target = target();
            target.push(before.as_bytes());
            target.push_value(kind, value.as_bytes());
            assert_eq!(text(target, None), expected, "{before} {value}");
        }
    }

    #[test]
    fn slashes_stay_encoded_where_the_client_encoded_them() {
        let encoded = || Target::new(Reading { raw: false, slashes: Slashes::Encoded });
        assert_eq!(text(built(encoded(), &["/v/", "a%2Fb%"]), None), "/v/a%2Fb%25");
        assert_eq!(text(built(encoded(), &["/v?id=", "a%2Fb%"]), None), "/v?id=a%2Fb%25");
        assert_eq!(text(built(encoded(), &["/v%2F", "a"]), None), "/v%252Fa", "of the configuration");
        assert!(built(encoded(), &["/", "..%2Fa"]).climbs());
    }

    #[test]
    fn clients_write_no_dot_segments() {
        let cases: &[(&[&str], bool)] = &[
            (&["/v/", "../a"], true),
            (&["/v/.", "./a"], true),
            (&["/v/.", "", "./a"], true),
            (&["/v/", "a/.", "."], true),
            (&["/v/../", "a"], false),
            (&["/v/", "..a/...", "/b"], false),
            (&["/v?a=", "/../"], false),
            (&["/v/..?a=", "b"], false),
            (&["/v/", "..;x/a"], true),
            (&["/v/", ".", "/a"], true),
            (&["/v/", ".a/..b"], false),
        ];
        for (parts, expected) in cases {
            assert_eq!(built(target(), parts).climbs(), *expected, "{parts:?}");
        }
    }
}
