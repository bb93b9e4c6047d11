//! The answer's head as the client gets it, and the framing of its body.

use tidegate_plugin_api::{Request, Source};
use tidegate_protocol::{BodyLength, HeaderId, Method, Version, status};

use crate::{client::Client, phases::Chains, upstream_head::write_decimal};

/// How the client learns where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFraming {
    /// HEAD, 204, 304: a head only.
    Bodiless,
    Length(u64),
    Chunked,
    /// HTTP/2, and a length nobody knows yet: its frames tell the end.
    Frames,
    /// An HTTP/1.0 client and a length nobody knows.
    Close,
}

/// Runs the header filters over `request.response`. The error is the status of the page that takes its place.
pub fn header_filter(request: &mut Request, client: &Client, chains: &Chains) -> Result<(), u16> {
    let response = &mut request.response;
    // The gateway signs its answers; a plugin may still set another name.
    response.headers.remove_known(HeaderId::Server);
    for (name, value) in request.early_headers.iter() {
        response.headers.set(name, value);
    }
    if let Some(attempt) = request.outcome.attempts.last() {
        let show_always = client.worker.settings.show_upstream_status;
        // 0: no answer at all, which counts as 502.
        if show_always || matches!(attempt.status, 0 | 500..) {
            let list = request.variable(&tidegate_plugin_api::Variable::Named(
                tidegate_plugin_api::variables::Named::UpstreamStatus,
            ));
            if let Some(list) = list.map(std::borrow::Cow::into_owned) {
                request.response.headers.set("X-APISIX-Upstream-Status", list);
            }
        }
    }
    chains.header_filter(request);
    if let Some(executed) = chains.executed() {
        request.response.headers.set("Apisix-Plugins", executed);
    }
    request.response.take_refusal().map_or(Ok(()), Err)
}

/// Decides the framing once the header filters have run.
pub fn framing(request: &Request, body: BodyLength) -> ClientFraming {
    let status = request.response.status;
    if request.head.method == Method::Head || matches!(status, 204 | 304) || status < 200 {
        return ClientFraming::Bodiless;
    }
    match body {
        BodyLength::Fixed(length) if !request.response.body_changed => ClientFraming::Length(length),
        _ if request.head.version == Version::Http11 => ClientFraming::Chunked,
        _ if request.head.version == Version::Http2 => ClientFraming::Frames,
        _ => ClientFraming::Close,
    }
}

/// Appends status line and fields to `out`.
pub fn write_head(request: &Request, client: &Client, framing: ClientFraming, keep: bool, out: &mut Vec<u8>) {
    let response = &request.response;
    status::write_status_line(out, response.status, &response.reason);
    let (mut date, mut server) = (false, false);
    let length_as_sent = framing == ClientFraming::Bodiless && response.status != 204;
    response.headers.write_fields(out, |field| match field.id {
        HeaderId::Other => true,
        HeaderId::Date => {
            date = true;
            true
        }
        HeaderId::Server => {
            server = true;
            true
        }
        // The length a GET would have had.
        HeaderId::ContentLength => length_as_sent,
        HeaderId::Connection
        | HeaderId::KeepAlive
        | HeaderId::ProxyConnection
        | HeaderId::TransferEncoding
        | HeaderId::Upgrade
        | HeaderId::Te => false,
        _ => true,
    });
    // As in APISIX, an upstream that sends no date gets none; the gateway's own answers have theirs.
    if !date && response.source != Source::Upstream {
        out.extend_from_slice(&client.worker.date_line.borrow());
    }
    match framing {
        ClientFraming::Bodiless | ClientFraming::Close | ClientFraming::Frames => {}
        ClientFraming::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        ClientFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if !keep || framing == ClientFraming::Close {
        out.extend_from_slice(b"Connection: close\r\n");
    } else if request.head.version == Version::Http10 {
        out.extend_from_slice(b"Connection: keep-alive\r\n");
    }
    if !server {
        out.extend_from_slice(&client.worker.server_line);
    }
    out.extend_from_slice(b"\r\n");
}
