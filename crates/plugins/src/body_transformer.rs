//! Makes new request and response bodies from templates over the old ones: JSON, XML, forms, multipart.

mod xml;

use std::sync::Arc;

use bytes::Bytes;
use mlua::{Lua, Table};
use plugin::{
    BodyChunk, BuildContext, Phases, Plugin, PluginDef, Reply, Request, RequestBody, Step,
    aside::{self, Undone},
    body::BodyError,
    document::{Allowance, TooLarge},
    memory::{self, Spent},
    multipart,
    step::Verdict,
};
use serde::Deserialize;
use serde_json::{Map, Value};
use telemetry::error_log;
use wire::{HeaderId, Method};

use crate::{
    common::{
        conf::typed,
        form,
        held_body::HeldBody,
        instance_state,
        json::{self, Undecoded},
        nginx_base64,
    },
    lua::{self, Phase, Template},
};

pub static PLUGIN: PluginDef = PluginDef {
    name: "body-transformer",
    version: 0.1,
    priority: 1080,
    guards: false,
    answers: true,
    schema: include_str!("../schemas/body-transformer.json"),
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER).and(Phases::BODY_FILTER),
    build,
    ..PluginDef::DEFAULT
};

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

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Format {
    Xml,
    Json,
    Encoded,
    Args,
    Plain,
    Multipart,
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

/// The format that a media type says.
fn format_of(content_type: &[u8]) -> Option<Format> {
    let text = String::from_utf8_lossy(content_type);
    let lower = text.to_ascii_lowercase();
    if text.contains("text/xml") {
        Some(Format::Xml)
    } else if text.contains("application/json") {
        Some(Format::Json)
    } else if lower.contains("application/x-www-form-urlencoded") {
        Some(Format::Encoded)
    } else if lower.contains("multipart/") {
        Some(Format::Multipart)
    } else {
        None
    }
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
        let format = transform.format.or_else(|| format_of(&content_type));
        request.response.body_modified();
        let body = HeldBody::new(self.max_response);
        instance_state::set(request, self, Held { body, format, content_type });
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        let Some(transform) = &self.response else { return };
        let Some(held) = instance_state::get_mut::<_, Held>(request, self) else { return };
        let Some(body) = held.body.take(chunk) else { return };
        let (format, content_type) = (held.format, std::mem::take(&mut held.content_type));
        chunk.data = match transform.apply(request, Some(&body), format, &content_type) {
            Ok(new) => new,
            Err((_, reason)) => {
                error_log::log(
                    error_log::Level::Error,
                    format_args!("failed to transform response body: {reason}"),
                );
                body
            }
        };
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
            None => format_of(&content_type),
        };
        let body = (!body.is_empty()).then_some(body);
        let new = transform.apply_aside(request, body, format, content_type).await.map_err(
            |(status, reason)| {
                error_log::log(error_log::Level::Error, format_args!("{reason}"));
                Box::new(Reply::message(status, &reason))
            },
        )?;
        let new = memory::hold(new, request.remote_addr).map_err(|Spent| Box::new(Reply::page(503)))?;
        request.body = RequestBody::Collected(new);
        Ok(())
    }
}

/// A body as the template sees it.
enum Document {
    Empty,
    Json(Value),
    Xml(xml::Element),
}

impl Transform {
    fn apply(
        &self,
        request: &mut Request,
        body: Option<&[u8]>,
        format: Option<Format>,
        content_type: &[u8],
    ) -> Result<Vec<u8>, Failure> {
        // What was read stays as long as the template runs.
        let allowance = Allowance::of_a_body(Some(request.remote_addr));
        let query = request.head.query().unwrap_or_default();
        let decoded = decode(format, body, query, content_type, &allowance);
        self.render(request, body, format, decoded)
    }

    /// As [`Transform::apply`]; a large body is read by another thread.
    async fn apply_aside(
        &self,
        request: &mut Request,
        body: Option<Bytes>,
        format: Option<Format>,
        content_type: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        let body = match body {
            Some(body) if body.len() > aside::SMALL => body,
            small => return self.apply(request, small.as_deref(), format, &content_type),
        };
        let (bytes, client) = (body.clone(), request.remote_addr);
        let query = request.head.query().unwrap_or_default().to_vec();
        let read = aside::run(move || {
            let allowance = Allowance::of_a_body(Some(client));
            let decoded = decode(format, Some(&bytes), &query, &content_type, &allowance);
            (decoded, allowance)
        });
        let (decoded, _allowance) =
            read.await.map_err(|Undone| (500, format!("{} body decode: it was not done", self.side)))?;
        self.render(request, Some(&body), format, decoded)
    }

    fn render(
        &self,
        request: &mut Request,
        body: Option<&[u8]>,
        format: Option<Format>,
        decoded: Result<Document, Undecoded>,
    ) -> Result<Vec<u8>, Failure> {
        let decoded = decoded.map_err(|reason| {
            let status = match &reason {
                Undecoded::TooLarge(error) => error.status(),
                Undecoded::Invalid(_) => 400,
            };
            (status, format!("{} body decode: {reason}", self.side))
        })?;
        let may_be_base64 = self.always_base64
            || format.is_some_and(|format| !matches!(format, Format::Encoded | Format::Args));
        let template = match &self.decoded {
            Some(decoded) if may_be_base64 => decoded,
            _ => &self.plain,
        };
        let template =
            template.as_ref().map_err(|reason| (503, format!("{} template compile: {reason}", self.side)))?;
        template
            .render(request, self.phase, body, |lua| decoded.to_lua(lua))
            .map_err(|reason| (503, format!("{} template rendering: {reason}", self.side)))
    }
}

fn decode(
    format: Option<Format>,
    body: Option<&[u8]>,
    query: &[u8],
    content_type: &[u8],
    allowance: &Allowance,
) -> Result<Document, Undecoded> {
    if format == Some(Format::Args) {
        return Ok(Document::Json(form::decode(query, allowance)?));
    }
    let Some(body) = body else { return Ok(Document::Empty) };
    match format {
        None | Some(Format::Plain | Format::Args) => Ok(Document::Empty),
        Some(Format::Json) => json::decode(body, allowance).map(Document::Json),
        Some(Format::Encoded) => Ok(Document::Json(form::decode(body, allowance)?)),
        Some(Format::Xml) => xml::parse(&String::from_utf8_lossy(body), allowance).map(Document::Xml),
        Some(Format::Multipart) => Ok(Document::Json(parts(body, content_type, allowance)?)),
    }
}

/// Name and value of each part; several of a name make an array.
fn parts(body: &[u8], content_type: &[u8], allowance: &Allowance) -> Result<Value, TooLarge> {
    let mut fields = Map::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for (name, value) in multipart::fields(body, content_type) {
        allowance.take(form::FIELD_BYTES + name.len() + value.len())?;
        form::insert(&mut fields, text(name), Value::String(text(value)));
    }
    Ok(Value::Object(fields))
}

impl Document {
    fn to_lua(&self, lua: &Lua) -> mlua::Result<Table> {
        match self {
            Document::Empty => lua.create_table(),
            Document::Xml(root) => root.to_table(lua),
            Document::Json(value) => match lua::json_to_lua(lua, value)? {
                mlua::Value::Table(table) => Ok(table),
                _ => Err(mlua::Error::runtime("the body is no table")),
            },
        }
    }
}

/// Whether the text can be read within the allowance.
pub(crate) fn is_xml(text: &str, allowance: &Allowance) -> bool {
    xml::parse(text, allowance).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_media_types() {
        let cases = [
            ("text/xml; charset=utf-8", Some(Format::Xml)),
            ("application/json", Some(Format::Json)),
            ("Application/X-WWW-Form-Urlencoded", Some(Format::Encoded)),
            ("multipart/form-data; boundary=x", Some(Format::Multipart)),
            ("text/plain", None),
            ("", None),
        ];
        for (content_type, expected) in cases {
            assert_eq!(format_of(content_type.as_bytes()), expected, "{content_type}");
        }
    }
}
