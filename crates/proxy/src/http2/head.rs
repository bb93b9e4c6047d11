//! Heads between crate `http`'s types, which `h2` speaks, and ours.

use bytes::Bytes;
use h2::ext::Protocol;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, request::Parts};
use tidegate_model::random::random_u64;
use tidegate_plugin_api::{Request, Source};
use tidegate_protocol::{Head, HeaderId, ParseError, RequestHead, RequestLimits, http2::Pseudo};

use crate::{client::Client, filters::ClientFraming};

/// Fills our head from a received one.
pub fn read(head: &mut RequestHead, parts: &Parts, limits: &RequestLimits) -> Result<(), ParseError> {
    let protocol = parts.extensions.get::<Protocol>();
    let websocket = protocol.is_some_and(|protocol| protocol.as_str() == "websocket");
    if protocol.is_some() && !websocket {
        return Err(ParseError::with_status(501, "extended CONNECT to an unknown protocol"));
    }
    let pseudo = Pseudo {
        method: parts.method.as_str().as_bytes(),
        authority: parts.uri.authority().map(|authority| authority.as_str().as_bytes()),
        path: parts.uri.path_and_query().map_or("", |path| path.as_str()).as_bytes(),
        websocket,
    };
    let fields = parts.headers.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    head.from_fields(pseudo, fields, websocket_key, limits)
}

/// 16 bytes in base64, as RFC 6455 section 4.1 wants. The upstream's proof of it is not asked for: HTTP/2 has none.
fn websocket_key() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut high, mut low) = (random_u64(), random_u64());
    let mut key = String::with_capacity(24);
    for at in 0..21 {
        let bits = if at < 10 { &mut high } else { &mut low };
        key.push(char::from(LETTERS[(*bits & 63) as usize]));
        *bits >>= 6;
    }
    // The last digit stands for two bits only.
    key.push(char::from(LETTERS[((low & 3) << 4) as usize]));
    key + "=="
}

/// The head of an answer from `request.response`, framing left to HTTP/2.
pub fn response(request: &Request, client: &Client, framing: ClientFraming) -> Response<()> {
    let from = &request.response;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(from.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.reserve(from.headers.len() + 3);
    let (mut date, mut server) = (false, false);
    let length_as_sent = framing == ClientFraming::Bodiless && from.status != 204;
    for field in from.headers.fields() {
        match field.id {
            HeaderId::Date => date = true,
            HeaderId::Server => server = true,
            HeaderId::ContentLength if !length_as_sent => continue,
            HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::TransferEncoding
            | HeaderId::Upgrade
            | HeaderId::Te => continue,
            _ => {}
        }
        append(headers, from.headers.name(field), from.headers.value(field));
    }
    if !date && from.source != Source::Upstream {
        append_line(headers, &client.worker.date_line.borrow());
    }
    if let ClientFraming::Length(length) = framing {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if !server {
        append_line(headers, &client.worker.server_line);
    }
    response
}

/// `None` when nothing of them may be sent.
pub fn trailers(from: &Head) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    for (name, value) in from.iter() {
        if tidegate_protocol::http2::is_allowed_trailer(&name.to_ascii_lowercase(), value) {
            append(&mut trailers, name, value);
        }
    }
    (!trailers.is_empty()).then_some(trailers)
}

/// Adds trailers that came over HTTP/2, if they are no more than they may be.
pub fn add_trailers(head: &mut Head, from: &HeaderMap) -> Result<(), ParseError> {
    tidegate_protocol::http2::check_trailers(
        from.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())),
    )?;
    add_fields(head, from);
    Ok(())
}

/// Adds fields that came over HTTP/2.
pub fn add_fields(head: &mut Head, from: &HeaderMap) {
    for (name, value) in from {
        head.add(name.as_str(), value.as_bytes());
    }
}

/// What HTTP/2 cannot represent (our parser let it through, the types of `http` do not) is left out.
pub fn append(headers: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        headers.append(name, value);
    }
}

/// `Name: value CRLF`
fn append_line(headers: &mut HeaderMap, line: &[u8]) {
    let mut parts = line.trim_ascii_end().splitn(2, |&byte| byte == b':');
    if let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        append(headers, name, value.trim_ascii());
    }
}

/// The page of a bare status, for what never became a request.
pub fn page(client: &Client, status: u16) -> (Response<()>, Bytes) {
    let body = Bytes::from(tidegate_plugin_api::error_page::html(status));
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    let headers = response.headers_mut();
    append_line(headers, &client.worker.server_line);
    append_line(headers, &client.worker.date_line.borrow());
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    (response, body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sixteen_bytes_in_base64() {
        for _ in 0..100 {
            let key = websocket_key();
            assert!(key.len() == 24 && key.ends_with("=="), "{key}");
            // Two bits are left for the last digit.
            assert!(matches!(key.as_bytes()[21], b'A' | b'Q' | b'g' | b'w'), "{key}");
        }
    }

    #[test]
    fn trailers_that_frame_or_route_are_left_out() {
        let mut head = Head::new();
        for (name, value) in [("Grpc-Status", "0"), ("Content-Length", "1"), ("Host", "x"), ("TE", "x")] {
            head.add(name, value);
        }
        let trailers = trailers(&head).expect("one is left");
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["grpc-status"], "0");
    }
}
