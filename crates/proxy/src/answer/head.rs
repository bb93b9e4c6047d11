//! The head of an answer as the client gets it. Its content is decided here; `http1.rs` and `http2/head.rs` write it.

use tidegate_plugin_api::{Request, Response, Source};
use tidegate_protocol::{BodyLength, Field, HeaderId, Method, Version};

use crate::{
    field_line::{CONTENT_LENGTH, CONTENT_TYPE, Fields, write_decimal},
    runtime::Runtime,
};

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientFraming {
    /// HEAD, 204, 304: a head only.
    Bodiless,
    Length(u64),
    Chunked,
    /// HTTP/2, and the length is not known yet: the frames mark the end.
    Frames,
    /// An HTTP/1.0 client, and the length is not known.
    Close,
}

/// Decides the framing once the header filters have run. `is_empty`: the body is known to be, although its head does not
/// announce it.
pub(crate) fn framing(request: &Request, body: BodyLength, is_empty: bool) -> ClientFraming {
    let status = request.response.status;
    if request.head.method == Method::Head || matches!(status, 204 | 304) || status < 200 {
        return ClientFraming::Bodiless;
    }
    let unchanged = !request.response.body_changed;
    match (body, request.head.version) {
        (BodyLength::Fixed(length), _) if unchanged => ClientFraming::Length(length),
        (_, Version::Http2) => ClientFraming::Frames,
        _ if is_empty && unchanged => ClientFraming::Length(0),
        (_, Version::Http11) => ClientFraming::Chunked,
        _ => ClientFraming::Close,
    }
}

/// `request.response`, and what the gateway adds about itself and the connection.
pub(crate) struct AnswerHead<'a> {
    pub(crate) response: &'a Response,
    worker: &'a Runtime,
    framing: ClientFraming,
    /// The `Connection` line of HTTP/1.
    connection: &'static [u8],
}

impl<'a> AnswerHead<'a> {
    /// `keep`: the connection may carry another request.
    pub(crate) fn new(
        request: &'a Request,
        worker: &'a Runtime,
        framing: ClientFraming,
        keep: bool,
    ) -> AnswerHead<'a> {
        let connection: &[u8] = if !keep || framing == ClientFraming::Close {
            b"Connection: close\r\n"
        } else if request.head.version == Version::Http10 {
            b"Connection: keep-alive\r\n"
        } else {
            b""
        };
        AnswerHead { response: &request.response, worker, framing, connection }
    }

    #[inline]
    pub(crate) fn write_fields(&self, to: &mut impl Fields) {
        let length_as_sent = self.framing == ClientFraming::Bodiless && self.response.status != 204;
        let mut passing = Passing { length_as_sent, date: false, server: false };
        to.pass(&self.response.headers, |field| passing.passes(field));
        // As in APISIX, an upstream that sends no date gets none; the gateway's own answers have theirs.
        if !passing.date && self.response.source != Source::Upstream {
            to.add_line(&self.worker.date_line.borrow());
        }
        match self.framing {
            ClientFraming::Bodiless | ClientFraming::Close | ClientFraming::Frames => {}
            ClientFraming::Length(length) => to.add(&CONTENT_LENGTH, |out| write_decimal(length, out)),
            ClientFraming::Chunked => to.add_hop_by_hop(&[b"Transfer-Encoding: chunked\r\n"]),
        }
        if !self.connection.is_empty() {
            to.add_hop_by_hop(&[self.connection]);
        }
        if !passing.server {
            to.add_line(&self.worker.server_line);
        }
    }
}

/// Which fields of `request.response` are passed on, and which of the gateway's are among them.
struct Passing {
    /// Keeps the length that a GET would have had.
    length_as_sent: bool,
    date: bool,
    server: bool,
}

impl Passing {
    fn passes(&mut self, field: &Field) -> bool {
        match field.id {
            HeaderId::Other => true,
            HeaderId::Date => {
                self.date = true;
                true
            }
            HeaderId::Server => {
                self.server = true;
                true
            }
            HeaderId::ContentLength => self.length_as_sent,
            HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Te => false,
            _ => true,
        }
    }
}

/// The fields of a page where no request was parsed. The connection ends with it.
pub(crate) fn write_page_fields(worker: &Runtime, body_bytes: usize, to: &mut impl Fields) {
    to.add_line(&worker.server_line);
    to.add_line(&worker.date_line.borrow());
    to.add(&CONTENT_TYPE, |out| out.extend_from_slice(b"text/html; charset=utf-8"));
    to.add(&CONTENT_LENGTH, |out| write_decimal(body_bytes as u64, out));
    to.add_hop_by_hop(&[b"Connection: close\r\n"]);
}
