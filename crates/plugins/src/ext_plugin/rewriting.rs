//! A request as the runner sees it, and what it changes of one.

use bytes::Bytes;
use tidegate_plugin_api::{Reply, Request, RequestBody, memory, reply::FINAL_STATUSES};
use tidegate_protocol::{HeaderId, fields::is_token_byte, request::is_host, uri};

use super::{
    call::{Failure, Subject, next_id, too_long},
    frame::Frame,
    messages::{self, Asked, Changed, Rewrite, kind},
    table::Entry,
};
use crate::common::relayed::is_for_clients;

/// What a runner may not change of an upstream's response.
const FIXED: [&str; 10] = [
    "connection",
    "content-length",
    "transfer-encoding",
    "location",
    "server",
    "www-authenticate",
    "content-encoding",
    "content-type",
    "content-location",
    "content-language",
];

/// A request before it goes upstream.
pub(super) struct AskedRequest;

impl Subject for AskedRequest {
    const KIND: u8 = kind::HTTP_REQ_CALL;

    fn question(&self, request: &Request, token: u32) -> Result<Frame, Failure> {
        let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
        let method = messages::method(method).ok_or_else(|| {
            let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
            Failure::Failed(format!("the plugin runner's protocol has no method {name}"))
        })?;
        let (path, query) = place(request);
        let args = arguments(query);
        let args: Vec<Entry> =
            args.iter().map(|(name, value)| Entry { name, value: value.as_deref() }).collect();
        let host = request.edits.host.as_deref();
        let names: Vec<Vec<u8>> =
            request.head.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let values = request.head.headers.iter().map(|(_, value)| value);
        let headers: Vec<Entry> = names
            .iter()
            .zip(values)
            .map(|(name, value)| Entry { name, value: host.filter(|_| name == b"host").or(Some(value)) })
            .collect();
        let address: &[u8] = match &request.remote_addr {
            std::net::IpAddr::V4(address) => &address.octets(),
            std::net::IpAddr::V6(address) => &address.octets(),
        };
        let asked = Asked { id: next_id(), address, method, path, args: &args, headers: &headers };
        messages::request(&asked, token).map_err(too_long)
    }

    fn response_body(&self) -> Option<&Bytes> {
        None
    }
}

/// Path and query as they go upstream by now.
fn place(request: &Request) -> (&[u8], &[u8]) {
    match &request.edits.target {
        None => (&request.path, request.head.query().unwrap_or_default()),
        Some(target) => {
            let at = memchr::memchr(b'?', target).unwrap_or(target.len());
            let (path, query) = target.split_at(at);
            (path, query.get(1..).unwrap_or_default())
        }
    }
}

type Argument = (Vec<u8>, Option<Vec<u8>>);

fn arguments(query: &[u8]) -> Vec<Argument> {
    let decode = |text| uri::percent_decode(text, true);
    uri::query_pairs(query).map(|(name, value)| (decode(name), value.map(decode))).collect()
}

/// The answer that a runner gives in the upstream's place.
pub(super) fn stopped(changed: &Changed) -> Result<Reply, String> {
    let status = if changed.status == 0 { 200 } else { changed.status };
    if !FINAL_STATUSES.contains(&status) {
        return Err(format!("the plugin runner answered with the status {status}"));
    }
    let mut reply = match changed.body {
        Some(body) => Reply::bytes(status, body.to_vec()),
        None => Reply::page(status),
    };
    for (name, value) in set(&changed.headers)? {
        reply.headers.add(name, value);
    }
    Ok(reply)
}

/// Names and values for a response; those without a value, and those of its framing, are not there.
pub(super) fn set<'a>(entries: &[Entry<'a>]) -> Result<Vec<(&'a [u8], &'a [u8])>, String> {
    check(entries)?;
    let for_clients = entries.iter().filter(|entry| is_for_clients(&String::from_utf8_lossy(entry.name)));
    Ok(for_clients.filter_map(|entry| Some((entry.name, entry.value?))).collect())
}

fn check(entries: &[Entry]) -> Result<(), String> {
    let is_name = |name: &[u8]| !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte));
    let is_value = |value: &[u8]| value.iter().all(|byte| (*byte >= b' ' && *byte != 0x7f) || *byte == b'\t');
    match entries.iter().find(|entry| !is_name(entry.name) || !entry.value.is_none_or(is_value)) {
        None => Ok(()),
        Some(entry) => {
            let name = String::from_utf8_lossy(entry.name).into_owned();
            Err(format!("the plugin runner set {name:?}, which cannot be a header with its value"))
        }
    }
}

/// A host goes upstream in a place of its own.
fn check_host(entries: &[Entry]) -> Result<(), String> {
    let mut hosts = entries.iter().filter(|entry| entry.name.eq_ignore_ascii_case(b"host"));
    match hosts.find_map(|entry| entry.value.filter(|host| !is_host(host))) {
        None => Ok(()),
        Some(host) => Err(format!(
            "the plugin runner set the host {:?}, which cannot be one",
            String::from_utf8_lossy(host)
        )),
    }
}

/// Changes the request. Nothing is changed where a part of it cannot be.
pub(super) async fn rewrite(request: &mut Request, wanted: &Rewrite<'_>) -> Result<(), Failure> {
    check(&wanted.headers).and_then(|()| check(&wanted.response_headers)).map_err(Failure::Failed)?;
    check_host(&wanted.headers).map_err(Failure::Failed)?;
    if let Some(body) = wanted.body {
        replace_body(request, body).await?;
    }
    for entry in &wanted.headers {
        if entry.name.eq_ignore_ascii_case(b"host") {
            request.edits.host = entry.value.map(<[u8]>::to_vec).or(request.edits.host.take());
        } else {
            request.assert_header(entry.name, entry.value);
        }
    }
    let mut seen: Vec<&[u8]> = Vec::new();
    for entry in &wanted.response_headers {
        let passes = !is_fixed(entry.name) && is_for_clients(&String::from_utf8_lossy(entry.name));
        let Some(value) = entry.value.filter(|_| passes) else { continue };
        match seen.iter().any(|name| name.eq_ignore_ascii_case(entry.name)) {
            true => request.early_headers.add(entry.name, value),
            false => request.early_headers.set(entry.name, value),
        }
        seen.push(entry.name);
    }
    if !wanted.args.is_empty() {
        let query = query_with(place(request).1, &wanted.args);
        request.set_query(&query);
    }
    if let Some(path) = wanted.path {
        let mut target = Vec::with_capacity(path.len() + 16);
        if !path.starts_with(b"/") {
            target.push(b'/');
        }
        uri::encode_path(path, &mut target);
        let query = place(request).1;
        if !query.is_empty() {
            target.push(b'?');
            target.extend_from_slice(query);
        }
        request.edits.target = Some(target);
    }
    Ok(())
}

pub(super) fn is_fixed(name: &[u8]) -> bool {
    FIXED.iter().any(|fixed| fixed.as_bytes().eq_ignore_ascii_case(name))
}

/// The client's body is read first: what follows it is the next request.
async fn replace_body(request: &mut Request, body: &[u8]) -> Result<(), Failure> {
    request.collect_body(usize::MAX).await.map_err(Failure::Refused)?;
    request.body = RequestBody::Collected(Bytes::new());
    let full = |memory::Spent| Failure::Refused(Box::new(Reply::page(503)));
    let body = memory::hold(body.to_vec(), request.remote_addr).map_err(full)?;
    request.head.headers.set("Content-Length", body.len().to_string());
    request.head.headers.remove_known(HeaderId::TransferEncoding);
    request.body = RequestBody::Collected(body);
    Ok(())
}

/// The first value of an argument takes the place of those before, further ones come after it.
fn query_with(query: &[u8], changes: &[Entry]) -> Vec<u8> {
    let is_changed = |name: &[u8]| changes.iter().any(|change| change.name == name);
    let kept = query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    let kept = kept.filter(|pair| {
        let name = pair.split(|&byte| byte == b'=').next().unwrap_or_default();
        !is_changed(&uri::percent_decode(name, true))
    });
    let mut pairs: Vec<Vec<u8>> = kept.map(<[u8]>::to_vec).collect();
    for (at, change) in changes.iter().enumerate() {
        let Some(value) = change.value else { continue };
        // Without a value it is removed, with all values before.
        let is_removed_later =
            changes.iter().skip(at + 1).any(|later| later.name == change.name && later.value.is_none());
        if is_removed_later {
            continue;
        }
        let mut pair = Vec::new();
        uri::encode_component(change.name, &mut pair);
        pair.push(b'=');
        uri::encode_component(value, &mut pair);
        pairs.push(pair);
    }
    pairs.join(&b'&')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    fn entry<'a>(name: &'a str, value: Option<&'a str>) -> Entry<'a> {
        Entry { name: name.as_bytes(), value: value.map(str::as_bytes) }
    }

    #[test]
    fn queries() {
        for (query, changes, expected) in [
            ("a=1&b=2", vec![entry("c", Some("3 &"))], "a=1&b=2&c=3%20%26"),
            ("a=1&b=2&a=3", vec![entry("a", Some("x"))], "b=2&a=x"),
            ("%61=1&b", vec![entry("a", None)], "b"),
            ("", vec![entry("a", Some("1")), entry("a", Some("2"))], "a=1&a=2"),
            ("", vec![entry("a", Some("1")), entry("a", None)], ""),
        ] {
            assert_eq!(String::from_utf8_lossy(&query_with(query.as_bytes(), &changes)), expected, "{query}");
        }
    }

    fn nothing() -> Rewrite<'static> {
        Rewrite { path: None, headers: vec![], args: vec![], response_headers: vec![], body: None }
    }

    #[tokio::test]
    async fn requests_are_rewritten() {
        let mut request = test_request::request("GET /a?x=1 HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nX-B: 1\r\n\r\n");
        let wanted = Rewrite {
            path: Some(b"/b c?"),
            headers: vec![entry("X-A", None), entry("x-b", Some("2")), entry("Host", Some("other"))],
            args: vec![entry("y", Some("2"))],
            response_headers: vec![
                entry("X-R", Some("1")),
                entry("x-r", Some("2")),
                entry("Server", Some("no")),
                entry("Location", Some("no")),
            ],
            body: Some(b"body"),
        };
        rewrite(&mut request, &wanted).await.map_err(|_| "refused").expect("rewritten");
        assert_eq!(request.edits.target.as_deref(), Some(&b"/b%20c%3F?x=1&y=2"[..]));
        assert_eq!(request.edits.host.as_deref(), Some(&b"other"[..]));
        assert_eq!((request.header_str("X-A"), request.header_str("X-B")), (None, Some("2")));
        assert_eq!(request.header_str("Content-Length"), Some("4"));
        let early: Vec<_> = request.early_headers.iter().map(|(_, value)| value.to_vec()).collect();
        assert_eq!(early, [b"1", b"2"]);
    }

    #[tokio::test]
    async fn a_host_is_one() {
        for (host, expected) in [
            ("other.test:80", true),
            ("[::1]:80", true),
            ("a b", false),
            ("a/b", false),
            ("a@b", false),
            ("[::1", false),
            ("", false),
        ] {
            let mut request = test_request::request("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
            let wanted = Rewrite { path: Some(b"/b"), headers: vec![entry("Host", Some(host))], ..nothing() };
            assert_eq!(rewrite(&mut request, &wanted).await.is_ok(), expected, "{host}");
            assert_eq!(request.edits.target.is_some(), expected, "{host}");
        }
    }

    #[tokio::test]
    async fn what_would_split_a_message_changes_nothing() {
        for bad in
            [entry("X", Some("a\r\nY: b")), entry("X Y", Some("a")), entry("", Some("a")), entry("X:", None)]
        {
            let mut request = test_request::request("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
            let path = Some(&b"/b"[..]);
            let headers = Rewrite { path, headers: vec![bad], ..nothing() };
            let early = Rewrite { path, response_headers: vec![bad], ..nothing() };
            for wanted in [headers, early] {
                assert!(matches!(rewrite(&mut request, &wanted).await, Err(Failure::Failed(_))), "{bad:?}");
                assert_eq!(request.edits.target, None);
            }
            assert!(stopped(&Changed { status: 200, headers: vec![bad], body: None }).is_err());
        }
        let framing = vec![entry("Content-Length", Some("9")), entry("x", Some("1"))];
        let reply = stopped(&Changed { status: 0, headers: framing, body: None }).expect("a reply");
        assert_eq!(reply.headers.iter().count(), 1);
        for (status, expected) in [(0, Some(200)), (404, Some(404)), (101, None), (1000, None)] {
            let reply = stopped(&Changed { status, headers: vec![], body: Some(b"x") });
            assert_eq!(reply.ok().map(|reply| reply.status), expected);
        }
    }
}
