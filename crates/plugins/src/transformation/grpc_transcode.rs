//! HTTP requests with JSON, a form or query arguments for a gRPC upstream, and its answers as JSON.
//!
//! The `protos` resource that `proto_id` names is compiled when the configuration is; requests find finished
//! descriptors.

mod cost;
mod proto;
mod reading;
mod writing;

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor, prost::Message};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::nginx_base64;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody, SchemaKind,
    Step, Verdict, WholeBody,
    aside::{self, Undone},
    document::{self, Allowance, TooLarge, Unread},
    memory::{self, Lease, Spent},
};
use tidegate_protocol::{HeaderId, Method};
use tidegate_routing::expr::GaveUp;
use tidegate_telemetry::error_log;

use crate::common::{
    conf::typed,
    form,
    held_body::{self, HeldBody, Whole},
    instance_state,
    regexes::Regex,
};
pub(crate) use proto::check as check_proto;
use writing::Options;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "grpc-transcode",
    version: 0.1,
    priority: 506,
    guards: false,
    schema: include_str!("grpc_transcode.json"),
    phases: Phases::ACCESS.and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    check,
    schemes: &["grpc", "grpcs"],
    build,
    ..PluginDef::DEFAULT
};

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let pattern = conf.get("path_regex").and_then(Value::as_str);
    let fault = pattern.and_then(|pattern| Regex::new(pattern, false).err());
    fault.map_or(Ok(()), |fault| Err(format!("invalid path_regex: {fault}")))
}

/// What stands before a message.
const PREFIX: usize = 5;

/// Messages that take more are read by a thread for long work.
const ON_A_WORKER: usize = 1 << 20;

/// Larger requests get 413.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

#[derive(Deserialize)]
struct Conf {
    proto_id: Value,
    service: String,
    method: String,
    deadline: f64,
    pb_option: Vec<String>,
    show_status_in_body: bool,
    status_detail_type: Option<String>,
    max_resp_body_size: usize,
    path_regex: Option<String>,
    #[serde(default)]
    path_fields: Vec<String>,
}

struct Transcode {
    /// Ours: fields that stand in the path, as the HTTP rules of proto files have them.
    path: Option<Regex>,
    conf: Conf,
    options: Options,
    /// Why there is none is logged for every request, as in APISIX.
    pool: Result<DescriptorPool, String>,
    method: Option<MethodDescriptor>,
}

/// A request that was transcoded, and its answer as far as it came.
struct Call(Option<HeldBody>);

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let id = conf.proto_id.as_str().map_or_else(|| conf.proto_id.to_string(), str::to_owned);
    let compiled = match context.proto {
        None => Err(format!("failed to find proto by id: {id}")),
        Some(content) => proto::compile(content),
    };
    let method = compiled.as_ref().ok().and_then(|compiled| compiled.method(&conf.service, &conf.method));
    let options = Options::new(&conf.pb_option);
    let path = conf.path_regex.as_deref().map(|pattern| Regex::new(pattern, false)).transpose()?;
    Ok(Arc::new(Transcode { path, options, method, pool: compiled.map(|compiled| compiled.pool), conf }))
}

impl Plugin for Transcode {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Err(reason) = &self.pool {
            log(format_args!("proto load error: {reason}"));
            return Step::Next;
        }
        let Some(method) = &self.method else {
            let Conf { service, method, .. } = &self.conf;
            log(format_args!("undefined service method: {service}/{method}"));
            return Step::reply(Reply::page(503));
        };
        Step::wait(self.send(request, method))
    }

    fn header_filter(&self, request: &mut Request) {
        let response = &mut request.response;
        if response.status < 300 {
            response.headers.set("Content-Type", "application/json");
            match response.headers.get_str("grpc-status").filter(|status| *status != "0") {
                Some(status) => response.set_status(http_status(status)),
                None => response.headers.set("Trailer", "grpc-status, grpc-message"),
            }
        }
        if self.rewrites(request) {
            request.response.length_modified();
            let held = HeldBody::of(request, self.conf.max_resp_body_size);
            instance_state::set(request, self, Call(held));
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        if !self.rewrites(request) {
            return;
        }
        let Some(Call(Some(held))) = instance_state::get_mut::<_, Call>(request, self) else { return };
        held.take(PLUGIN.name, chunk);
    }

    fn whole_body<'a>(&'a self, request: &'a mut Request) -> WholeBody<'a> {
        Box::pin(async move {
            let held = instance_state::take::<_, Call>(request, self);
            let body = held.and_then(|Call(held)| held).map(|mut held| held.whole());
            let client = request.remote_addr;
            let answer = match (request.response.status >= 300, &self.method, body) {
                (true, _, _) => self.status(request).map(|answer| answer.map(|value| value.to_string())),
                (false, Some(method), Some(body)) => Some(self.answer(method, body, client).await?),
                (false, _, _) => None,
            };
            let text = answer.unwrap_or_else(|| Ok(String::new())).unwrap_or_else(|reason| {
                log(format_args!("transform response error: {reason}"));
                reason.to_owned()
            });
            memory::hold(text.into_bytes(), client).map_err(spent)
        })
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

fn log(text: std::fmt::Arguments<'_>) {
    error_log::log(error_log::Level::Error, format_args!("grpc-transcode: {text}"));
}

impl Transcode {
    /// Whether the body of this answer is rebuilt.
    fn rewrites(&self, request: &mut Request) -> bool {
        let wanted = request.response.status < 300 || self.conf.show_status_in_body;
        wanted && instance_state::get_mut::<_, Call>(request, self).is_some()
    }

    /// The first message of an answer as JSON, in memory that is counted, and by another thread where it has many values.
    async fn answer(
        &self,
        method: &MethodDescriptor,
        body: Whole,
        client: IpAddr,
    ) -> Result<Result<String, &'static str>, u16> {
        let undone = |Undone| 500u16;
        let body = aside::run_by_size(client, body.length(), move || body.join()).await.map_err(undone)?;
        let message = body.slice(body.len().min(PREFIX)..);
        let (output, bytes) = (method.output(), message.clone());
        let cost = move || cost::of(&output, &bytes, 0);
        let cost = aside::run_by_size(client, message.len(), cost).await.map_err(undone)?;
        let mut lease = Lease::new(client);
        if cost > memory::UNCOUNTED {
            lease.grow_to(cost).map_err(spent)?;
        }
        let (method, options) = (method.clone(), self.options);
        let write = move || json_of(&method, options, &message);
        aside::run_by_size(client, if cost > ON_A_WORKER { usize::MAX } else { 0 }, write)
            .await
            .map_err(undone)
    }

    async fn send(&self, request: &mut Request, method: &MethodDescriptor) -> Verdict {
        let body = request.collect_body(MAX_REQUEST_BYTES).await?;
        let kind = request.head.headers.known(HeaderId::ContentType).unwrap_or_default().to_vec();
        let (has_body, is_post) = (
            matches!(request.head.method, Method::Post | Method::Put | Method::Patch),
            request.head.method == Method::Post,
        );
        let query = request.head.query().unwrap_or_default().to_vec();
        let client = request.remote_addr;
        let read = aside::run_by_size(client, body.len(), move || {
            let allowance = Allowance::of_a_body(Some(client));
            let json = has_body && memchr::memmem::find(&kind, b"application/json").is_some();
            let fields = if is_post { body.as_ref() } else { query.as_slice() };
            (source(json.then_some(body.as_ref()), fields, &allowance), allowance)
        });
        // What was read stays as long as the message is made.
        let (source, _allowance) = read.await.map_err(|Undone| Box::new(Reply::page(500)))?;
        let mut source = source.map_err(|error| {
            log(format_args!("{error}"));
            Box::new(Reply::page(error.status()))
        })?;
        self.add_path_fields(request, &mut source)?;
        let message = match reading::message(method.input(), &source) {
            Ok(message) => message.encode_to_vec(),
            Err(reason) => {
                log(format_args!("failed to encode request data to protobuf: {reason}"));
                return Err(Box::new(Reply::page(400)));
            }
        };
        let mut framed = Vec::with_capacity(message.len() + 5);
        framed.push(0);
        framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
        framed.extend_from_slice(&message);
        request.body = RequestBody::Collected(Bytes::from(framed));
        request.edits.method = Some(Method::Post);
        request.edits.target = Some(format!("/{}/{}", self.conf.service, self.conf.method).into_bytes());
        if self.conf.deadline > 0.0 {
            let deadline = crate::common::number::lua(self.conf.deadline);
            request.head.headers.set("grpc-timeout", format!("{deadline}m"));
        }
        instance_state::set(request, self, Call(None));
        Ok(())
    }

    /// What the path says counts more than what a body or the query does.
    fn add_path_fields(&self, request: &Request, source: &mut Value) -> Result<(), Box<Reply>> {
        let Some(path) = &self.path else { return Ok(()) };
        let found = path.within(&request.search_time).captures(&request.path);
        let found = found.map_err(|GaveUp| Box::new(Reply::page(500)))?;
        let (Some(groups), Value::Object(source)) = (found, source) else { return Ok(()) };
        for (name, group) in self.conf.path_fields.iter().zip(groups.into_iter().skip(1)) {
            let text = group.and_then(|range| request.path.get(range)).unwrap_or_default();
            source.insert(name.clone(), String::from_utf8_lossy(text).into_owned().into());
        }
        Ok(())
    }

    /// What `grpc-status-details-bin` holds (`google.rpc.Status`); `None` without that field.
    fn status(&self, request: &Request) -> Option<Result<Value, &'static str>> {
        let field = request.response.headers.get("grpc-status-details-bin")?;
        let Some(bytes) = nginx_base64::decode(field) else {
            return Some(Err("grpc-status-details-bin is not base64 format"));
        };
        let descriptor = proto::status_descriptor();
        let Some(Ok(status)) = descriptor.map(|descriptor| DynamicMessage::decode(descriptor, &*bytes))
        else {
            return Some(Err("failed to call pb.decode to decode grpc-status-details-bin"));
        };
        let mut error = writing::json(&status, &Options::default());
        if let Some(kind) = &self.conf.status_detail_type {
            match self.details(&status, kind) {
                Some(details) => error["details"] = details,
                None => {
                    return Some(Err(
                        "failed to call pb.decode to decode details in grpc-status-details-bin",
                    ));
                }
            }
        }
        Some(Ok(json!({ "error": error })))
    }

    fn details(&self, status: &DynamicMessage, kind: &str) -> Option<Value> {
        let descriptor = self.pool.as_ref().ok()?.get_message_by_name(kind)?;
        let details = status.get_field_by_name("details")?;
        let decoded = details.as_list()?.iter().map(|detail| {
            let value = detail.as_message()?.get_field_by_name("value")?;
            let message = DynamicMessage::decode(descriptor.clone(), value.as_bytes()?.clone()).ok()?;
            Some(writing::json(&message, &self.options))
        });
        decoded.collect::<Option<Vec<Value>>>().map(Value::Array)
    }
}

fn spent(_: Spent) -> u16 {
    held_body::refuse(PLUGIN.name, "there is no memory left for bodies");
    503
}

/// A message as JSON.
fn json_of(method: &MethodDescriptor, options: Options, bytes: &[u8]) -> Result<String, &'static str> {
    let decoded = DynamicMessage::decode(method.output(), bytes);
    let decoded = decoded.map_err(|_| "failed to decode response data by protobuf")?;
    Ok(writing::json(&decoded, &options).to_string())
}

/// Where the fields of the message come from: a JSON body, a form, or the query.
fn source(json: Option<&[u8]>, fields: &[u8], allowance: &Allowance) -> Result<Value, TooLarge> {
    match json.map(|json| document::parse(json, allowance)) {
        Some(Ok(value)) if !value.is_null() => Ok(value),
        Some(Err(Unread::TooLarge(error))) => Err(error),
        _ => form::decode(fields, allowance),
    }
}

/// The HTTP status that fits a gRPC status.
fn http_status(grpc: &str) -> u16 {
    match grpc {
        "1" => 499,
        "2" | "13" | "15" => 500,
        "3" | "9" | "11" => 400,
        "4" => 504,
        "5" => 404,
        "6" | "10" => 409,
        "7" => 403,
        "8" => 429,
        "12" => 501,
        "14" => 503,
        "16" => 401,
        _ => 599,
    }
}
