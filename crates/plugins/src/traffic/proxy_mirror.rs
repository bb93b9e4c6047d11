//! Sends a copy of requests to another server and forgets the answer.
//!
//! The copy leaves when the request itself goes to the upstream, past all that may refuse it; nothing waits for it.
//! Copies in flight are limited: past that they are dropped, so a slow mirror costs nothing but its copies.

mod grpc;

use std::{
    cell::Cell,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Method, Outgoing};
use tidegate_model::header_text::Text;
use tidegate_model::random::random_fraction;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Request, RequestBody, Step, hops, memory,
    upstream::{PassHost, Peer},
};
use tidegate_telemetry::error_log;

use crate::common::conf::typed;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "proxy-mirror",
    version: 0.1,
    priority: 1010,
    guards: false,
    schema: include_str!("proxy_mirror.json"),
    phases: Phases::REWRITE.and(Phases::DEPARTING),
    headers: &[("path", Text::Value)],
    build,
    start: Some(start),
    ..PluginDef::DEFAULT
};

/// Longer bodies are not copied.
const BODY_BYTES: usize = 64 << 20;
/// Copies under way per worker.
const MAX_IN_FLIGHT: usize = 1024;

thread_local! {
    static IN_FLIGHT: Cell<usize> = const { Cell::new(0) };
}

#[derive(Deserialize)]
struct Conf {
    host: String,
    path: Option<String>,
    path_concat_mode: String,
    sample_ratio: f64,
}

struct ProxyMirror {
    endpoint: Endpoint,
    grpc: bool,
    /// Of `grpcs`, made once.
    grpc_tls: Option<Arc<ClientConfig>>,
    path: Option<String>,
    prefix: bool,
    sample_ratio: f64,
}

/// The target of the copy, decided before later plugins rewrite the request.
struct Copy(String);

static TIMEOUT: OnceLock<Duration> = OnceLock::new();

/// `plugin_attr.proxy-mirror.timeout`: connect, send and read, as nginx writes times.
fn start(attributes: &Value) -> Result<(), String> {
    let timeout = attributes.get("timeout");
    let of = |name: &str| timeout.and_then(|timeout| timeout.get(name)).and_then(duration);
    let total = ["connect", "send", "read"].iter().filter_map(|name| of(name)).max();
    let _ = TIMEOUT.set(total.unwrap_or(Duration::from_secs(60)));
    Ok(())
}

/// As config.yaml's checks have taken it.
fn duration(value: &Value) -> Option<Duration> {
    if let Some(seconds) = value.as_f64() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    tidegate_model::units::duration(value.as_str()?)
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let after_grpc = conf.host.strip_prefix("grpc");
    // `grpc` and `grpcs` differ as `http` and `https` do.
    let url = after_grpc.map_or_else(|| conf.host.clone(), |rest| format!("http{rest}"));
    let endpoint = Endpoint::parse(&url)?;
    let grpc_tls = (after_grpc.is_some() && endpoint.tls).then(grpc::tls).transpose()?;
    Ok(Arc::new(ProxyMirror {
        endpoint,
        grpc: after_grpc.is_some(),
        grpc_tls,
        path: conf.path,
        prefix: conf.path_concat_mode == "prefix",
        sample_ratio: conf.sample_ratio,
    }))
}

impl ProxyMirror {
    fn target(&self, request: &Request) -> String {
        let target = request.edits.target.as_deref().unwrap_or_else(|| request.head.target());
        let target = String::from_utf8_lossy(target);
        match &self.path {
            None => target.into_owned(),
            Some(path) if self.prefix => format!("{path}{target}"),
            Some(path) => match target.split_once('?') {
                Some((_, query)) => format!("{path}?{query}"),
                None => path.clone(),
            },
        }
    }
}

impl Plugin for ProxyMirror {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let random = random_fraction();
        if self.sample_ratio >= 1.0 || random < self.sample_ratio {
            let target = self.target(request);
            request.extensions.insert(Copy(target));
        }
        Step::Next
    }

    fn departing<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let Some(Copy(mut target)) = request.extensions.take::<Copy>() else { return Step::Next };
        if self.grpc {
            // The name of a method as it stands now: grpc-web and others have made it in the access phase.
            let now = request.edits.target.as_deref().unwrap_or_else(|| request.head.target());
            target = String::from_utf8_lossy(now).into_owned();
        }
        if IN_FLIGHT.get() >= MAX_IN_FLIGHT {
            return Step::Next;
        }
        let endpoint = Endpoint { target, ..self.endpoint.clone() };
        let send = |request: &Request, endpoint, body| match self.grpc {
            true => send_call(request, endpoint, self.grpc_tls.clone(), body),
            false => send(request, endpoint, body),
        };
        let right = |request: &Request, bytes| memory::Copy::of(request.remote_addr, bytes);
        let known = match &request.body {
            RequestBody::Empty => Some(0),
            RequestBody::Collected(body) => Some(body.len()),
            RequestBody::Unread { length: None, .. } => None,
            RequestBody::Unread { length: Some(length), .. } => match usize::try_from(*length) {
                Ok(length) if length <= BODY_BYTES => Some(length),
                _ => return Step::Next,
            },
        };
        let held = match known.map(|bytes| right(request, bytes)) {
            // There is no memory for a copy: the request continues without one.
            Some(None) => return Step::Next,
            held => held.flatten(),
        };
        if matches!(request.body, RequestBody::Empty) {
            send(request, endpoint, Held { body: Bytes::new(), _right: None });
            return Step::Next;
        }
        Step::wait(async move {
            let body = request.collect_body(BODY_BYTES).await?;
            if let Some(held) = held.or_else(|| right(request, body.len())) {
                send(request, endpoint, Held { body, _right: Some(held) });
            }
            Ok(())
        })
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        // Copies are sent beside the request.
        Foresight::Continues
    }
}

/// The method that the upstream gets.
fn method(request: &Request) -> Option<Method> {
    let method = request.edits.method.as_ref().unwrap_or(&request.head.method);
    Method::from_bytes(method.as_bytes()).ok()
}

/// The `Host` that the upstream gets.
fn host(request: &Request) -> Vec<u8> {
    if let Some(host) = &request.edits.host {
        return host.clone();
    }
    let own = || request.header("Host").unwrap_or(&request.host).to_vec();
    let Some(upstream) = request.upstream() else { return own() };
    match &upstream.pass_host {
        PassHost::Pass => own(),
        PassHost::Rewrite(host) => host.as_bytes().to_vec(),
        PassHost::Node => {
            let node = request.outcome.peer.as_ref().and_then(Peer::node);
            node.map_or_else(own, |node| node.host_header.as_bytes().to_vec())
        }
    }
}

/// Fields of the client's connection, or that are set again.
const LEFT_OUT: [&str; 10] = [
    "host",
    "x-real-ip",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
];

/// A body, and the right to hold on to it.
struct Held {
    body: Bytes,
    _right: Option<memory::Copy>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Held {
    fn into_bytes(self) -> Bytes {
        if self._right.is_some() { Bytes::from_owner(self) } else { self.body }
    }
}

fn send(request: &Request, endpoint: Endpoint, body: Held) {
    let body = body.into_bytes();
    let Some(method) = method(request) else { return };
    let mut headers = vec![("Host".to_owned(), host(request))];
    headers.extend(copied_headers(request));
    let copy = Outgoing { method, endpoint, headers, body, client: None };
    fly(request, async move {
        let options = ClientOptions { timeout: timeout(), body: Body::Start(0), ..ClientOptions::default() };
        http::send(copy, &options).await.map(|_| ()).map_err(String::from)
    });
}

fn send_call(request: &Request, endpoint: Endpoint, tls: Option<Arc<ClientConfig>>, body: Held) {
    let body = body.into_bytes();
    let Some(method) = method(request) else { return };
    let (authority, headers) = (host(request), copied_headers(request));
    let call = grpc::Call { endpoint, tls, method, authority, headers, body };
    fly(request, async move {
        let late = |_| "it took too long".to_owned();
        tokio::time::timeout(timeout(), grpc::send(call)).await.map_err(late)?
    });
}

fn timeout() -> Duration {
    TIMEOUT.get().copied().unwrap_or(Duration::from_secs(60))
}

fn copied_headers(request: &Request) -> Vec<(String, Vec<u8>)> {
    let mut headers = vec![("X-Real-IP".to_owned(), request.remote_addr.to_string().into_bytes())];
    for (name, value) in request.head.headers.iter() {
        let name = String::from_utf8_lossy(name).into_owned();
        if !LEFT_OUT.iter().any(|left_out| name.eq_ignore_ascii_case(left_out)) {
            headers.push((name, value.to_vec()));
        }
    }
    headers
}

/// Nothing waits for a copy.
fn fly(request: &Request, copy: impl Future<Output = Result<(), String>> + 'static) {
    IN_FLIGHT.set(IN_FLIGHT.get() + 1);
    let flight = Flight;
    let copy = hops::on_behalf(hops::of_copy(request), copy);
    tokio::task::spawn_local(async move {
        let _flight = flight;
        if let Err(reason) = copy.await {
            error_log::log(error_log::Level::Warn, format_args!("failed to mirror a request: {reason}"));
        }
    });
}

struct Flight;

impl Drop for Flight {
    fn drop(&mut self) {
        IN_FLIGHT.set(IN_FLIGHT.get().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_as_nginx_writes_them() {
        let cases = [
            (json!("60s"), Some(60_000)),
            (json!("500ms"), Some(500)),
            (json!("2m"), Some(120_000)),
            (json!("1h 30m"), Some(5_400_000)),
            (json!(3), Some(3000)),
            (json!("x"), None),
            (json!("5 years"), None),
        ];
        for (value, expected) in cases {
            assert_eq!(duration(&value).map(|time| time.as_millis()), expected, "{value}");
        }
    }
}
