//! Makes new request and response bodies from templates over the old ones: JSON, XML, forms, multipart.

mod decoding;
mod format;
mod xml;

use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::nginx_base64;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody, Step,
    WholeBody, Why,
    aside::{self, Undone},
    body::BodyError,
    document::Allowance,
    memory::{self, Spent},
    step::Verdict,
};
use tidegate_protocol::{HeaderId, Method};
use tidegate_telemetry::error_log;

use crate::{
    common::{conf::typed, held_body::HeldBody, instance_state},
    lua::{Phase, Template},
};
use decoding::{Document, decode};
use format::Format;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "body-transformer",
    version: 0.1,
    priority: 1080,
    guards: false,
    answers: true,
    schema: include_str!("body_transformer.json"),
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    remarks,
    build,
    for_admins: Some("its templates are code"),
    ..PluginDef::DEFAULT
};

/// What stands behind a tag that is not closed is text.
fn remarks(conf: &Value) -> Vec<String> {
    let of_side = |side: &str| {
        let template = conf.get(side)?.get("template")?.as_str()?;
        let tags = [("{{", "}}"), ("{%", "%}"), ("{*", "*}")];
        let is_open = |(open, close): &(&str, &str)| {
            template.rsplit_once(open).is_some_and(|(_, rest)| !rest.contains(close))
        };
        let (open, close) = tags.into_iter().find(is_open)?;
        Some(format!("{side}.template: {open} is not closed by {close}, and is sent as it is written"))
    };
    ["request", "response"].into_iter().filter_map(of_side).collect()
}

#[derive(Deserialize)]
struct Conf {
    request: Option<TransformConf>,
    response: Option<TransformConf>,
    max_req_body_size: usize,
    max_resp_body_size: usize,
}

#[derive(Deserialize)]
struct TransformConf {
    input_format: Option<Format>,
    template: String,
    #[serde(default)]
    template_is_base64: bool,
}

struct BodyTransformer {
    request: Option<Transform>,
    response: Option<Transform>,
    /// Bytes.
    max_request: usize,
    max_response: usize,
}

struct Transform {
    /// For messages: `request` or `response`.
    side: &'static str,
    phase: Phase,
    format: Option<Format>,
    /// The template as written; the error if it cannot be read, which requests then see.
    plain: Result<Template, String>,
    /// The template decoded from base64, where it may be meant so.
    decoded: Option<Result<Template, String>>,
    always_base64: bool,
}

/// Bodies up to this size are read on the worker: some thousand fields or elements.
const ON_A_WORKER: usize = 16 << 10;

/// Why there is no new body: the status to answer, and what to say.
type Failure = (u16, String);

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let transform = |side, phase, conf: TransformConf| Transform {
        side,
        phase,
        format: conf.input_format,
        plain: Template::new(&conf.template),
        decoded: nginx_base64::decode(conf.template.as_bytes())
            .and_then(|decoded| String::from_utf8(decoded).ok())
            .map(|decoded| Template::new(&decoded)),
        always_base64: conf.template_is_base64,
    };
    Ok(Arc::new(BodyTransformer {
        request: conf.request.map(|conf| transform("request", Phase::Rewrite, conf)),
        response: conf.response.map(|conf| transform("response", Phase::BodyFilter, conf)),
        max_request: conf.max_req_body_size,
        max_response: conf.max_resp_body_size,
    }))
}

/// The response's body on hold, and how to read it.
struct Held {
    body: HeldBody,
    format: Option<Format>,
    content_type: Vec<u8>,
}

impl Plugin for BodyTransformer {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match &self.request {
            Some(transform) => Step::wait(self.transform_request(transform, request)),
            None => Step::Next,
        }
    }

    fn header_filter(&self, request: &mut Request) {
        let Some(transform) = &self.response else { return };
        let content_type = request.response.headers.known(HeaderId::ContentType).unwrap_or_default().to_vec();
        let format = transform.format.or_else(|| Format::of(&content_type));
        request.response.body_modified();
        if let Some(body) = HeldBody::of(request, self.max_response) {
            instance_state::set(request, self, Held { body, format, content_type });
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        if let Some(held) = instance_state::get_mut::<_, Held>(request, self) {
            held.body.take(PLUGIN.name, chunk);
        }
    }

    fn whole_body<'a>(&'a self, request: &'a mut Request) -> WholeBody<'a> {
        Box::pin(async move {
            let held = instance_state::take::<_, Held>(request, self);
            let (Some(Held { mut body, format, content_type }), Some(transform)) = (held, &self.response)
            else {
                return Err(500);
            };
            let whole = body.whole();
            let joined = aside::run_by_size(request.remote_addr, whole.length(), move || whole.join());
            let body = joined.await.map_err(|Undone| 500u16)?;
            let is_empty = body.is_empty();
            match transform.apply(request, Some(body), format, content_type).await {
                Ok(new) => Ok(new),
                Err((status, reason)) => {
                    error_log::log(
                        error_log::Level::Error,
                        format_args!("failed to transform response body: {reason}"),
                    );
                    // The template may be what leaves something out.
                    if is_empty { Ok(Bytes::new()) } else { Err(if status == 503 { 503 } else { 502 }) }
                }
            }
        })
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        match &self.request {
            Some(_) => Foresight::maybe(None, Why::Runs),
            None => Foresight::Continues,
        }
    }
}

impl BodyTransformer {
    async fn transform_request(&self, transform: &Transform, request: &mut Request) -> Verdict {
        let body = match request.collect_body(self.max_request).await {
            Ok(body) => body,
            Err(reply) if reply.status == BodyError::TooLarge.status() => {
                return Err(Box::new(Reply::page(413)));
            }
            Err(reply) => return Err(reply),
        };
        let content_type = request.head.headers.known(HeaderId::ContentType).unwrap_or_default().to_vec();
        let is_get = request.head.method == Method::Get;
        let format = match transform.format {
            _ if is_get => Some(Format::Args),
            Some(format) => Some(format),
            None => Format::of(&content_type),
        };
        let body = (!body.is_empty()).then_some(body);
        let new =
            transform.apply(request, body, format, content_type).await.map_err(|(status, reason)| {
                error_log::log(error_log::Level::Error, format_args!("{reason}"));
                Box::new(Reply::message(status, &reason))
            })?;
        request.body = RequestBody::Collected(new);
        Ok(())
    }
}

impl Transform {
    async fn apply(
        &self,
        request: &mut Request,
        body: Option<Bytes>,
        format: Option<Format>,
        content_type: Vec<u8>,
    ) -> Result<Bytes, Failure> {
        let (bytes, client, kind) = (body.clone(), request.remote_addr, content_type.clone());
        let query = request.head.query().unwrap_or_default().to_vec();
        let length = body.as_ref().map_or(0, Bytes::len);
        let asked = self.template(format).as_ref().ok().and_then(Template::asked);
        let read = move || {
            // What was read stays as long as the template runs.
            let allowance = Allowance::of_a_body(Some(client));
            let only = asked.as_deref();
            let decoded = decode(format, bytes.as_deref(), &query, &kind, &allowance, only);
            (decoded, allowance)
        };
        let read = if length <= ON_A_WORKER { Ok(read()) } else { aside::run(client, read).await };
        let (decoded, allowance) =
            read.map_err(|Undone| (500, format!("{} body decode: it was not done", self.side)))?;
        let rendered = match &decoded {
            Ok(document) => {
                let form = (format == Some(Format::Multipart)).then_some(content_type.as_slice());
                self.render(request, (body.as_deref(), form), format, document).await
            }
            Err(reason) => Err((reason.status(), format!("{} body decode: {reason}", self.side))),
        };
        if length > ON_A_WORKER {
            aside::release((decoded, allowance));
        }
        let full = |Spent| (503, format!("{} body: there is no memory left for bodies", self.side));
        memory::hold(rendered?, client).map_err(full)
    }

    fn template(&self, format: Option<Format>) -> &Result<Template, String> {
        let may_be_base64 = self.always_base64
            || format.is_some_and(|format| !matches!(format, Format::Encoded | Format::Args));
        match &self.decoded {
            Some(decoded) if may_be_base64 => decoded,
            _ => &self.plain,
        }
    }

    async fn render(
        &self,
        request: &mut Request,
        (body, form): (Option<&[u8]>, Option<&[u8]>),
        format: Option<Format>,
        document: &Document,
    ) -> Result<Vec<u8>, Failure> {
        let template = self.template(format);
        let template =
            template.as_ref().map_err(|reason| (503, format!("{} template compile: {reason}", self.side)))?;
        let failed = |reason: &str| (503, format!("{} template rendering: {reason}", self.side));
        let names = document.names().ok_or_else(|| failed("the body is not a table"))?;
        template.render(request, self.phase, body, form, names).await.map_err(|reason| failed(&reason))
    }
}

/// Whether the text can be read within the allowance.
pub(crate) fn is_xml(text: &str, allowance: &Allowance) -> bool {
    xml::parse(text, allowance).is_ok()
}
