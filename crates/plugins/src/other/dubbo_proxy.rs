//! Calls a method of a Dubbo service that takes and gives a map: header fields and body of the request, and those of the response.

mod hessian;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use hessian::{Reader, Value as Given, write_bytes, write_text};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Why, answers::Lease,
    descriptors, reply::FINAL_STATUSES, step::Verdict, upstream::Timeouts,
};
use tidegate_protocol::fields::is_token_byte;
use tidegate_telemetry::error_log::{self, Level};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::common::{
    conf::typed,
    dubbo::{self, Serialization},
    relayed::{fields, is_for_clients},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "dubbo-proxy",
    version: 0.1,
    priority: 507,
    on_by_default: false,
    guards: false,
    // The node speaks Dubbo.
    answers: true,
    schema: include_str!("dubbo_proxy.json"),
    phases: Phases::BEFORE_PROXY,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct DubboProxy {
    service_name: String,
    service_version: String,
    method: Option<String>,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<DubboProxy>(conf)?))
}

impl Plugin for DubboProxy {
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.call(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Calls)
    }
}

/// The result that a method of this kind gives.
const RESULT: [u8; 2] = [1, 4];
const NOTHING: [u8; 2] = [2, 5];

struct Failure {
    status: u16,
    reason: String,
}

impl Failure {
    fn new(status: u16, reason: impl Into<String>) -> Failure {
        Failure { status, reason: reason.into() }
    }
}

impl DubboProxy {
    /// The result is the answer: nothing goes on.
    async fn call(&self, request: &mut Request) -> Verdict {
        let body = request.collect_body(usize::MAX).await?;
        let call = dubbo::call(Serialization::Hessian2, &self.body(request, &body));
        let answered = async {
            let mut stream = connect(request).await?;
            exchange(&mut stream, &call, &times(request)).await.and_then(|answer| reply(&answer))
        };
        match answered.await {
            Ok(reply) => Err(Box::new(reply)),
            Err(Failure { status, reason }) => {
                error_log::log(Level::Error, format_args!("dubbo-proxy: {reason}"));
                Err(Box::new(Reply::page(status)))
            }
        }
    }

    fn body(&self, request: &Request, body: &[u8]) -> Vec<u8> {
        let path = String::from_utf8_lossy(&request.path);
        let method = self.method.as_deref().unwrap_or_else(|| path.strip_prefix('/').unwrap_or(&path));
        let mut out = Vec::with_capacity(1024 + body.len());
        for text in ["2.0.2", &self.service_name, &self.service_version, method, "Ljava/util/Map;"] {
            write_text(&mut out, text);
        }
        out.push(b'H');
        let host = request
            .edits
            .host
            .as_deref()
            .or(request.header("Host"))
            .map(|host| ("host".to_owned(), host.to_vec()));
        for (name, value) in fields(request).into_iter().chain(host) {
            let name = name.to_ascii_lowercase();
            // The key of the body is not a client's to set.
            if name != "body" {
                write_text(&mut out, &name);
                write_text(&mut out, &String::from_utf8_lossy(&value));
            }
        }
        if !body.is_empty() {
            write_text(&mut out, "body");
            write_bytes(&mut out, body);
        }
        out.extend(b"ZH");
        for (name, value) in [
            ("path", &self.service_name),
            ("interface", &self.service_name),
            ("version", &self.service_version),
        ] {
            write_text(&mut out, name);
            write_text(&mut out, value);
        }
        out.push(b'Z');
        out
    }
}

fn times(request: &Request) -> Timeouts {
    let upstream = request.outcome.peer.as_ref().map(|peer| peer.upstream.timeouts).unwrap_or_default();
    let route = request.route.as_ref().and_then(|route| route.timeouts.as_deref().copied());
    request.edits.timeouts.or(route).unwrap_or(upstream)
}

/// To the node that the balancer chose, or to another one of the upstream where that cannot be reached.
async fn connect(request: &Request) -> Result<TcpStream, Failure> {
    let peer = request.outcome.peer.as_ref().ok_or_else(|| Failure::new(502, "no node was chosen"))?;
    let nodes = &peer.upstream.nodes;
    let others =
        peer.upstream.retries.map_or(nodes.len(), |retries| usize::try_from(retries).unwrap_or(usize::MAX));
    let later = nodes
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != usize::from(peer.index))
        .map(|(_, node)| &**node);
    let mut failure = Failure::new(502, "the node's name is not resolved");
    let limit = times(request).connect_ms;
    for address in peer.node().into_iter().chain(later.take(others)).filter_map(|node| node.address) {
        match within(limit, "connect to", &address, TcpStream::connect(address)).await {
            Ok(stream) => {
                return descriptors::spared(stream).map_err(|error| Failure::new(502, error.to_string()));
            }
            Err(failed) => failure = failed,
        }
    }
    Err(failure)
}

async fn within<T>(
    milliseconds: u64,
    what: &str,
    address: &SocketAddr,
    work: impl Future<Output = io::Result<T>>,
) -> Result<T, Failure> {
    match timeout(Duration::from_millis(milliseconds), work).await {
        Ok(done) => done.map_err(|error| Failure::new(502, format!("failed to {what} {address}: {error}"))),
        Err(_) => Err(Failure::new(504, format!("failed to {what} {address}: upstream timed out"))),
    }
}

/// Status and body of the answer.
async fn exchange(stream: &mut TcpStream, call: &[u8], times: &Timeouts) -> Result<(u8, Vec<u8>), Failure> {
    let address = stream.peer_addr().map_err(|error| Failure::new(502, error.to_string()))?;
    within(times.send_ms, "send the call to", &address, stream.write_all(call)).await?;
    let mut head = [0; dubbo::HEAD];
    within(times.read_ms, "read the result of", &address, stream.read_exact(&mut head)).await?;
    let (status, length) = dubbo::head(head).map_err(|reason| Failure::new(502, reason))?;
    let mut lease = Lease::new(&address.to_string());
    lease.grow_to(length).map_err(|refused| Failure::new(502, refused.to_string()))?;
    let mut data = vec![0; length];
    within(times.read_ms, "read the result of", &address, stream.read_exact(&mut data)).await?;
    Ok((status, data))
}

fn reply((status, data): &(u8, Vec<u8>)) -> Result<Reply, Failure> {
    let shown = || -> String {
        let text = String::from_utf8_lossy(data);
        text.chars().filter(|sign| !sign.is_control()).take(300).collect()
    };
    if *status != dubbo::OK {
        return Err(Failure::new(502, format!("the service answered status {status}: {}", shown())));
    }
    let mut reader = Reader::new(data);
    let malformed = || Failure::new(502, "the result is not a map in Hessian 2");
    match reader.small() {
        Some(kind) if RESULT.contains(&kind) => {}
        Some(kind) if NOTHING.contains(&kind) => return Ok(Reply::bytes(200, "")),
        _ => return Err(Failure::new(502, format!("the method failed: {}", shown()))),
    }
    let Some(Given::Map(entries)) = reader.value() else { return Err(malformed()) };
    let mut reply = Reply::bytes(200, "");
    for (name, value) in entries {
        match (name.as_slice(), value) {
            (b"body", Given::Text(body) | Given::Bytes(body)) => {
                reply.body = tidegate_plugin_api::reply::ReplyBody::Bytes(body.into());
            }
            (b"status", Given::Text(text)) => {
                let status = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                reply.status = status.filter(|status| FINAL_STATUSES.contains(status)).ok_or_else(|| {
                    Failure::new(502, format!("the result has the status {}", String::from_utf8_lossy(&text)))
                })?;
            }
            (_, Given::Text(value)) => add(&mut reply, &name, &value)?,
            _ => {}
        }
    }
    Ok(reply)
}

fn add(reply: &mut Reply, name: &[u8], value: &[u8]) -> Result<(), Failure> {
    let is_name = !name.is_empty() && name.iter().all(|byte| is_token_byte(*byte));
    let is_value = value.iter().all(|byte| *byte >= b' ' && *byte != 0x7f || *byte == b'\t');
    if !is_name || !is_value {
        let name = String::from_utf8_lossy(name).into_owned();
        return Err(Failure::new(
            502,
            format!("the result has {name:?}, which cannot be a header with its value"),
        ));
    }
    if is_for_clients(&String::from_utf8_lossy(name)) {
        reply.headers.add(name, value);
    }
    Ok(())
}
