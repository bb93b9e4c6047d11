//! Masks parts of requests before logs show them: query arguments, header fields and fields of bodies.
//!
//! It runs in the log phase, before the loggers, and changes the request itself: nothing else reads it by then, and so no
//! variable and no logger can show what was there.

mod action;
mod body;
mod filter;
mod json_path;
mod reader;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use tidegate_backtrack::SearchTime;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Request, SchemaKind};
use tidegate_protocol::{HeaderId, media_type};

use self::{
    action::{Action, Masked, pairs},
    body::Body,
    json_path::JsonPath,
};
use crate::common::{conf::typed, masked_body};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "data-mask",
    version: 0.1,
    priority: 1500,
    guards: false,
    schema: include_str!("data_mask.json"),
    phases: Phases::LOG,
    check,
    build,
    ..PluginDef::DEFAULT
};

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    match kind {
        SchemaKind::Plugin => rules(conf).map(|_| ()),
        _ => Ok(()),
    }
}

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    request: Vec<Rule>,
    max_body_size: usize,
    max_req_post_args: usize,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(rename = "type")]
    kind: Kind,
    name: String,
    body_format: Option<Format>,
    #[serde(flatten)]
    action: action::Conf,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Query,
    Header,
    Body,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Urlencoded,
}

/// The rules by what they are for, each list in the order of the configuration.
struct DataMask {
    headers: Vec<(String, Action)>,
    query: Vec<(Vec<u8>, Action)>,
    body: Option<Arc<Body>>,
}

fn rules(conf: &Value) -> Result<DataMask, String> {
    let conf: Conf = typed(conf)?;
    let (mut headers, mut query) = (Vec::new(), Vec::new());
    let (mut json, mut form) = (Vec::new(), Vec::new());
    for rule in conf.request {
        let action = Action::new(rule.action)?;
        match (rule.kind, rule.body_format) {
            (Kind::Header, _) => headers.push((rule.name, action)),
            (Kind::Query, _) => query.push((rule.name.into_bytes(), action)),
            (Kind::Body, Some(Format::Urlencoded)) => form.push((rule.name.into_bytes(), action)),
            (Kind::Body, _) => json.push((JsonPath::new(&rule.name)?, action)),
        }
    }
    let fields = if conf.max_req_post_args == 0 { usize::MAX } else { conf.max_req_post_args };
    let body = Body { json, form, bytes: conf.max_body_size, fields };
    Ok(DataMask { headers, query, body: (!body.is_empty()).then(|| Arc::new(body)) })
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(rules(conf)?))
}

impl Plugin for DataMask {
    fn log(&self, request: &mut Request) {
        for (name, action) in &self.headers {
            mask_header(request, name, action);
        }
        if !self.query.is_empty() {
            let time = SearchTime::default();
            request.replace_queries(|query| pairs(query, &self.query, usize::MAX, &time));
        }
        if let Some(body) = &self.body {
            let client = request.remote_addr;
            let (body, is_coded) = (body.clone(), request.has_coded_body());
            let is_form = is_form(request);
            masked_body::mask(request, Arc::new(move |text| body.mask(text, is_coded, is_form, client)));
        }
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// Whether the types of the body say so; `None`: it has none.
fn is_form(request: &Request) -> Option<bool> {
    let mut types = request.head.headers.all_known(HeaderId::ContentType).peekable();
    types.peek()?;
    Some(types.all(|value| media_type::is(value, FORM)))
}

fn mask_header(request: &mut Request, name: &str, action: &Action) {
    let headers = &mut request.head.headers;
    if !headers.contains(name) {
        return;
    }
    let time = SearchTime::default();
    let mut shown = Vec::new();
    for value in headers.get_all(name) {
        match action.apply(value, &time) {
            Masked::Removed => {}
            Masked::Unchanged => shown.push(value.to_vec()),
            Masked::Text(text) => shown.push(text),
        }
    }
    headers.remove(name);
    for value in shown {
        headers.add(name, value);
    }
}

#[cfg(test)]
mod tests;
