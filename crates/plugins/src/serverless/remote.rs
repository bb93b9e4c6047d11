//! Functions of other systems that answer in the upstream's place.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{self, ClientOptions, Endpoint, Incoming, Method, Outgoing, TlsWanted};
use tidegate_plugin_api::{Foresight, Phases, Plugin, Reply, Request, SchemaKind, Step, Verdict, Why};
use tidegate_protocol::uri;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    conf::typed,
    relayed::{self, fields},
    service::check_url,
};

/// The size limit of an answer; the largest that a gateway of AWS passes on.
const MAX_ANSWER_BYTES: usize = 10 << 20;

/// What the configurations of all of them have.
#[derive(Deserialize)]
struct Conf {
    max_req_body_size: u64,
    timeout: u64,
    ssl_verify: bool,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
}

/// A service that is asked.
pub(super) struct Service {
    name: &'static str,
    pub(super) endpoint: Endpoint,
    options: ClientOptions,
    max_body_bytes: usize,
}

impl Service {
    pub(super) fn new(name: &'static str, url: &str, conf: &Value) -> Result<Service, String> {
        let conf: Conf = typed(conf)?;
        Ok(Service {
            name,
            endpoint: Endpoint::parse(url)?,
            options: ClientOptions {
                proxies: None,
                timeout: Duration::from_millis(conf.timeout),
                tls: TlsWanted { verify: conf.ssl_verify, client: None },
                keepalive: conf.keepalive,
                keepalive_timeout: Duration::from_millis(conf.keepalive_timeout),
                keepalive_pool: conf.keepalive_pool,
                body: http::Body::Whole(MAX_ANSWER_BYTES),
                // What a function does twice is not the same as what it does once.
                repeats: false,
            },
            max_body_bytes: usize::try_from(conf.max_req_body_size).unwrap_or(usize::MAX),
        })
    }

    /// The body of the request. `too_large`: the status for one beyond `max_req_body_size`.
    pub(super) async fn body(&self, request: &mut Request, too_large: u16) -> Result<Bytes, Box<Reply>> {
        request.collect_body(self.max_body_bytes).await.map_err(|reply| {
            error_log::log(
                Level::Error,
                format_args!("{}: failed to read the request body: {}", self.name, reply.status),
            );
            if reply.status == 413 { Box::new(Reply::page(too_large)) } else { reply }
        })
    }

    /// 503 without an answer.
    pub(super) async fn ask(&self, outgoing: Outgoing) -> Result<Incoming, Box<Reply>> {
        match http::send(outgoing, &self.options).await {
            Ok(answer) if answer.status >= 200 => Ok(answer),
            Ok(answer) => Err(self.failed(&format!("status {}", answer.status))),
            Err(error) => Err(self.failed(&error.to_string())),
        }
    }

    /// The answer to a request that the function could not take: 503, and the reason for the operator.
    pub(super) fn failed(&self, reason: &str) -> Box<Reply> {
        error_log::log(Level::Error, format_args!("failed to process {}, err: {reason}", self.name));
        Box::new(Reply::page(503))
    }
}

pub(super) fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    match kind {
        SchemaKind::Plugin => check_url(conf, "function_uri"),
        _ => Ok(()),
    }
}

/// A request on its way to a function.
pub(super) struct Call(pub(super) Outgoing);

impl Call {
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Puts a field in place of all others of its name.
    pub(super) fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.0.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        self.0.headers.push((name.to_owned(), value.into()));
    }
}

/// What tells one kind of functions from another: how a request shows that it may ask.
pub(super) trait Authorize: Send + Sync {
    fn authorize(&self, call: &mut Call);
}

/// Hands requests to a function as they are, with the credentials of the configuration.
pub(super) struct Function<A> {
    service: Service,
    authorize: A,
}

/// Of `function_uri` and the settings beside it.
pub(super) fn build<A: Authorize + 'static>(
    name: &'static str,
    conf: &Value,
    authorize: A,
) -> Result<Arc<dyn Plugin>, String> {
    let url =
        conf.get("function_uri").and_then(Value::as_str).ok_or("property \"function_uri\" is required")?;
    Ok(Arc::new(Function { service: Service::new(name, url, conf)?, authorize }))
}

impl<A: Authorize> Plugin for Function<A> {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.invoke(request))
    }

    fn answers_all_in(&self) -> Option<Phases> {
        Some(Phases::ACCESS)
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::answers_somehow(Why::Calls)
    }
}

impl<A: Authorize> Function<A> {
    async fn invoke(&self, request: &mut Request) -> Verdict {
        // As in APISIX, where every failure to read a body is 400.
        let body = self.service.body(request, 400).await?;
        let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
        let Ok(method) = Method::from_bytes(method.as_bytes()) else {
            return Err(Box::new(Reply::page(400)));
        };
        let mut endpoint = self.service.endpoint.clone();
        endpoint.target = target(&endpoint.target, request);
        let headers = fields(request);
        if headers.iter().any(|(_, value)| HeaderValue::from_bytes(value).is_err()) {
            return Err(Box::new(Reply::page(400)));
        }
        let mut call = Call(Outgoing { method, endpoint, headers, body, client: Some(request.remote_addr) });
        self.authorize.authorize(&mut call);
        let answer = self.service.ask(call.0).await?;
        Err(Box::new(relayed::reply(request, &answer)))
    }
}

/// The function's path, what `*` of the route's URI stands for, and the arguments of both.
fn target(own: &str, request: &Request) -> String {
    let (path, query) = own.split_once('?').unwrap_or((own, ""));
    let mut target = path.as_bytes().to_vec();
    if let Some((_, rest)) = request.matched.parameters.iter().find(|(name, _)| **name == *":ext") {
        if !path.ends_with('/') && !rest.starts_with(b"/") {
            target.push(b'/');
        }
        uri::encode_marked_path(rest, &mut target);
    }
    let edited = request.edits.target.as_ref().map(|target| match memchr::memchr(b'?', target) {
        Some(at) => target.get(at + 1..).unwrap_or_default(),
        None => b"",
    });
    let asked = edited.or(request.head.query()).unwrap_or_default();
    for (number, query) in [query.as_bytes(), asked].into_iter().filter(|query| !query.is_empty()).enumerate()
    {
        target.push(if number == 0 { b'?' } else { b'&' });
        target.extend_from_slice(query);
    }
    ascii(&target)
}

/// Bytes that no URI has are percent-encoded: nginx passes them on as they are, and HTTP clients and signatures cannot.
fn ascii(target: &[u8]) -> String {
    let mut text = String::with_capacity(target.len());
    for &byte in target {
        match byte.is_ascii() {
            true => text.push(char::from(byte)),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    #[test]
    fn targets() {
        let cases = [
            ("/f", None, "/", "/f"),
            ("/f", None, "/?a=1&b", "/f?a=1&b"),
            ("/f?code=k", None, "/?a=1", "/f?code=k&a=1"),
            ("/f", Some("x/y"), "/", "/f/x/y"),
            ("/f/", Some("x y?"), "/", "/f/x%20y%3F"),
            ("/", Some(""), "/", "/"),
            ("/f", Some(""), "/", "/f/"),
        ];
        for (own, rest, asked, expected) in cases {
            let mut request = test_request::request(&format!("GET {asked} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let parameters = rest.map(|rest| (Box::from(":ext"), Box::from(rest.as_bytes())));
            request.matched.parameters.extend(parameters);
            assert_eq!(target(own, &request), expected, "{own} {rest:?} {asked}");
        }
        assert_eq!(ascii(b"/f?x=\xff\xc3\xbc"), "/f?x=%FF%C3%BC");
    }
}
