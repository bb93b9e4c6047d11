//! Which fields of a request and of an answer go on, where a plugin asks a server in the upstream's place.

use hyper::header::{HeaderName, HeaderValue};
use tidegate_clients::http::{HeaderMap, Incoming};
use tidegate_plugin_api::{Reply, Request, reply::ReplyBody};
use tidegate_protocol::Method;

/// Fields that belong to one connection (RFC 9110 section 7.6.1), or that are made for each request. A service gets them of this
/// gateway, and a client as well.
const OF_CONNECTIONS: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
];

/// The client's fields, without those of its connection.
pub(crate) fn fields(request: &Request) -> Vec<(String, Vec<u8>)> {
    let named = request.head.headers.get_all("Connection").flat_map(|line| line.split(|&byte| byte == b','));
    let named: Vec<&[u8]> = named.map(<[u8]>::trim_ascii).collect();
    let passes = |name: &[u8]| {
        !name.eq_ignore_ascii_case(b"upgrade")
            && !OF_CONNECTIONS.iter().any(|other| other.as_bytes().eq_ignore_ascii_case(name))
            && !named.iter().any(|other| other.eq_ignore_ascii_case(name))
    };
    let fields = request.head.headers.iter().filter(|(name, _)| passes(name));
    fields.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec())).collect()
}

/// The fields of an answer that are for the client.
fn passing(headers: &HeaderMap) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
    let lines = headers.get_all("connection").iter().filter_map(|line| line.to_str().ok());
    let named: Vec<&str> = lines.flat_map(|line| line.split(',')).map(str::trim).collect();
    headers.iter().filter(move |(name, _)| {
        is_for_clients(name.as_str()) && !named.iter().any(|other| name.as_str().eq_ignore_ascii_case(other))
    })
}

/// The answer of a server that was asked in the upstream's place, as the gateway's own.
pub(crate) fn reply(request: &Request, answer: &Incoming) -> Reply {
    let mut reply = Reply::bytes(answer.status, answer.body.clone());
    for (name, value) in passing(&answer.headers) {
        reply.headers.add(name.as_str(), value.as_bytes());
    }
    mark_head(request, answer, &mut reply);
    reply
}

/// The length in an answer to HEAD is that of a GET's (RFC 9110 section 8.6), and only the server knows it.
pub(crate) fn mark_head(request: &Request, answer: &Incoming, reply: &mut Reply) {
    let sent = request.edits.method.as_ref().unwrap_or(&request.head.method);
    if request.head.method == Method::Head && *sent == Method::Head {
        reply.body = ReplyBody::OfHead;
        if let Some(length) = answer.header("content-length") {
            reply.headers.set("Content-Length", length);
        }
    }
}

/// Whether an answer's field is about the answer, not about a connection or its framing.
pub(crate) fn is_for_clients(name: &str) -> bool {
    name.eq_ignore_ascii_case("proxy-authenticate")
        || !name.eq_ignore_ascii_case("upgrade")
            && !OF_CONNECTIONS.iter().any(|other| other.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn fields_of_the_connection_stay() {
        let text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\
                    X-Own: a\r\nX-Own: b\r\nUpgrade: x\r\n\r\n";
        let own = |value: &str| ("X-Own".to_owned(), value.as_bytes().to_vec());
        assert_eq!(fields(&test_request::request(text)), [own("a"), own("b")]);
    }
}
