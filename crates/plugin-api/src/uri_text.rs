//! A client's text inside a URI that a configuration writes: it must not become structure there. A path is matched
//! decoded, so that `%3F` and `%26` of a client are `?` and `&` in `$uri` and in the groups of a pattern.

use crate::{Variable, variables::Named};

/// Where in a URI the next byte goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UriPart {
    /// Before the `?`.
    #[default]
    Path,
    /// In the query, before the `=` of an argument.
    Name,
    /// In the query, behind it.
    Value,
}

impl UriPart {
    /// The place behind `written`.
    pub fn behind(self, written: &[u8]) -> UriPart {
        written.iter().fold(self, |place, byte| match (place, byte) {
            (UriPart::Path, b'?') | (UriPart::Value, b'&') => UriPart::Name,
            (UriPart::Name, b'=') => UriPart::Value,
            (place, _) => place,
        })
    }
}

/// The form of a client's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of the decoded path.
    Path,
    /// A single value as the client wrote it: of a cookie, a field.
    Value,
    /// A single value that was decoded: of an argument.
    Decoded,
    /// A piece of a URI as the client wrote it.
    Raw,
}

impl Kind {
    /// How the gateway has decoded the variable's value, if at all.
    pub fn of(variable: &Variable) -> Kind {
        match variable {
            Variable::Named(Named::Uri | Named::DocumentUri) | Variable::UriParameter(_) => Kind::Path,
            Variable::Arg(_) | Variable::PostArg(_) | Variable::PostArgPath(_) => Kind::Decoded,
            Variable::Cookie(_) | Variable::RawCookie(_) | Variable::Header(_) => Kind::Value,
            _ => Kind::Raw,
        }
    }

    /// The kind at the beginning of a place. A value in front of any `=` is meant as a whole path or as whole
    /// arguments.
    pub fn at(self, place: UriPart) -> Kind {
        match (self, place) {
            (Kind::Value | Kind::Decoded, UriPart::Path | UriPart::Name) => Kind::Raw,
            (kind, _) => kind,
        }
    }

    /// Whether a byte would end the part that it is in, or start another one.
    pub fn escapes(self, place: UriPart, byte: u8) -> bool {
        match (self, place) {
            (Kind::Path, UriPart::Path) => matches!(byte, b'?' | b'#'),
            // `+` is a blank there, and `%` would be decoded a second time.
            (Kind::Path, UriPart::Name | UriPart::Value) | (Kind::Decoded, UriPart::Value) => {
                matches!(byte, b'&' | b';' | b'#' | b'+' | b'%' | b' ') || byte.is_ascii_control()
            }
            (Kind::Value, UriPart::Value) => matches!(byte, b'&' | b'#' | b' ') || byte.is_ascii_control(),
            (Kind::Value | Kind::Decoded | Kind::Raw, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escaped(kind: Kind, place: UriPart, text: &str) -> String {
        let mut out = Vec::new();
        for byte in text.bytes() {
            match kind.escapes(place, byte) {
                true => tidegate_protocol::uri::encode_component(&[byte], &mut out),
                false => out.push(byte),
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places() {
        for (written, place) in [
            ("/a=b&c", UriPart::Path),
            ("/a?", UriPart::Name),
            ("/a?b=c", UriPart::Value),
            ("/a?b=c=d?e", UriPart::Value),
            ("/a?b=c&", UriPart::Name),
        ] {
            assert_eq!(UriPart::default().behind(written.as_bytes()), place, "{written}");
        }
    }

    #[test]
    fn only_structure_is_escaped() {
        let ordinary = "a.b-c_d~é/e:@!$'()*,=\"<>|";
        for place in [UriPart::Path, UriPart::Name, UriPart::Value] {
            for kind in [Kind::Path, Kind::Value, Kind::Decoded, Kind::Raw] {
                assert_eq!(escaped(kind, place, ordinary), ordinary, "{kind:?} {place:?}");
            }
        }
        let text = "?&;#+% ";
        for (kind, place, expected) in [
            (Kind::Path, UriPart::Path, "%3F&;%23+% "),
            (Kind::Path, UriPart::Name, "?%26%3B%23%2B%25%20"),
            (Kind::Path, UriPart::Value, "?%26%3B%23%2B%25%20"),
            (Kind::Value, UriPart::Value, "?%26;%23+%%20"),
            (Kind::Decoded, UriPart::Value, "?%26%3B%23%2B%25%20"),
            (Kind::Value, UriPart::Name, text),
            (Kind::Raw, UriPart::Value, text),
        ] {
            assert_eq!(escaped(kind, place, text), expected, "{kind:?} {place:?}");
        }
    }
}
