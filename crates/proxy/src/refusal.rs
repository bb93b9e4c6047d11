//! Refuses what is not a valid request: an error page, a line in the access log, and the end of the
//! connection.

use std::{future::Future, pin::Pin, rc::Rc, time::Instant};

use http::request::Parts;
use tidegate_plugin_api::{Request, Source};
use tidegate_protocol::{ParseError, RequestHead};
use tidegate_telemetry::{error_log, limiter::Limiter};

use crate::{client::Downstream, client_address, page};

/// A plain HTTP request on a port with TLS.
pub(crate) const NEEDS_HTTPS: ParseError = ParseError::bad("plain HTTP request was sent to HTTPS port");

/// What a client that speaks TLS begins with: a handshake record (RFC 8446 section 5.1).
const TLS_RECORD: [u8; 2] = [22, 3];

/// How much of an unreadable request line is logged.
const LOGGED_LINE_BYTES: usize = 2048;

/// Answers and closes. `head`: the part of the request that could be parsed. `line`: its request line where there is
/// no target in `head`. Boxed: the futures of connections do not carry the size of a state that few of them reach.
pub(crate) fn refuse<'a>(
    client: &'a Rc<Downstream>,
    head: RequestHead,
    line: Vec<u8>,
    error: ParseError,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        error_log::log(
            error_log::Level::Info,
            format_args!(
                "client sent an invalid request: {}, client: {}",
                error.reason,
                client.facts.peer.ip()
            ),
        );
        if line.starts_with(&TLS_RECORD) {
            warn_of_tls(client);
        }
        let received = client.head_bytes_held();
        let page = if error == NEEDS_HTTPS { page::needs_https() } else { page::of_status(error.status) };
        let (bytes, body_bytes) = client.refuse(error.status, &page).await;
        if client.worker.settings.access_log.is_some() {
            let mut request = describe(client, head, line);
            request.response.status = error.status;
            request.response.source = Source::ErrorPage;
            request.outcome.bytes_sent = bytes;
            request.outcome.body_bytes_sent = body_bytes;
            request.outcome.request_length = (request.head.received_len().max(received)) as u64;
            request.outcome.finished = Some(Instant::now());
            write_line(client, &request);
        }
    })
}

/// The client cannot read the answer, and only says that the version is wrong.
fn warn_of_tls(client: &Downstream) {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    if LIMITER.pass().is_some() {
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "client speaks TLS to {}, a port for plain HTTP: use http:// for it, or a port of apisix.ssl.listen; client: {}",
                client.facts.local,
                client.facts.peer.ip()
            ),
        );
    }
}

fn write_line(client: &Downstream, request: &Request) {
    if let Some(log) = &client.worker.settings.access_log {
        log.write(client.worker.index, request);
    }
}

/// The request as far as it is known.
fn describe(client: &Downstream, head: RequestHead, line: Vec<u8>) -> Request {
    let worker = client.worker;
    let unread = head.target().is_empty();
    let mut request = Request::new(head, client.facts.clone(), worker.snapshot(), worker.index);
    if let Some(real_ip) = &worker.settings.reading.real_ip {
        client_address::set(&mut request, real_ip);
    }
    if unread {
        let mut words = line.split(|&byte| byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        for (name, value) in [
            ("request_method", method),
            ("method", method),
            ("request_uri", target),
            ("real_request_uri", target),
            ("request", &line),
            ("request_line", &line),
        ] {
            request.set_variable(name, value);
        }
    }
    request
}

/// The request line in what was received, up to a line break or [`LOGGED_LINE_BYTES`].
pub(crate) fn received_line(received: &[u8]) -> Vec<u8> {
    let received = received.strip_prefix(b"\r\n").unwrap_or(received);
    let received = received.get(..LOGGED_LINE_BYTES).unwrap_or(received);
    received.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default().to_vec()
}

/// As HTTP/1 would write it.
pub(crate) fn http2_line(parts: &Parts) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("", |path| path.as_str());
    let mut line = format!("{} {target} HTTP/2.0", parts.method).into_bytes();
    line.truncate(LOGGED_LINE_BYTES);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_a_line_break_or_at_the_limit() {
        let long = [b'x'; LOGGED_LINE_BYTES + 1];
        for (received, expected) in [
            (&b"\r\nGET / HTTP/9\r\nHost: h"[..], &b"GET / HTTP/9"[..]),
            (b"GET\n", b"GET"),
            (b"\x16\x03\x01", b"\x16\x03\x01"),
            (b"", b""),
            (&long, &long[..LOGGED_LINE_BYTES]),
        ] {
            assert_eq!(received_line(received), expected);
        }
    }
}
