//! Changes status, header fields and body of responses.

mod filtering;

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Passage, Phases, Plugin, PluginDef, Request, SchemaKind, Step,
    Template, Variable, WholeBody, location,
};
use tidegate_protocol::{FieldName, HeaderId};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::error_log;

use crate::common::{
    conf::typed,
    header_edits,
    held_body::{self, HeldBody},
    instance_state,
    pattern_doubts::missing_group,
    regexes::Regex,
};
use filtering::Filter;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "response-rewrite",
    version: 0.1,
    priority: 899,
    guards: false,
    answers: true,
    schema: include_str!("response_rewrite.json"),
    phases: Phases::REWRITE.and(FILTERS),
    check,
    headers: &[("headers", Text::Edits)],
    remarks,
    build,
    ..PluginDef::DEFAULT
};

const FILTERS: Phases = Phases::HEADER_FILTER.and(Phases::BODY_FILTER);

#[derive(Deserialize)]
struct Conf {
    max_resp_body_size: usize,
    headers: Option<Value>,
    body: Option<String>,
    body_base64: bool,
    status_code: Option<u16>,
    vars: Option<Value>,
    filters: Option<Vec<FilterConf>>,
}

#[derive(Deserialize)]
struct FilterConf {
    regex: String,
    scope: String,
    replace: String,
    options: String,
}

struct ResponseRewrite {
    condition: Option<Expression<Variable>>,
    status: Option<u16>,
    /// `None`: one entry of `add` cannot be read, so that none of them is applied.
    headers: Option<Headers>,
    body: Body,
    body_limit: usize,
}

#[derive(Default)]
struct Headers {
    add: Vec<(String, Template)>,
    set: Vec<(FieldName, Template)>,
    remove: Vec<String>,
    /// The names of `set` and `remove`, one on each line: they are not trailers either.
    withheld: Arc<str>,
}

enum Body {
    Keep,
    Replace(Vec<u8>),
    Filter(Arc<[Filter]>),
}

/// Set in the header filter when the condition held.
enum Active {
    /// It is unknown whether the answer was to be rewritten.
    Refused,
    Replacing {
        replaced: bool,
    },
    Filtering {
        held: HeldBody,
        coding: Option<Vec<u8>>,
    },
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    if let Some(headers) = conf.get("headers").filter(|headers| !header_edits::has_operations(headers)) {
        for (name, value) in headers.as_object().into_iter().flatten() {
            if !value.is_string() && !value.is_number() {
                return Err("invalid type as header value".to_owned());
            }
            if name.is_empty() {
                return Err("invalid field length in header".to_owned());
            }
        }
    }
    let body = conf.get("body").and_then(Value::as_str).unwrap_or_default();
    if conf.get("body_base64") == Some(&Value::Bool(true))
        && !tidegate_model::schema::is_secret_reference(body)
        && (body.is_empty() || STANDARD.decode(body).is_err())
    {
        return Err("invalid base64 content".to_owned());
    }
    if let Some(vars) = conf.get("vars") {
        expression(vars)?;
    }
    for filter in conf.get("filters").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| filter.get(name).and_then(Value::as_str).unwrap_or_default();
        Regex::with_options(text("regex"), text("options"))
            .map_err(|error| format!("regex \"{}\" validation failed: {error}", text("regex")))?;
    }
    Ok(())
}

/// Filters with a group that their pattern does not have, and what [`header_edits::remarks`] finds.
fn remarks(conf: &Value) -> Vec<String> {
    let mut found = header_edits::remarks(conf);
    for (at, filter) in conf.get("filters").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let text = |name: &str| filter.get(name).and_then(Value::as_str).unwrap_or_default();
        let missing = missing_group(text("regex"), text("options"), text("replace"));
        found.extend(missing.map(|missing| format!("filters[{at}].replace: {missing}")));
    }
    found
}

fn expression(vars: &Value) -> Result<Expression<Variable>, String> {
    Expression::compile(vars, &mut |name| Variable::resolve(name))
        .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let body = match (conf.body, conf.filters) {
        (_, Some(filters)) => Body::Filter(filters.iter().map(filter).collect::<Result<_, _>>()?),
        (Some(text), None) if conf.body_base64 => {
            Body::Replace(STANDARD.decode(text).map_err(|_| "invalid base64 content".to_owned())?)
        }
        (Some(text), None) => Body::Replace(text.into_bytes()),
        (None, None) => Body::Keep,
    };
    Ok(Arc::new(ResponseRewrite {
        condition: conf.vars.as_ref().map(expression).transpose()?,
        status: conf.status_code,
        headers: conf.headers.as_ref().map_or_else(|| Some(Headers::default()), Headers::new),
        body,
        body_limit: conf.max_resp_body_size,
    }))
}

fn filter(conf: &FilterConf) -> Result<Filter, String> {
    Filter::new(&conf.regex, &conf.options, &conf.replace, conf.scope == "global")
}

impl Headers {
    fn new(conf: &Value) -> Option<Headers> {
        let (add, set, remove): (_, Vec<(String, Template)>, Vec<String>) =
            if header_edits::has_operations(conf) {
                let lines = conf.get("add").and_then(Value::as_array).into_iter().flatten();
                let add = lines.map(|line| added_field(line.as_str()?)).collect::<Option<_>>()?;
                (add, header_edits::templates(conf.get("set")), header_edits::removed(conf))
            } else {
                (Vec::new(), header_edits::templates(Some(conf)), Vec::new())
            };
        let names = set.iter().map(|(name, _)| name).chain(&remove);
        let withheld = names.flat_map(|name| [name.as_str(), "\n"]).collect::<String>().into();
        let set = set.into_iter().map(|(name, value)| (FieldName::new(&name), value)).collect();
        Some(Headers { add, set, remove, withheld })
    }

    fn apply(&self, request: &mut Request) {
        for (name, value) in &self.add {
            if let Some(value) = location::field(name, value, request) {
                request.response.headers.add(name, value);
            }
        }
        for (name, value) in &self.set {
            if let Some(value) = location::field(name.text(), value, request) {
                request.response.assign_named(name, value);
            }
        }
        for name in &self.remove {
            request.response.headers.remove(name);
        }
        if !self.withheld.is_empty() {
            request.response.withhold_listed_trailers(&self.withheld);
        }
    }
}

/// `Name: value`; APISIX takes no value with a colon in it.
fn added_field(line: &str) -> Option<(String, Template)> {
    let (name, value) = line.split_once(':')?;
    let (name, value) = (name.trim_end(), value.trim_start());
    let valid = !name.is_empty() && !name.contains(char::is_whitespace) && !value.is_empty();
    (valid && !value.contains(':')).then(|| (name.to_owned(), Template::compile(value)))
}

impl Plugin for ResponseRewrite {
    fn phases(&self) -> Phases {
        match self.body {
            Body::Filter(_) => Phases::ALL,
            // A body that is kept passes by, unless a condition may turn out to be undecidable.
            Body::Keep if self.condition.is_none() => Phases::HEADER_FILTER,
            Body::Keep | Body::Replace(_) => FILTERS,
        }
    }

    /// A part of an answer begins and ends where its client likes: in the middle of what a filter looks for.
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request.head.headers.remove("Range");
        Step::Next
    }

    fn header_filter(&self, request: &mut Request) {
        let applies = self.condition.as_ref().is_none_or(|condition| condition.eval(request));
        if request.require_decided().is_err() {
            return self.refuse(request);
        }
        if !applies {
            return;
        }
        if let Some(status) = self.status {
            request.response.set_status(status);
        }
        let coding = request.response.headers.known(HeaderId::ContentEncoding).map(<[u8]>::to_vec);
        let active = match &self.body {
            Body::Keep => None,
            Body::Replace(_) => {
                request.response.withhold_trailers();
                Some(Active::Replacing { replaced: false })
            }
            Body::Filter(_) => {
                HeldBody::of(request, self.body_limit).map(|held| Active::Filtering { held, coding })
            }
        };
        if !matches!(self.body, Body::Keep) {
            request.response.body_modified();
        }
        if let Some(active) = active {
            instance_state::set(request, self, active);
        }
        match &self.headers {
            Some(headers) => headers.apply(request),
            None => error_log::log(
                error_log::Level::Error,
                format_args!("failed to create header operation: bad entry in headers.add"),
            ),
        }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        match (instance_state::get_mut::<_, Active>(request, self), &self.body) {
            (Some(Active::Refused), _) => {
                chunk.data.clear();
                chunk.passage = Passage::Refused(502);
            }
            (Some(Active::Replacing { replaced }), Body::Replace(body)) => {
                chunk.data = if *replaced { Vec::new() } else { body.clone() };
                *replaced = true;
            }
            (Some(Active::Filtering { held, .. }), _) => held.take(PLUGIN.name, chunk),
            _ => {}
        }
    }

    fn whole_body<'a>(&'a self, request: &'a mut Request) -> WholeBody<'a> {
        let active = instance_state::take::<_, Active>(request, self);
        let client = request.remote_addr;
        Box::pin(async move {
            let (Some(Active::Filtering { mut held, coding }), Body::Filter(filters)) = (active, &self.body)
            else {
                return Err(500);
            };
            let filtered =
                filtering::filtered(filters.clone(), held.whole(), coding, self.body_limit, client).await;
            filtered.map_err(|failure| {
                held_body::refuse(PLUGIN.name, &failure.reason);
                failure.status
            })
        })
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }

    fn may_change_status(&self) -> bool {
        self.status.is_some()
    }
}

impl ResponseRewrite {
    /// Keeps an answer back whose condition could not be judged.
    fn refuse(&self, request: &mut Request) {
        held_body::refuse(PLUGIN.name, "its condition could not be evaluated");
        if HeldBody::of(request, self.body_limit).is_some() {
            instance_state::set(request, self, Active::Refused);
        } else {
            request.response.set_status(502);
            request.response.headers.retain(|_, _| false);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_that_is_kept_passes_no_filter() {
        let filters = |body: Body, vars: Option<Value>| {
            let condition = vars.map(|vars| expression(&vars).expect("a condition"));
            let plugin = ResponseRewrite { condition, status: None, headers: None, body, body_limit: 0 };
            plugin.phases().contains(Phases::BODY_FILTER)
        };
        assert!(!filters(Body::Keep, None));
        assert!(filters(Body::Keep, Some(json!([["status", "==", 200]]))), "it may be undecidable");
        assert!(filters(Body::Replace(Vec::new()), None));
    }

    #[test]
    fn added_fields() {
        let cases = [
            ("Set-Cookie: a=b; Max-Age=3", Some("Set-Cookie")),
            ("X-A :b", Some("X-A")),
            ("X-A: http://b", None),
            ("X A: b", None),
            ("X-A:", None),
        ];
        for (line, expected) in cases {
            assert_eq!(added_field(line).map(|(name, _)| name).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn what_the_schema_cannot_say() {
        let cases = [
            (json!({"headers": {"X": []}}), "invalid type as header value"),
            (json!({"body": "1", "body_base64": true}), "invalid base64 content"),
            (json!({"body_base64": true}), "invalid base64 content"),
            (
                json!({"filters": [{"regex": "hello", "options": "h"}]}),
                "regex \"hello\" validation failed: unknown flag \"h\" (flags \"h\")",
            ),
            (
                json!({"vars": [["status", "?", 1]]}),
                "failed to validate the 'vars' expression: invalid operator '?'",
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin).unwrap_err(), expected, "{conf}");
        }
    }
}
