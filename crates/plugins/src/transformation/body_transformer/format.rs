//! How a body is written.

use serde::Deserialize;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Xml,
    Json,
    Encoded,
    Args,
    Plain,
    Multipart,
}

impl Format {
    /// The format that a media type says.
    pub(super) fn of(content_type: &[u8]) -> Option<Format> {
        let text = String::from_utf8_lossy(content_type);
        let lower = text.to_ascii_lowercase();
        if text.contains("text/xml") {
            Some(Format::Xml)
        } else if text.contains("application/json") {
            Some(Format::Json)
        } else if lower.contains("application/x-www-form-urlencoded") {
            Some(Format::Encoded)
        } else if lower.contains("multipart/") {
            Some(Format::Multipart)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_media_types() {
        let cases = [
            ("text/xml; charset=utf-8", Some(Format::Xml)),
            ("application/json", Some(Format::Json)),
            ("Application/X-WWW-Form-Urlencoded", Some(Format::Encoded)),
            ("multipart/form-data; boundary=x", Some(Format::Multipart)),
            ("text/plain", None),
            ("", None),
        ];
        for (content_type, expected) in cases {
            assert_eq!(Format::of(content_type.as_bytes()), expected, "{content_type}");
        }
    }
}
