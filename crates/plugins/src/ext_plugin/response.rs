//! An upstream's response, which the runner may change: the plugin asks the node itself, and answers in its place.

use std::time::Duration;

use bytes::Bytes;
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Incoming, Method, Outgoing};
use tidegate_plugin_api::{
    Reply, Request, Verdict,
    reply::ReplyBody,
    upstream::{Peer, Timeouts},
};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    call::{Failure, Hook, Subject, next_id, too_long},
    frame::Frame,
    messages::{self, Changed, kind},
    rewriting::{is_fixed, set},
    table::Entry,
};
use crate::common::relayed::{self, fields};

/// The largest response that is held for the runner.
const MOST_BYTES: usize = 64 << 20;

struct AskedResponse {
    status: u16,
    headers: Vec<(Vec<u8>, Vec<u8>)>,
    body: Bytes,
}

impl Subject for AskedResponse {
    const KIND: u8 = kind::HTTP_RESP_CALL;

    fn question(&self, _: &Request, token: u32) -> Result<Frame, Failure> {
        let headers: Vec<Entry> =
            self.headers.iter().map(|(name, value)| Entry { name, value: Some(value) }).collect();
        messages::response(next_id(), self.status, &headers, token).map_err(too_long)
    }

    fn response_body(&self) -> Option<&Bytes> {
        Some(&self.body)
    }
}

/// The plugin for responses.
pub(crate) struct Response(pub(crate) Hook);

impl Response {
    pub(crate) async fn run(&self, request: &mut Request) -> Verdict {
        let Response(hook) = self;
        let answer = match upstream(request).await {
            Ok(answer) => answer,
            Err(Unanswered::Refused(reply)) => return Err(reply),
            Err(Unanswered::Failed(reason)) => {
                error_log::log(Level::Error, format_args!("ext-plugin: failed to request: {reason}"));
                return Err(Box::new(Reply::page(502)));
            }
        };
        let headers = answer.headers.iter();
        let headers =
            headers.map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec())).collect();
        let asked = AskedResponse { status: answer.status, headers, body: answer.body.clone() };
        let Some(said) = hook.ask(request, &asked).await? else {
            return Err(Box::new(relayed::reply(request, &answer)));
        };
        let Ok(changed) = messages::changed(&said) else {
            hook.unanswered("the plugin runner sent a malformed message")?;
            return Err(Box::new(relayed::reply(request, &answer)));
        };
        match reply(request, &answer, &changed) {
            Ok(reply) => Err(Box::new(reply)),
            Err(reason) => {
                hook.unanswered(&reason)?;
                Err(Box::new(relayed::reply(request, &answer)))
            }
        }
    }
}

/// The headers are those of the runner, if it sets any.
fn reply(request: &Request, answer: &Incoming, changed: &Changed) -> Result<Reply, String> {
    let mut reply = relayed::reply(request, answer);
    if let Some(body) = changed.body {
        reply.headers.remove("Content-Length");
        reply.body = ReplyBody::Bytes(Bytes::copy_from_slice(body));
    }
    if !changed.headers.is_empty() {
        reply.headers.clear();
        for (name, value) in set(&changed.headers)? {
            reply.headers.add(name, value);
        }
        if changed.body.is_none() {
            relayed::mark_head(request, answer, &mut reply);
        }
    } else if changed.body.is_some() {
        // They are about the body that was there before.
        reply.headers.retain(|name, _| !is_fixed(name));
    }
    if changed.status != 0 {
        reply.status = changed.status;
    }
    match tidegate_plugin_api::reply::FINAL_STATUSES.contains(&reply.status) {
        true => Ok(reply),
        false => Err(format!("the plugin runner answered with the status {}", changed.status)),
    }
}

enum Unanswered {
    Failed(String),
    Refused(Box<Reply>),
}

impl From<String> for Unanswered {
    fn from(reason: String) -> Unanswered {
        Unanswered::Failed(reason)
    }
}

/// Sends the request to the node that was chosen.
async fn upstream(request: &mut Request) -> Result<Incoming, Unanswered> {
    let peer = request.outcome.peer.clone();
    let (upstream, node) = peer
        .as_ref()
        .and_then(|peer: &Peer| Some((&peer.upstream, peer.node()?)))
        .ok_or_else(|| "no node was chosen".to_owned())?;
    if upstream.scheme.is_grpc() {
        return Err(Unanswered::Failed(format!(
            "a node that speaks {} cannot be asked",
            upstream.scheme.as_str()
        )));
    }
    let tls = upstream.scheme.is_tls();
    let address = node.address.ok_or_else(|| "the node's name is not resolved".to_owned())?;
    // A certificate is for the name.
    let host = if tls { node.host.trim_matches(['[', ']']).to_owned() } else { address.ip().to_string() };
    let target = request.edits.target.clone().unwrap_or_else(|| request.normal_target());
    let target = String::from_utf8(target).map_err(|_| "its target is not UTF-8".to_owned())?;
    let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
    let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
    let mut headers = fields(request);
    let asked = request.edits.host.as_deref().or(request.header("Host"));
    headers.extend(asked.map(|host| ("Host".to_owned(), host.to_vec())));
    let route = request.route.as_ref().and_then(|route| route.timeouts.as_deref().copied());
    let Timeouts { read_ms, .. } = request.edits.timeouts.or(route).unwrap_or(upstream.timeouts);
    let options = ClientOptions {
        timeout: Duration::from_millis(read_ms),
        body: Body::Whole(MOST_BYTES),
        repeats: matches!(method, Method::GET | Method::HEAD),
        ..ClientOptions::default()
    };
    let endpoint = Endpoint { tls, host, port: address.port(), target };
    let body = request.collect_body(usize::MAX).await.map_err(Unanswered::Refused)?;
    let outgoing = Outgoing { method, endpoint, headers, body, client: Some(request.remote_addr) };
    let answer = http::send(outgoing, &options).await.map_err(String::from)?;
    match answer.status {
        200.. => Ok(answer),
        status => Err(Unanswered::Failed(format!("the node answered {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    fn answer() -> Incoming {
        let mut headers = http::HeaderMap::new();
        for (name, value) in
            [("content-type", "text/html"), ("x-a", "1"), ("connection", "x-hop"), ("x-hop", "1")]
        {
            headers.insert(name, value.parse().expect("a value"));
        }
        Incoming { status: 201, headers, body: Bytes::from_static(b"old") }
    }

    #[test]
    fn what_becomes_of_a_response() {
        let entry = |name: &'static str, value| Entry { name: name.as_bytes(), value };
        let check = |status, headers: Vec<Entry>, body: Option<&'static [u8]>| {
            let request = test_request::request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            let reply = reply(&request, &answer(), &Changed { status, headers, body })?;
            let names: Vec<String> =
                reply.headers.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            let ReplyBody::Bytes(body) = reply.body else {
                return Err("a page".to_owned());
            };
            Ok((reply.status, names.join(","), String::from_utf8_lossy(&body).into_owned()))
        };
        let said = |status, names: &str, body: &str| Ok((status, names.to_owned(), body.to_owned()));
        assert_eq!(check(0, vec![], None), said(201, "content-type,x-a", "old"));
        assert_eq!(check(404, vec![], Some(b"new")), said(404, "x-a", "new"));
        assert_eq!(
            check(0, vec![entry("X-R", Some(b"1")), entry("X-G", None)], None),
            said(201, "X-R", "old")
        );
        assert!(check(100, vec![], None).is_err());
        assert!(check(0, vec![entry("X", Some(b"a\nb"))], None).is_err());
    }
}
