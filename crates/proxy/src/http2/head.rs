//! Heads between crate `http`'s types, which `h2` speaks, and ours.

use h2::ext::Protocol;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Uri, header, request::Parts};
use tidegate_model::random::random_u64;
use tidegate_protocol::{Field, Head, ParseError, RequestHead, RequestLimits, http2::Pseudo};

use crate::{
    answer::head::{AnswerHead, write_page_fields},
    field_line::{FieldLine, Fields, Name},
    runtime::Runtime,
    upstream_head::OutgoingHead,
};

/// Fills our head from a received one.
pub(crate) fn read(head: &mut RequestHead, parts: &Parts, limits: &RequestLimits) -> Result<(), ParseError> {
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

/// 16 bytes in base64, as RFC 6455 section 4.1 requires. The upstream's `Sec-WebSocket-Accept` is not checked:
/// HTTP/2 has none.
fn websocket_key() -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut high, mut low) = (random_u64(), random_u64());
    let mut key = String::with_capacity(24);
    for at in 0..21 {
        let bits = if at < 10 { &mut high } else { &mut low };
        key.push(char::from(LETTERS[(*bits & 63) as usize]));
        *bits >>= 6;
    }
    // The last digit encodes two bits only.
    key.push(char::from(LETTERS[((low & 3) << 4) as usize]));
    key + "=="
}

/// The writer for HTTP/2, whose frames mark the end of a body, and which has no hop-by-hop fields.
struct Map<'a> {
    headers: &'a mut HeaderMap,
    value: Vec<u8>,
}

impl Map<'_> {
    fn append(&mut self, name: &HeaderName, value: &[u8]) {
        if let Ok(value) = HeaderValue::from_bytes(value.trim_ascii()) {
            self.headers.append(name, value);
        }
    }
}

impl Fields for Map<'_> {
    fn pass(&mut self, head: &Head, mut passes: impl FnMut(&Field) -> bool) {
        for field in head.fields().iter().filter(|field| passes(field)) {
            append(self.headers, head.name(field), head.value(field));
        }
    }

    fn add(&mut self, name: &'static Name, write: impl FnOnce(&mut Vec<u8>)) {
        let mut value = std::mem::take(&mut self.value);
        value.clear();
        write(&mut value);
        self.append(name.http2(), &value);
        self.value = value;
    }

    fn add_line(&mut self, line: &FieldLine) {
        if let Some(value) = line.http2() {
            self.headers.append(line.name().http2(), value.clone());
        }
    }

    fn add_hop_by_hop(&mut self, _: &[&[u8]]) {}
}

/// The head of a request to a node, for gRPC.
pub(crate) fn request(head: &OutgoingHead<'_>, https: bool) -> Result<http::Request<()>, ParseError> {
    const BAD: ParseError = ParseError::bad("the request cannot be represented in HTTP/2");
    let scheme = if https { "https" } else { "http" };
    let uri = Uri::builder().scheme(scheme).authority(head.host).path_and_query(head.target).build();
    let mut message = http::Request::new(());
    *message.method_mut() = http::Method::from_bytes(head.method.as_bytes()).map_err(|_| BAD)?;
    *message.uri_mut() = uri.map_err(|_| BAD)?;
    *message.version_mut() = http::Version::HTTP_2;
    let headers = message.headers_mut();
    headers.reserve(head.most_fields() + 2);
    head.write_fields(&mut Map { headers, value: Vec::new() });
    // As APISIX does: gRPC servers refuse anything else.
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    Ok(message)
}

/// The head of an answer.
pub(crate) fn response(head: &AnswerHead<'_>) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(head.response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = response.headers_mut();
    headers.reserve(head.response.headers.len() + 3);
    head.write_fields(&mut Map { headers, value: Vec::new() });
    response
}

/// `None` when HTTP/2 can represent none of them.
pub(crate) fn trailers(from: &Head) -> Option<HeaderMap> {
    let mut trailers = HeaderMap::new();
    from.iter().for_each(|(name, value)| append(&mut trailers, name, value));
    (!trailers.is_empty()).then_some(trailers)
}

/// Adds trailers that came over HTTP/2, if they are within the limit.
pub(crate) fn add_trailers(head: &mut Head, from: &HeaderMap) -> Result<(), ParseError> {
    tidegate_protocol::http2::check_trailers(
        from.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes())),
    )?;
    add_fields(head, from);
    Ok(())
}

/// Adds fields that came over HTTP/2.
pub(crate) fn add_fields(head: &mut Head, from: &HeaderMap) {
    for (name, value) in from {
        head.add(name.as_str(), value.as_bytes());
    }
}

/// Leaves out a field that HTTP/2 cannot represent (our parser accepts it, the types of `http` do not), and blanks around
/// a value (RFC 9113 section 8.2.1).
fn append(headers: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value.trim_ascii()))
    {
        headers.append(name, value);
    }
}

/// The head of a page where no request was parsed.
pub(crate) fn page(worker: &Runtime, status: u16, body_bytes: usize) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    write_page_fields(worker, body_bytes, &mut Map { headers: response.headers_mut(), value: Vec::new() });
    response
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
    fn trailers_that_cannot_be_represented_are_left_out() {
        let mut head = Head::new();
        for (name, value) in [("Grpc-Status", "0"), (":status", "200"), ("a b", "x"), ("x-a", "\x01")] {
            head.add(name, value);
        }
        let trailers = trailers(&head).expect("one is left");
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["grpc-status"], "0");
    }
}
