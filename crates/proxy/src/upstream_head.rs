//! The head that goes to the upstream: the client's fields in their order, hop-by-hop ones left out, forwarding ones
//! added (RFC 9110 section 7.6, APISIX's `proxy_set_header` list).

use std::io::Write;

use tidegate_plugin_api::{
    Reply, Request, RequestBody, UpstreamHandle,
    request::UpstreamEdits,
    snapshot::{Node, PassHost},
};
use tidegate_protocol::{HeaderId, Method, request::is_end_to_end};
use tidegate_telemetry::error_log;

/// How the body follows the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyPlan {
    None,
    Fixed(u64),
    Chunked,
}

pub fn body_plan(request: &Request) -> BodyPlan {
    match &request.body {
        RequestBody::Empty => BodyPlan::None,
        RequestBody::Collected(bytes) => BodyPlan::Fixed(bytes.len() as u64),
        RequestBody::Unread { length: Some(length), .. } => BodyPlan::Fixed(*length),
        RequestBody::Unread { length: None, .. } => BodyPlan::Chunked,
    }
}

/// Refuses what a plugin made of the request if it would not stay in its line: another request could begin in it.
pub fn require_sendable(edits: &UpstreamEdits) -> Result<(), Box<Reply>> {
    let is_text = |text: &Vec<u8>| text.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let is_token =
        |method: &Method| method.as_bytes().iter().copied().all(tidegate_protocol::request::is_token_byte);
    let wrong = [
        ("request target", edits.target.as_ref().is_some_and(|target| target.is_empty() || !is_text(target))),
        ("Host", edits.host.as_ref().is_some_and(|host| !is_text(host))),
        (
            "method",
            edits.method.as_ref().is_some_and(|method| method.as_bytes().is_empty() || !is_token(method)),
        ),
    ];
    match wrong.into_iter().find(|(_, is_wrong)| *is_wrong) {
        None => Ok(()),
        Some((what, _)) => {
            error_log::log(
                error_log::Level::Error,
                format_args!(
                    "a plugin chose a {what} with blanks or control characters; the request is refused"
                ),
            );
            Err(Box::new(Reply::page(500)))
        }
    }
}

/// Appends the request head to `out`. `upgrade`: the client asked for another protocol and the route allows it.
pub fn write(
    request: &mut Request,
    upstream: &UpstreamHandle,
    node: &Node,
    upgrade: bool,
    out: &mut Vec<u8>,
) -> BodyPlan {
    let plan = body_plan(request);
    let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(request.edits.target.as_deref().unwrap_or(request.head.target()));
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host(request, upstream, node));
    out.extend_from_slice(b"\r\n");

    let without = |id| request.edits.without.contains(&id);
    let (mut proto, mut host_seen, mut port) = (
        without(HeaderId::XForwardedProto),
        without(HeaderId::XForwardedHost),
        without(HeaderId::XForwardedPort),
    );
    let headers = &request.head.headers;
    headers.write_fields(out, |field| match field.id {
        HeaderId::Other => true,
        HeaderId::Host | HeaderId::XForwardedFor | HeaderId::XRealIp | HeaderId::Expect => false,
        HeaderId::XForwardedProto => {
            proto = true;
            true
        }
        HeaderId::XForwardedHost => {
            host_seen = true;
            true
        }
        HeaderId::XForwardedPort => {
            port = true;
            true
        }
        _ => is_end_to_end(field),
    });
    write_forwarding(request, out);
    if !proto {
        out.extend_from_slice(if request.https {
            b"X-Forwarded-Proto: https\r\n"
        } else {
            b"X-Forwarded-Proto: http\r\n"
        });
    }
    let original_host = headers.known(HeaderId::Host).unwrap_or(&request.host);
    if !host_seen {
        out.extend_from_slice(b"X-Forwarded-Host: ");
        out.extend_from_slice(original_host);
        out.extend_from_slice(b"\r\n");
    }
    if !port {
        out.extend_from_slice(b"X-Forwarded-Port: ");
        write_port(request, original_host, out);
        out.extend_from_slice(b"\r\n");
    }
    write_framing(request, plan, upgrade, out);
    plan
}

fn host<'a>(request: &'a Request, upstream: &'a UpstreamHandle, node: &'a Node) -> &'a [u8] {
    match &upstream.pass_host {
        // A plugin's choice stands for the client's host; the upstream's own settings go over both.
        PassHost::Pass => match &request.edits.host {
            Some(host) => host,
            None => request.head.headers.known(HeaderId::Host).unwrap_or(node.host_header.as_bytes()),
        },
        PassHost::Node => node.host_header.as_bytes(),
        PassHost::Rewrite(host) => host.as_bytes(),
    }
}

fn write_forwarding(request: &Request, out: &mut Vec<u8>) {
    out.extend_from_slice(b"X-Real-IP: ");
    let start = out.len();
    write_address(request.remote_addr, out);
    let end = out.len();
    out.extend_from_slice(b"\r\nX-Forwarded-For: ");
    for value in request.head.headers.all_known(HeaderId::XForwardedFor) {
        out.extend_from_slice(value);
        out.extend_from_slice(b", ");
    }
    out.extend_from_within(start..end);
    out.extend_from_slice(b"\r\n");
}

/// An address as text. IPv4 by hand: this runs for every request.
fn write_address(address: std::net::IpAddr, out: &mut Vec<u8>) {
    match address {
        std::net::IpAddr::V4(address) => {
            let mut text = [b'.'; 16];
            let mut length = 0;
            for octet in address.octets() {
                length = write_octet(octet, &mut text, length) + 1;
            }
            // Without the last dot.
            out.extend_from_slice(&text[..length - 1]);
        }
        std::net::IpAddr::V6(address) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Writes the digits at `at`; returns where they end.
fn write_octet(octet: u8, text: &mut [u8; 16], mut at: usize) -> usize {
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

pub fn write_decimal(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
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

fn write_framing(request: &Request, plan: BodyPlan, upgrade: bool, out: &mut Vec<u8>) {
    if upgrade {
        let protocol = request.head.headers.known(HeaderId::Upgrade).unwrap_or(b"websocket");
        out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: ");
        out.extend_from_slice(protocol);
        out.extend_from_slice(b"\r\n");
    }
    match plan {
        // A method that usually has a body says that there is none (RFC 9110 section 8.6).
        BodyPlan::None if request.head.headers.known(HeaderId::ContentLength).is_some() => {
            out.extend_from_slice(b"Content-Length: 0\r\n");
        }
        BodyPlan::None => {}
        BodyPlan::Fixed(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        BodyPlan::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}
