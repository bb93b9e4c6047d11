//! HTTP/1.0 and 1.1 on the wire (RFC 9112): bytes in, an indexed head or body events out. No I/O. Also the headers
//! that balancers send first ([`proxy_protocol`]).
//!
//! The parser is strict on purpose. Whatever two HTTP implementations could read differently (both
//! `Content-Length` and `Transfer-Encoding`, bare LF, folded lines, a space before the colon, NUL, several `Host`
//! fields, sloppy chunk sizes) is refused instead of interpreted: request smuggling needs a disagreement.
//!
//! Deliberately absent: HTTP/2 frames. Fields that crate `h2` decoded become the same heads in [`http2`].
//! Absent too: cookies, and content codings but for what a client accepts ([`content_coding`]).

#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod chunked;
pub mod claims;
pub mod connection;
pub mod content_coding;
pub mod fields;
pub mod forwarded;
pub mod framing;
pub mod head;
pub mod http2;
pub mod known;
pub mod media_type;
pub mod method;
mod names;
pub mod proxy_protocol;
pub mod request;
pub mod response;
mod scan;
pub mod status;
pub mod trailers;
pub mod uri;
pub mod websocket;

pub use framing::BodyLength;
pub use head::{Field, FieldName, Head};
pub use known::HeaderId;
pub use method::Method;
pub use request::{RequestHead, RequestLimits};
pub use response::ResponseHead;

/// The protocol version of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// RFC 1945
    Http10,
    /// RFC 9112
    Http11,
    /// RFC 9113; its heads are read by crate `h2`
    Http2,
}

impl Version {
    /// As in `$server_protocol`.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }
}

/// Why bytes were refused. The text is shown in the error log; the status is what the client sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// For the error log, without what the peer sent.
    pub reason: &'static str,
    /// For the client.
    pub status: u16,
}

impl ParseError {
    /// Answered with 400.
    pub const fn bad(reason: &'static str) -> ParseError {
        ParseError { reason, status: 400 }
    }

    /// For what has a status of its own, such as 414, 431 or 505.
    pub const fn with_status(status: u16, reason: &'static str) -> ParseError {
        ParseError { reason, status }
    }
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.reason)
    }
}

impl std::error::Error for ParseError {}
