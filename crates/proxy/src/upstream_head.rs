//! The head that goes to the upstream: the client's fields in their order, hop-by-hop ones left out, forwarding ones
//! added (RFC 9110 section 7.6, APISIX's `proxy_set_header` list).

use std::{io::Write, net::IpAddr};

use tidegate_plugin_api::{
    Reply, Request, RequestBody, UpstreamHandle,
    edits::UpstreamEdits,
    upstream::{Node, PassHost},
};
use tidegate_protocol::{Field, HeaderId, Method, request::is_end_to_end};
use tidegate_telemetry::error_log;

use crate::field_line::{
    CONTENT_LENGTH, Fields, Http1Lines, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PORT,
    X_FORWARDED_PROTO, X_REAL_IP, write_decimal,
};

/// Fields that are added to those of the client: five that say who asked, and the length.
const ADDED: usize = 6;

/// How the body follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPlan {
    None,
    Fixed(u64),
    Chunked,
}

fn body_plan(request: &Request) -> BodyPlan {
    match &request.body {
        RequestBody::Empty => BodyPlan::None,
        RequestBody::Collected(bytes) => BodyPlan::Fixed(bytes.len() as u64),
        RequestBody::Unread { length: Some(length), .. } => BodyPlan::Fixed(*length),
        RequestBody::Unread { length: None, .. } => BodyPlan::Chunked,
    }
}

/// Refuses a plugin's change to the request if it would break out of its line, where another request could begin, or cannot be a target.
pub(crate) fn require_sendable(edits: &UpstreamEdits) -> Result<(), Box<Reply>> {
    const SIGNS: &str = "with spaces or control characters";
    let is_text = |text: &[u8]| text.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let is_token =
        |method: &Method| method.as_bytes().iter().copied().all(tidegate_protocol::fields::is_token_byte);
    let is_wrong_method = |method: &Method| method.as_bytes().is_empty() || !is_token(method);
    let target = edits.target.as_deref();
    // `*` is that of OPTIONS.
    let is_path = |target: &[u8]| target.starts_with(b"/") || target == b"*";
    let wrong = [
        ("request target", SIGNS, target.is_some_and(|target| !is_text(target))),
        ("request target", "that does not begin with /", target.is_some_and(|target| !is_path(target))),
        ("Host", SIGNS, edits.host.as_ref().is_some_and(|host| !is_text(host))),
        ("method", SIGNS, edits.method.as_ref().is_some_and(is_wrong_method)),
    ];
    match wrong.into_iter().find(|(_, _, is_wrong)| *is_wrong) {
        None => Ok(()),
        Some((what, how, _)) => {
            let text = format_args!("a plugin set a {what} {how}; the request is refused");
            error_log::log(error_log::Level::Error, text);
            Err(Box::new(Reply::page(500)))
        }
    }
}

/// The head of a request to a node. Its content is decided here; [`OutgoingHead::write_http1`] and
/// [`crate::http2::head::request`] write it.
pub(crate) struct OutgoingHead<'a> {
    pub(crate) method: &'a Method,
    /// Path and query.
    pub(crate) target: &'a [u8],
    /// With the port, if there is one.
    pub(crate) host: &'a [u8],
    pub(crate) body: BodyPlan,
    /// The protocol that the client asks for instead.
    upgrade: Option<&'a [u8]>,
    request: &'a Request,
}

impl<'a> OutgoingHead<'a> {
    /// `upgrade`: the client asked for another protocol and the route allows it.
    #[inline]
    pub(crate) fn new(
        request: &'a Request,
        upstream: &'a UpstreamHandle,
        node: &'a Node,
        upgrade: bool,
    ) -> OutgoingHead<'a> {
        let protocol = || request.head.headers.known(HeaderId::Upgrade).unwrap_or(b"websocket");
        OutgoingHead {
            method: request.edits.method.as_ref().unwrap_or(&request.head.method),
            target: request.edits.target.as_deref().unwrap_or(request.head.target()),
            host: host(request, upstream, node).trim_ascii(),
            body: body_plan(request),
            upgrade: upgrade.then(protocol),
            request,
        }
    }

    /// Appends the head as HTTP/1 has it.
    pub(crate) fn write_http1(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method.as_bytes());
        out.push(b' ');
        out.extend_from_slice(self.target);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.host);
        out.extend_from_slice(b"\r\n");
        self.write_fields(&mut Http1Lines(out));
        out.extend_from_slice(b"\r\n");
    }

    /// Not less than [`OutgoingHead::write_fields`] writes.
    pub(crate) fn most_fields(&self) -> usize {
        self.request.head.headers.len() + ADDED
    }

    /// All fields but Host.
    #[inline]
    pub(crate) fn write_fields(&self, to: &mut impl Fields) {
        let request = self.request;
        let headers = &request.head.headers;
        let mut passing = Passing::new(&request.edits);
        to.pass(headers, |field| passing.passes(field));
        let address = AddressText::new(request.remote_addr);
        to.add(&X_REAL_IP, |out| out.extend_from_slice(address.text()));
        to.add(&X_FORWARDED_FOR, |out| {
            for value in headers.all_known(HeaderId::XForwardedFor) {
                out.extend_from_slice(value);
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(address.text());
        });
        if !passing.proto {
            let proto: &[u8] = if request.https { b"https" } else { b"http" };
            to.add(&X_FORWARDED_PROTO, |out| out.extend_from_slice(proto));
        }
        let original_host = headers.known(HeaderId::Host).unwrap_or(&request.host);
        // HTTP/1.0 without Host.
        if !passing.host && !original_host.is_empty() {
            to.add(&X_FORWARDED_HOST, |out| out.extend_from_slice(original_host));
        }
        if !passing.port {
            to.add(&X_FORWARDED_PORT, |out| write_port(request, original_host, out));
        }
        self.write_framing(to);
    }

    fn write_framing(&self, to: &mut impl Fields) {
        if let Some(protocol) = self.upgrade {
            to.add_hop_by_hop(&[b"Connection: Upgrade\r\nUpgrade: ", protocol, b"\r\n"]);
        }
        match self.body {
            // A request whose method usually has a body announces that there is none (RFC 9110 section 8.6).
            BodyPlan::None if self.request.head.headers.known(HeaderId::ContentLength).is_some() => {
                to.add(&CONTENT_LENGTH, |out| out.push(b'0'));
            }
            BodyPlan::None => {}
            BodyPlan::Fixed(length) => to.add(&CONTENT_LENGTH, |out| write_decimal(length, out)),
            BodyPlan::Chunked => to.add_hop_by_hop(&[b"Transfer-Encoding: chunked\r\n"]),
        }
    }
}

/// Which of the client's fields are passed on, and which of the gateway's fields are not added, because the client's are
/// passed on or they are left out.
struct Passing {
    proto: bool,
    host: bool,
    port: bool,
}

impl Passing {
    fn new(edits: &UpstreamEdits) -> Passing {
        let without = |id| edits.without.contains(&id);
        Passing {
            proto: without(HeaderId::XForwardedProto),
            host: without(HeaderId::XForwardedHost),
            port: without(HeaderId::XForwardedPort),
        }
    }

    fn passes(&mut self, field: &Field) -> bool {
        match field.id {
            HeaderId::Other => true,
            HeaderId::Host | HeaderId::XForwardedFor | HeaderId::XRealIp | HeaderId::Expect => false,
            HeaderId::XForwardedProto => {
                self.proto = true;
                true
            }
            HeaderId::XForwardedHost => {
                self.host = true;
                true
            }
            HeaderId::XForwardedPort => {
                self.port = true;
                true
            }
            _ => is_end_to_end(field),
        }
    }
}

fn host<'a>(request: &'a Request, upstream: &'a UpstreamHandle, node: &'a Node) -> &'a [u8] {
    match &upstream.pass_host {
        // A plugin's choice replaces the client's host; the upstream's own settings override both.
        PassHost::Pass => match &request.edits.host {
            Some(host) => host,
            None => request.head.headers.known(HeaderId::Host).unwrap_or(node.host_header.as_bytes()),
        },
        PassHost::Node => node.host_header.as_bytes(),
        PassHost::Rewrite(host) => host.as_bytes(),
    }
}

/// The longest is an IPv6 address that ends with one of IPv4.
const ADDRESS_BYTES: usize = 45;

/// An address as text. IPv4 by hand: this runs for every request.
struct AddressText {
    bytes: [u8; ADDRESS_BYTES],
    length: usize,
}

impl AddressText {
    #[inline]
    fn new(address: IpAddr) -> AddressText {
        let mut bytes = [b'.'; ADDRESS_BYTES];
        let length = match address {
            IpAddr::V4(address) => {
                let next = |at, octet| write_octet(octet, &mut bytes, at) + 1;
                // Without the last dot.
                address.octets().into_iter().fold(0, next) - 1
            }
            IpAddr::V6(address) => {
                let mut rest = &mut bytes[..];
                // There is room for each address.
                let _ = write!(rest, "{address}");
                ADDRESS_BYTES - rest.len()
            }
        };
        AddressText { bytes, length }
    }

    fn text(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

/// Writes the digits at `at`; returns where they end.
fn write_octet(octet: u8, text: &mut [u8; ADDRESS_BYTES], mut at: usize) -> usize {
    if octet >= 100 {
        text[at] = b'0' + octet / 100;
        at += 1;
    }
    if octet >= 10 {
        text[at] = b'0' + octet / 10 % 10;
        at += 1;
    }
    text[at] = b'0' + octet % 10;
    at + 1
}

/// The port in the Host field, else the one the client connected to.
fn write_port(request: &Request, host: &[u8], out: &mut Vec<u8>) {
    if let Some(at) = host.iter().rposition(|&byte| byte == b':') {
        let port = &host[at + 1..];
        if !port.is_empty() && port.iter().all(u8::is_ascii_digit) {
            out.extend_from_slice(port);
            return;
        }
    }
    write_decimal(u64::from(request.connection.local.port()), out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_text() {
        for text in [
            "0.0.0.0",
            "10.20.30.40",
            "255.255.255.255",
            "::1",
            "2001:db8::1",
            "::ffff:255.255.255.255",
            "1111:2222:3333:4444:5555:6666:7777:8888",
        ] {
            let address = AddressText::new(text.parse().expect("an address"));
            assert_eq!(address.text(), text.as_bytes());
        }
    }
}
