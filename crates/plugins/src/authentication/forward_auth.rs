//! Asks an authorisation service about each request, and passes headers of its answer on.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::http::{self, ClientOptions, Endpoint, Incoming, Method, Outgoing, TlsWanted};
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BodyError, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
    Template, Verdict, Why,
};
use tidegate_telemetry::error_log;

use crate::common::{
    auth::{self, Identified},
    conf::typed,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "forward-auth",
    version: 0.1,
    priority: 2002,
    schema: include_str!("forward_auth.json"),
    phases: Phases::ACCESS,
    headers: &[
        ("request_headers", Text::Name),
        ("upstream_headers", Text::Name),
        ("client_headers", Text::Name),
        ("extra_headers", Text::Fields),
    ],
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    uri: String,
    allow_degradation: bool,
    status_on_error: u16,
    ssl_verify: bool,
    request_method: String,
    max_req_body_size: u64,
    request_headers: Vec<String>,
    extra_headers: Option<Map<String, Value>>,
    upstream_headers: Vec<String>,
    client_headers: Vec<String>,
    timeout: u64,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
}

struct ForwardAuth {
    endpoint: Result<Endpoint, String>,
    options: ClientOptions,
    post: bool,
    max_body_bytes: usize,
    request_headers: Vec<String>,
    extra_headers: Vec<(String, Template)>,
    /// Some extra header has a variable of the request's body.
    headers_need_body: bool,
    upstream_headers: Vec<String>,
    client_headers: Vec<String>,
    allow_degradation: bool,
    status_on_error: u16,
}

/// With `allow_degradation`, an invalid address would let every request pass.
fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    match conf.get("uri").and_then(Value::as_str) {
        Some(uri) if !is_secret_reference(uri) => Endpoint::parse(uri).map(|_| ()),
        _ => Ok(()),
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let extra = conf.extra_headers.unwrap_or_default();
    let extra: Vec<(String, Template)> = extra
        .iter()
        .filter_map(|(name, value)| Some((name.clone(), Template::compile(value.as_str()?))))
        .collect();
    Ok(Arc::new(ForwardAuth {
        // A resolved reference may still be invalid: then requests are refused.
        endpoint: Endpoint::parse(&conf.uri),
        options: ClientOptions {
            timeout: Duration::from_millis(conf.timeout),
            tls: TlsWanted { verify: conf.ssl_verify, client: None },
            keepalive: conf.keepalive,
            keepalive_timeout: Duration::from_millis(conf.keepalive_timeout),
            keepalive_pool: conf.keepalive_pool,
            ..ClientOptions::default()
        },
        post: conf.request_method == "POST",
        max_body_bytes: usize::try_from(conf.max_req_body_size).unwrap_or(usize::MAX),
        request_headers: conf.request_headers,
        headers_need_body: extra.iter().any(|(_, text)| text.variables().any(|name| name.needs_body())),
        extra_headers: extra,
        upstream_headers: conf.upstream_headers,
        client_headers: conf.client_headers,
        allow_degradation: conf.allow_degradation,
        status_on_error: conf.status_on_error,
    }))
}

impl Plugin for ForwardAuth {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.ask(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Asks)
    }
}

impl ForwardAuth {
    async fn ask(&self, request: &mut Request) -> Verdict {
        let collected =
            if self.post || self.headers_need_body { self.body(request).await? } else { Bytes::new() };
        let headers = self.headers(request);
        let body = if self.post { collected } else { Bytes::new() };
        let has_body = !body.is_empty();
        let method = if self.post { Method::POST } else { Method::GET };
        // A question that cannot be asked is the client's doing: nothing says that the service is away.
        if let Some((name, _)) = headers.iter().find(|(_, value)| HeaderValue::from_bytes(value).is_err()) {
            error_log::log(
                error_log::Level::Warn,
                format_args!("failed to process forward auth, err: control characters in header {name}"),
            );
            return Err(Box::new(Reply::page(self.status_on_error)));
        }
        let answer = match &self.endpoint {
            Ok(endpoint) => {
                let (endpoint, client) = (endpoint.clone(), Some(request.remote_addr));
                let outgoing = Outgoing { method, endpoint, headers, body, client };
                http::send(outgoing, &self.options).await
            }
            Err(reason) => {
                error_log::log(
                    error_log::Level::Warn,
                    format_args!("failed to process forward auth, err: {reason}"),
                );
                return Err(Box::new(Reply::page(self.status_on_error)));
            }
        };
        match answer {
            Ok(answer) if (200..300).contains(&answer.status) => {
                self.pass_on(request, &answer);
                Ok(())
            }
            Ok(answer) if answer.status >= 300 => Err(Box::new(self.refusal(&answer))),
            // Not for the client: 101 would turn its connection into another protocol.
            Ok(answer) => {
                error_log::log(
                    error_log::Level::Warn,
                    format_args!("failed to process forward auth, err: status {}", answer.status),
                );
                Err(Box::new(Reply::page(self.status_on_error)))
            }
            Err(error) => {
                error_log::log(
                    error_log::Level::Warn,
                    format_args!("failed to process forward auth, err: {error}"),
                );
                // A request that the service does not take, or a body that it takes too slowly, is the client's.
                let is_away = match error {
                    http::Error::NotConnected(_) => true,
                    http::Error::TimedOut => !has_body,
                    http::Error::Ended(_) => false,
                };
                if !(self.allow_degradation && is_away) {
                    return Err(Box::new(Reply::page(self.status_on_error)));
                }
                self.pass_nothing_on(request);
                Ok(())
            }
        }
    }

    async fn body(&self, request: &mut Request) -> Result<Bytes, Box<Reply>> {
        request.body.collect(self.max_body_bytes, request.remote_addr).await.map_err(|error| {
            let reason = match error {
                BodyError::TooLarge => "it is too large",
                BodyError::Overloaded => "there is no memory left for it",
                _ => "it is not complete",
            };
            error_log::log(error_log::Level::Error, format_args!("failed to read request body: {reason}"));
            error.into()
        })
    }

    fn headers(&self, request: &Request) -> Vec<(String, Vec<u8>)> {
        let scheme: &[u8] = if request.https { b"https" } else { b"http" };
        let mut headers = vec![
            ("X-Forwarded-Proto".to_owned(), scheme.to_vec()),
            ("X-Forwarded-Method".to_owned(), request.head.method.as_bytes().to_vec()),
            ("X-Forwarded-Host".to_owned(), request.host.clone()),
            ("X-Forwarded-Uri".to_owned(), request.canonical_target()),
            ("X-Forwarded-For".to_owned(), request.remote_addr.to_string().into_bytes()),
        ];
        let coding = request.header("Content-Encoding").filter(|_| self.post);
        headers.extend(coding.map(|coding| ("Content-Encoding".to_owned(), coding.to_vec())));
        for (name, value) in &self.extra_headers {
            headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            headers.push((name.clone(), value.render(request)));
        }
        for name in &self.request_headers {
            // What the gateway says about the request is not the client's to replace. Framing is this connection's own.
            let taken = headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            let framing = ["Content-Length", "Transfer-Encoding", "Connection", "Expect"];
            if taken || framing.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                continue;
            }
            headers.extend(auth::lines(request, name));
        }
        headers
    }

    /// The service's status and body, with the headers that the client may see.
    fn refusal(&self, answer: &Incoming) -> Reply {
        let mut reply = Reply::bytes(answer.status, answer.body.clone());
        for name in &self.client_headers {
            let framing = ["Content-Length", "Transfer-Encoding", "Connection"];
            if framing.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                continue;
            }
            for value in answer.headers.get_all(name) {
                reply = reply.header(name.clone(), value.as_bytes());
            }
        }
        reply
    }

    /// Sets the headers that the answer has and removes the client's own of those it has not.
    fn pass_on(&self, request: &mut Request, answer: &Incoming) {
        request.extensions.insert(Identified);
        for name in &self.upstream_headers {
            request.assert_header(name, answer.headers.get_all(name).iter().map(|value| value.as_bytes()));
        }
    }

    /// Without an answer the client does not say itself what the service would have.
    fn pass_nothing_on(&self, request: &mut Request) {
        for name in &self.upstream_headers {
            request.assert_header(name, [] as [&[u8]; 0]);
        }
    }
}
