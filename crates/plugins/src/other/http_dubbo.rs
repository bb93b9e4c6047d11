//! Calls a method of a Dubbo service with what an HTTP request brings, and answers with its result.

mod call;

use std::{io, sync::Arc, time::Duration};

use call::{Answer, Call};
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why, aside,
    descriptors, document::Allowance, step::Verdict, upstream::Peer,
};
use tidegate_telemetry::error_log::{self, Level};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::common::{conf::typed, dubbo, json};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "http-dubbo",
    version: 0.1,
    priority: 504,
    guards: false,
    // The node speaks Dubbo.
    answers: true,
    schema: include_str!("http_dubbo.json"),
    phases: Phases::BEFORE_PROXY,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct HttpDubbo {
    service_name: String,
    service_version: String,
    method: String,
    params_type_desc: String,
    serialization_header_key: Option<String>,
    serialized: bool,
    connect_timeout: f64,
    send_timeout: f64,
    read_timeout: f64,
    max_req_body_size: usize,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    let conf: HttpDubbo = typed(conf)?;
    call::parameters(&conf.params_type_desc)?;
    // They are lines of the call.
    for (name, text) in [
        ("service_name", &conf.service_name),
        ("method", &conf.method),
        ("service_version", &conf.service_version),
    ] {
        if text.contains(['"', '\\']) || text.chars().any(char::is_control) {
            return Err(format!("{name} {text:?} is not a name of Java"));
        }
    }
    for (name, time) in
        [("connect", conf.connect_timeout), ("send", conf.send_timeout), ("read", conf.read_timeout)]
    {
        milliseconds(time).ok_or_else(|| format!("{name}_timeout: {time} does not count milliseconds"))?;
    }
    Ok(())
}

fn milliseconds(time: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(time / 1e3).ok()
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<HttpDubbo>(conf)?))
}

impl Plugin for HttpDubbo {
    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::ask(self.call(request))
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Calls)
    }
}

fn failed(status: u16, reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("http-dubbo: {reason}"));
    Box::new(Reply::page(status))
}

impl HttpDubbo {
    /// The result is the answer: nothing goes on.
    async fn call(&self, request: &mut Request) -> Verdict {
        let address = request.outcome.peer.as_ref().and_then(Peer::node).and_then(|node| node.address);
        let address = address.ok_or_else(|| failed(502, "the node's name is not resolved"))?;
        let connecting = async { TcpStream::connect(address).await.and_then(descriptors::spared) };
        let stream = within(self.connect_timeout, connecting).await;
        let mut stream =
            stream.map_err(|error| failed(502, &format!("failed to connect to upstream {error}")))?;
        let call = Call {
            service: &self.service_name,
            version: &self.service_version,
            method: &self.method,
            types: &self.params_type_desc,
            parameters: self.parameters(request).await?,
        };
        let sent = within(self.send_timeout, stream.write_all(&call.bytes())).await;
        sent.map_err(|error| failed(500, &format!("failed to send the call: {error}")))?;
        let answer = within(self.read_timeout, answer(&mut stream)).await;
        match answer.map_err(|error| failed(500, &format!("failed to read the result: {error}")))? {
            Answer::Nothing => Err(Box::new(Reply::page(200))),
            Answer::Value(value) => Err(Box::new(Reply::bytes(200, value))),
            Answer::Failed(reason) => Err(failed(500, &reason)),
        }
    }

    /// As lines of JSON, one for each.
    async fn parameters(&self, request: &mut Request) -> Result<Vec<u8>, Box<Reply>> {
        let is_serialized = match &self.serialization_header_key {
            Some(name) => request.header(name) == Some(b"true"),
            None => self.serialized,
        };
        let body = request.collect_body(self.max_req_body_size).await?;
        let lines = if is_serialized {
            body.strip_suffix(b"\n").unwrap_or(&body).to_vec()
        } else if body.is_empty() {
            Vec::new()
        } else {
            let client = request.remote_addr;
            let length = body.len();
            let read = move || {
                json::decode(&body, &Allowance::of_a_body(Some(client))).map(|value| call::lines(&value))
            };
            let read = aside::run_by_size(request.remote_addr, length, read)
                .await
                .map_err(|aside::Undone| Reply::page(503))?;
            read.map_err(|error| failed(error.status(), &format!("the body cannot be read: {error}")))?
        };
        let count = call::count_lines(&lines);
        let wanted = call::parameters(&self.params_type_desc).unwrap_or_default();
        // Further lines would be read as attachments, which are not the client's to set.
        if count != wanted {
            return Err(failed(400, &format!("the body has {count} parameters, the method takes {wanted}")));
        }
        Ok(lines)
    }
}

async fn within<T>(milliseconds: f64, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let limit = self::milliseconds(milliseconds).unwrap_or_default();
    timeout(limit, work).await.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "timeout")))
}

async fn answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut head = [0; dubbo::HEAD];
    stream.read_exact(&mut head).await?;
    let (status, length) = dubbo::head(head).map_err(io::Error::other)?;
    let mut data = vec![0; length];
    stream.read_exact(&mut data).await?;
    Ok(Answer::of(status, &data))
}
