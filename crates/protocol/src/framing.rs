//! How long a body is (RFC 9112 section 6) and whether the connection outlives the message (section 9.3).

use crate::{Head, HeaderId, Method, ParseError, RequestHead, ResponseHead, Version, fields::is_token_byte};

pub use crate::connection::ConnectionOptions;

/// How the end of a body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// `Content-Length`
    Fixed(u64),
    /// `Transfer-Encoding: chunked`
    Chunked,
    /// Responses only: the body ends when the connection does.
    UntilClose,
}

impl BodyLength {
    /// No body.
    pub const EMPTY: BodyLength = BodyLength::Fixed(0);

    /// Whether there is none for certain.
    pub fn is_empty(self) -> bool {
        self == BodyLength::EMPTY
    }
}

/// Decimal digits only: no sign, no list, no spaces; at most what fits 63 bits.
fn content_length(headers: &Head) -> Result<Option<u64>, ParseError> {
    const BAD: ParseError = ParseError::bad("invalid Content-Length");
    let mut values = headers.all_known(HeaderId::ContentLength);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ParseError::bad("several Content-Length fields"));
    }
    if value.is_empty() || value.len() > 18 || !value.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    Ok(Some(value.iter().fold(0u64, |length, digit| length * 10 + u64::from(digit - b'0'))))
}

/// The transfer codings of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Codings {
    /// Exactly `chunked`.
    Chunked,
    /// Others first, `chunked` once and last: the end could be found, the content not.
    OthersThenChunked,
    /// The end cannot be found.
    Endless,
}

fn transfer_encoding(headers: &Head) -> Result<Option<Codings>, ParseError> {
    let mut values = headers.all_known(HeaderId::TransferEncoding);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(ParseError::bad("several Transfer-Encoding fields"));
    }
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(Some(Codings::Chunked));
    }
    if value.is_empty()
        || !value.iter().all(|&byte| is_token_byte(byte) || matches!(byte, b',' | b' ' | b';' | b'='))
    {
        return Err(ParseError::bad("invalid Transfer-Encoding"));
    }
    let mut members = value.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    let chunked_last = members.next().is_some_and(|last| last.eq_ignore_ascii_case(b"chunked"));
    let once = members.all(|member| !member.is_empty() && !member.eq_ignore_ascii_case(b"chunked"));
    Ok(Some(if chunked_last && once { Codings::OthersThenChunked } else { Codings::Endless }))
}

/// Of a request: without framing fields there is no body. Refuses what could be read in two ways.
pub fn request_body(head: &RequestHead) -> Result<BodyLength, ParseError> {
    let length = content_length(&head.headers)?;
    match transfer_encoding(&head.headers)? {
        // Frames mark the end of an HTTP/2 body: without a length it is one of unknown length, as a chunked one is.
        None if head.version == Version::Http2 => Ok(length.map_or(BodyLength::Chunked, BodyLength::Fixed)),
        None => Ok(BodyLength::Fixed(length.unwrap_or(0))),
        Some(_) if length.is_some() => Err(ParseError::bad("both Content-Length and Transfer-Encoding")),
        Some(_) if head.version == Version::Http10 => {
            Err(ParseError::bad("Transfer-Encoding in an HTTP/1.0 request"))
        }
        Some(Codings::Chunked) => Ok(BodyLength::Chunked),
        Some(Codings::OthersThenChunked) => {
            Err(ParseError::with_status(501, "unsupported Transfer-Encoding"))
        }
        // RFC 9112 section 6.3: 400 takes precedence over the 501 for an unknown coding.
        Some(Codings::Endless) => Err(ParseError::bad("the last transfer coding is not chunked")),
    }
}

/// The body of a response to a request made with `method`. One with two lengths is refused even where there is no body:
/// the fields of such an answer describe the body of another, and are forwarded.
pub fn response_body(head: &ResponseHead, method: &Method) -> Result<BodyLength, ParseError> {
    let bad_gateway = |error: ParseError| ParseError::with_status(502, error.reason);
    let length = content_length(&head.headers).map_err(bad_gateway)?;
    let framed = match transfer_encoding(&head.headers).map_err(bad_gateway)? {
        None => length.map_or(BodyLength::UntilClose, BodyLength::Fixed),
        Some(Codings::Chunked) if length.is_none() => BodyLength::Chunked,
        Some(Codings::Chunked) => {
            return Err(ParseError::with_status(
                502,
                "upstream sent both Content-Length and Transfer-Encoding",
            ));
        }
        Some(_) => {
            return Err(ParseError::with_status(502, "upstream sent an unsupported Transfer-Encoding"));
        }
    };
    let bodiless = *method == Method::Head || head.status < 200 || matches!(head.status, 204 | 304);
    Ok(if bodiless { BodyLength::EMPTY } else { framed })
}

/// Whether the connection may carry a further response. It may not where a sender broke the rules for framing in a way
/// that leaves one reading of this message, but not of what follows: RFC 9112 section 6.1.
pub fn response_persists(head: &ResponseHead, options: ConnectionOptions, length: BodyLength) -> bool {
    let misplaced = head.version == Version::Http10 || head.status == 204;
    options.persists(head.version)
        && length != BodyLength::UntilClose
        && !(misplaced && head.headers.known(HeaderId::TransferEncoding).is_some())
}

/// Removes the end-to-end looking fields that `Connection` nominates (RFC 9110 section 7.6.1). Fields that decide
/// framing, routing or identity cannot be nominated away.
pub fn remove_nominated(headers: &mut Head) {
    let mut names: Vec<Vec<u8>> = Vec::new();
    for value in headers.all_known(HeaderId::Connection) {
        names.extend(value.split(|&byte| byte == b',').map(|token| token.trim_ascii().to_ascii_lowercase()));
    }
    for name in names {
        let protected = matches!(
            HeaderId::of(&name),
            HeaderId::Host
                | HeaderId::ContentLength
                | HeaderId::TransferEncoding
                | HeaderId::Connection
                | HeaderId::Upgrade
                | HeaderId::Authorization
                | HeaderId::Cookie
                | HeaderId::XForwardedFor
                | HeaderId::XForwardedHost
                | HeaderId::XForwardedProto
                | HeaderId::XForwardedPort
                | HeaderId::XRealIp
        );
        if !protected && !name.is_empty() {
            headers.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RequestLimits;

    fn body(text: &str) -> Result<BodyLength, u16> {
        let mut head = RequestHead::default();
        head.parse(text.as_bytes(), &mut 0, &RequestLimits::default()).unwrap().unwrap();
        request_body(&head).map_err(|error| error.status)
    }

    #[test]
    fn request_bodies() {
        let cases: &[(&str, Result<BodyLength, u16>)] = &[
            ("", Ok(BodyLength::EMPTY)),
            ("Content-Length: 12\r\n", Ok(BodyLength::Fixed(12))),
            ("Transfer-Encoding: Chunked\r\n", Ok(BodyLength::Chunked)),
            ("Content-Length: 1\r\nContent-Length: 2\r\n", Err(400)),
            ("Content-Length: 1, 1\r\n", Err(400)),
            ("Content-Length: +1\r\n", Err(400)),
            ("Content-Length: 0x1\r\n", Err(400)),
            ("Content-Length: 99999999999999999999\r\n", Err(400)),
            ("Content-Length: \r\n", Err(400)),
            ("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", Err(400)),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(400)),
            ("Transfer-Encoding: gzip, chunked\r\n", Err(501)),
            ("Transfer-Encoding: xchunked\r\n", Err(400)),
            ("Transfer-Encoding: chunked, identity\r\n", Err(400)),
            ("Transfer-Encoding: chunked, chunked\r\n", Err(400)),
            ("Transfer-Encoding: , chunked\r\n", Err(400)),
            ("Transfer-Encoding: \"chunked\"\r\n", Err(400)),
            ("Transfer-Encoding:\r\n", Err(400)),
        ];
        for (fields, expected) in cases {
            assert_eq!(body(&format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")), *expected, "{fields:?}");
        }
        assert_eq!(body("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), Err(400));
    }
}
