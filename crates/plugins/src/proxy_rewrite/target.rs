//! The target to send, put together of what the configuration and what the client wrote.

use plugin::uri_text::{Kind, Place};

#[derive(Default)]
pub(super) struct Target {
    bytes: Vec<u8>,
    place: Place,
    /// Where the query begins, which only the configuration says.
    query: Option<usize>,
}

impl Target {
    /// Of the configuration.
    pub fn push(&mut self, text: &[u8]) {
        if self.query.is_none() {
            self.query = text.iter().position(|&byte| byte == b'?').map(|at| self.bytes.len() + at);
        }
        self.place = self.place.behind(text);
        self.bytes.extend_from_slice(text);
    }

    /// A piece of the client's decoded path.
    pub fn push_path(&mut self, text: &[u8]) {
        // A path is encoded as a whole, in the end.
        let is_path = self.place == Place::Path;
        self.escape(text, |place, byte| !is_path && Kind::Path.escapes(place, byte));
    }

    /// The value of a variable. In the path a `?` is escaped twice, as in APISIX.
    pub fn push_value(&mut self, kind: Kind, text: &[u8]) {
        let kind = kind.at(self.place);
        self.escape(text, |place, byte| match place {
            Place::Path => byte == b'?',
            place => kind.escapes(place, byte),
        });
    }

    fn escape(&mut self, text: &[u8], escapes: impl Fn(Place, u8) -> bool) {
        for &byte in text {
            if escapes(self.place, byte) {
                wire::uri::encode_component(&[byte], &mut self.bytes);
                continue;
            }
            if self.place != Place::Path {
                self.place = self.place.behind(&[byte]);
            }
            self.bytes.push(byte);
        }
    }

    /// The client's query, behind that of the configuration.
    pub fn push_own_query(&mut self, query: &[u8]) {
        self.push(if self.query.is_some() { b"&" } else { b"?" });
        self.bytes.extend_from_slice(query);
    }

    /// As it stands.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Path encoded, and of the query what no request line may have; the client's query behind it.
    pub fn encoded(self, client_query: Option<&[u8]>) -> Vec<u8> {
        let (path, query) = self.bytes.split_at(self.query.unwrap_or(self.bytes.len()));
        let mut out = Vec::with_capacity(self.bytes.len() + 16);
        wire::uri::encode_path(path, &mut out);
        for &byte in query {
            // A `#` would cut off what the configuration says behind it (RFC 9112 section 3.2 has no fragment).
            if byte <= 0x20 || byte == 0x7f || byte == b'#' {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            } else {
                out.push(byte);
            }
        }
        if let Some(client_query) = client_query.filter(|query| !query.is_empty()) {
            out.push(if self.query.is_some() { b'&' } else { b'?' });
            out.extend_from_slice(client_query);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts in turn of the configuration and of the client's path.
    fn encoded(parts: &[&str], client_query: Option<&str>) -> String {
        let mut target = Target::default();
        for (index, part) in parts.iter().enumerate() {
            match index % 2 {
                0 => target.push(part.as_bytes()),
                _ => target.push_path(part.as_bytes()),
            }
        }
        String::from_utf8(target.encoded(client_query.map(str::as_bytes))).expect("text")
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
            (&["/", "b?c", "?id=", "1&role=admin"], Some("d=e"), "/b%3Fc?id=1%26role=admin&d=e"),
            (&["/q?", "a=1&b=2", ""], None, "/q?a=1%26b=2"),
            (&["/q?id=", "c++ 100% é;", ""], None, "/q?id=c%2B%2B%20100%25%20é%3B"),
            (&["/q?id=", "a.b-c_d~/e:@!$'()*,=?"], None, "/q?id=a.b-c_d~/e:@!$'()*,=?"),
        ];
        for (parts, client, expected) in cases {
            assert_eq!(encoded(parts, *client), *expected, "{parts:?}");
        }
    }

    #[test]
    fn values_of_variables() {
        for (before, kind, value, expected) in [
            ("/a/", Kind::Raw, "b?c?d", "/a/b%253Fc%253Fd"),
            ("/a?", Kind::Raw, "b=c&d=e", "/a?b=c&d=e"),
            ("/a?b=", Kind::Value, "c&role=admin", "/a?b=c%26role=admin"),
            ("/a?b=", Kind::Value, "%26+", "/a?b=%26+"),
            ("/a?", Kind::Value, "b=c&d=e", "/a?b=c&d=e"),
            ("/a?b=", Kind::Path, "/c&d", "/a?b=/c%26d"),
        ] {
            let mut target = Target::default();
            target.push(before.as_bytes());
            target.push_value(kind, value.as_bytes());
            assert_eq!(target.encoded(None), expected.as_bytes(), "{before} {value}");
        }
    }
}
