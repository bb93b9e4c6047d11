//! Checks header fields and body of requests against JSON schemas before they go upstream.

mod case;
mod shapes;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use shapes::Shapes;
use tidegate_backtrack::SearchTime;
use tidegate_model::{
    Schema,
    schema::{Failure, MOST_STEPS},
};
use tidegate_plugin_api::{
    BodyError, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody, SchemaKind,
    Step, Verdict,
    aside::{self, Undone},
    document::{Allowance, TooLarge},
    memory::{self, Spent},
};
use tidegate_protocol::{HeaderId, claims, media_type};
use tidegate_telemetry::error_log;

use crate::common::{
    auth,
    conf::typed,
    form,
    json::{self, Undecoded},
    schemas,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "request-validation",
    version: 0.1,
    priority: 2800,
    kind: Some("validation"),
    schema: include_str!("request_validation.json"),
    phases: Phases::REWRITE,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

fn remarks(conf: &Value) -> Vec<String> {
    let fields = conf.pointer("/header_schema/properties").and_then(Value::as_object);
    let names = fields.into_iter().flat_map(Map::keys).map(String::as_str);
    let mut found = schemas::remarks(conf, &["body_schema", "header_schema"]);
    found.extend(auth::remarks_of_names(names));
    found
}

#[derive(Deserialize)]
struct Conf {
    header_schema: Option<Value>,
    body_schema: Option<Value>,
    max_req_body_size: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

struct RequestValidation {
    headers: Option<HeaderCheck>,
    body: Option<Arc<BodyCheck>>,
    /// Bytes.
    max_body: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

struct BodyCheck {
    schema: Schema,
    /// As the user wrote it.
    written: Value,
    /// Of the fields of forms.
    shapes: Shapes,
}

struct HeaderCheck {
    schema: Schema,
    shapes: Shapes,
    /// Names as the schema spells them: it finds fields in any case, and with `_` for `-`.
    names: Vec<String>,
    /// It judges fields that it does not name, too.
    checks_others: bool,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for name in ["body_schema", "header_schema"] {
        if let Some(schema) = conf.get(name) {
            schemas::compile(name, schema)?;
        }
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let headers = conf.header_schema.map(|schema| {
        let mut names = Vec::new();
        field_names(&schema, &mut names);
        let (compiled, shapes) = (schemas::compile("header_schema", &schema)?, Shapes::of(&schema));
        let checks_others = checks_unnamed_fields(&schema);
        Ok::<_, String>(HeaderCheck { schema: compiled, shapes, names, checks_others })
    });
    let body = conf.body_schema.map(|schema| {
        let compiled = schemas::compile("body_schema", &schema)?;
        Ok::<_, String>(BodyCheck { schema: compiled, shapes: Shapes::of(&schema), written: schema })
    });
    Ok(Arc::new(RequestValidation {
        headers: headers.transpose()?,
        body: body.transpose()?.map(Arc::new),
        max_body: conf.max_req_body_size,
        rejected_code: conf.rejected_code,
        rejected_msg: conf.rejected_msg,
    }))
}

/// Names of fields anywhere in a schema: below `allOf` and its like they are looked for, too.
fn field_names(schema: &Value, names: &mut Vec<String>) {
    let mut add = |name: &str| {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    };
    match schema {
        Value::Object(rules) => {
            for keyword in ["properties", "dependencies"] {
                let entries = rules.get(keyword).and_then(Value::as_object);
                entries.into_iter().flat_map(|entries| entries.keys()).for_each(|name| add(name));
            }
            let required = rules.get("required").and_then(Value::as_array).into_iter().flatten();
            required.filter_map(Value::as_str).for_each(add);
            rules.values().for_each(|rule| field_names(rule, names));
        }
        Value::Array(rules) => rules.iter().for_each(|rule| field_names(rule, names)),
        _ => {}
    }
}

/// Whether a schema says something of fields by a pattern, or of all that it does not name.
fn checks_unnamed_fields(schema: &Value) -> bool {
    const KEYWORDS: [&str; 4] =
        ["patternProperties", "propertyNames", "maxProperties", "additionalProperties"];
    match schema {
        Value::Object(rules) => rules.iter().any(|(keyword, rule)| {
            KEYWORDS.contains(&keyword.as_str()) && *rule != Value::Bool(true) || checks_unnamed_fields(rule)
        }),
        Value::Array(rules) => rules.iter().any(checks_unnamed_fields),
        _ => false,
    }
}

impl Plugin for RequestValidation {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(check) = &self.headers {
            if let Err(reason) = check.run(request) {
                return Step::Reply(self.reject(Some(&reason)));
            }
            // They come when the upstream has the head, and nothing has judged them.
            check.names.iter().for_each(|name| request.withhold_trailer(name));
            if check.checks_others {
                request.withhold_trailers();
            }
        }
        match &self.body {
            Some(check) => Step::wait(self.check_body(check, request)),
            None => Step::Next,
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl RequestValidation {
    fn reject(&self, reason: Option<&str>) -> Box<Reply> {
        if let Some(reason) = reason {
            error_log::log(error_log::Level::Error, format_args!("request validation failed: {reason}"));
        }
        Box::new(match self.rejected_msg.as_deref().or(reason) {
            Some(message) => Reply::bytes(self.rejected_code, message.to_owned()),
            None => Reply::page(self.rejected_code),
        })
    }

    async fn check_body(&self, against: &Arc<BodyCheck>, request: &mut Request) -> Verdict {
        let body = match request.body.collect(self.max_body, request.remote_addr).await {
            Ok(body) if !body.is_empty() => body,
            // Nothing was judged: it is not the schema that refuses.
            Err(
                error @ (BodyError::Overloaded
                | BodyError::Timeout
                | BodyError::Closed
                | BodyError::LargeTrailers),
            ) => {
                return Err(error.into());
            }
            _ => return Err(self.reject(None)),
        };
        let mut types = request.head.headers.all_known(HeaderId::ContentType);
        let content_type = types.next().unwrap_or_default();
        if types.next().is_some() {
            // Gateway and upstream might each believe another one.
            return Err(self.reject(None));
        }
        if media_type::is_like(content_type, FORM) {
            return Err(self.reject(Some("the upstream may take Content-Type for that of a form")));
        }
        if request.has_coded_body() {
            let reason = "a body with a Content-Encoding, or a charset other than UTF-8, cannot be validated";
            return Err(self.reject(Some(reason)));
        }
        let is_form = media_type::is(content_type, FORM);
        // Only one copy at a time: what is passed on is rebuilt.
        request.body = RequestBody::Empty;
        let (against, client) = (against.clone(), request.remote_addr);
        let whole = |limits: Limits, body| {
            let against = against.clone();
            move || (validate(&against, body, is_form, client, &limits), limits.searches)
        };
        let checked = if body.len() <= aside::SMALL {
            let time = request.search_time.split(SEARCHES_ON_A_WORKER);
            let (checked, time) = whole(Limits { steps: STEPS_ON_A_WORKER, searches: time }, body)();
            request.search_time.join(&time);
            checked
        } else {
            Err(Refused::Later(body))
        };
        let checked = match checked {
            Err(Refused::Later(body)) => {
                let searches = request.search_time.split(tidegate_backtrack::MAX_TIME);
                let done = aside::run(client, whole(Limits { steps: MOST_STEPS, searches }, body)).await;
                done.map(|(checked, time)| {
                    request.search_time.join(&time);
                    checked
                })
            }
            checked => Ok(checked),
        };
        match checked {
            Ok(Ok(body)) => {
                request.body = RequestBody::Collected(body);
                Ok(())
            }
            Ok(Err(Refused::Invalid(reason))) => Err(self.reject(Some(&reason))),
            Ok(Err(Refused::Overloaded | Refused::Later(_))) => Err(Box::new(Reply::page(503))),
            Err(Undone) => Err(Box::new(Reply::page(500))),
        }
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// A check that takes more is restarted by a thread for long work: a small body can ask for much.
const STEPS_ON_A_WORKER: u32 = 50_000;

/// The same for its patterns.
const SEARCHES_ON_A_WORKER: Duration = Duration::from_micros(2500);

/// Header fields are checked on their worker.
const STEPS_FOR_HEADERS: u32 = 320_000;

/// What a check of a body may take.
struct Limits {
    steps: u32,
    /// Of the request's time.
    searches: SearchTime,
}

enum Refused {
    Invalid(String),
    /// There is no memory to read the body.
    Overloaded,
    /// A limit was met, and it is higher elsewhere.
    Later(Bytes),
}

/// What goes upstream is what was checked: duplicate keys and the like are gone.
fn validate(
    against: &BodyCheck,
    body: Bytes,
    is_form: bool,
    client: IpAddr,
    limits: &Limits,
) -> Result<Bytes, Refused> {
    let allowance = Allowance::of_a_body(Some(client));
    let value = if is_form {
        form::decode(&body, &allowance).map_err(Undecoded::from)
    } else {
        json::decode(&body, &allowance)
    };
    let mut value = value.map_err(|reason| match reason {
        Undecoded::TooLarge(TooLarge::Spent) => Refused::Overloaded,
        reason => Refused::Invalid(reason.to_string()),
    })?;
    if is_form && let Value::Object(fields) = &value {
        let shapes = &against.shapes;
        if let Some(name) = fields.keys().find(|name| name.contains(['{', '"'])) {
            return Err(Refused::Invalid(format!(
                "property {name:?} validation failed: a form with such a name may be read as JSON upstream"
            )));
        }
        shapes
            .check_spelling(fields, |known, name| known == name, same_form_name)
            .map_err(Refused::Invalid)?;
        shapes.check(fields, |known, name| known == name).map_err(Refused::Invalid)?;
    }
    if !is_form {
        match case::other_spelling(&against.written, &value, limits.steps) {
            Ok(None) => {}
            Ok(Some((known, name))) => {
                return Err(Refused::Invalid(format!(
                    "property {known:?} validation failed: it is spelled {name:?}, which upstreams may read as {known:?}"
                )));
            }
            Err(case::Spent) if limits.steps < MOST_STEPS => return Err(Refused::Later(body)),
            Err(case::Spent) => {
                return Err(Refused::Invalid(format!("schema takes more than {MOST_STEPS} steps to check")));
            }
        }
    }
    match against.schema.check_within(&mut value, limits.steps, &limits.searches) {
        Ok(()) if is_form => Ok(body),
        Ok(()) => {
            // Rarely longer than what came.
            let mut text = Vec::with_capacity(body.len());
            drop(body);
            serde_json::to_writer(&mut text, &value).map_err(|error| Refused::Invalid(error.to_string()))?;
            memory::hold(text, client).map_err(|Spent| Refused::Overloaded)
        }
        Err(Failure::Spent(_)) if limits.steps < MOST_STEPS => Err(Refused::Later(body)),
        Err(failure) => Err(Refused::Invalid(failure.into_message())),
    }
}

/// Whether the schema's name finds a field of the head, whose name is in lower case.
fn finds_header(known: &str, name: &str) -> bool {
    let known = known.to_ascii_lowercase();
    known == name || known.replace('_', "-") == name
}

/// Whether upstreams read two names of a form as one: PHP without blanks before it, up to `[` or NUL, `.` and blanks as `_`; Express
/// and Rack without brackets around it; ASP.NET in any case.
fn same_form_name(one: &str, other: &str) -> bool {
    fn folded(name: &str) -> String {
        let name = name.trim_start_matches([' ', '[']);
        let end = name.find(['[', ']', '\0']).filter(|end| *end > 0).unwrap_or(name.len());
        let sign = |sign| if matches!(sign, '.' | ' ') { '_' } else { sign };
        name.get(..end).unwrap_or(name).chars().map(sign).collect()
    }
    case::is_same(&folded(one), &folded(other))
}

impl HeaderCheck {
    fn run(&self, request: &Request) -> Result<(), String> {
        let mut fields = Map::new();
        for (name, value) in request.head.headers.iter() {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let value = Value::from(String::from_utf8_lossy(value));
            form::insert(&mut fields, name, value);
        }
        let same = |known: &str, name: &str| claims::same_name(known.as_bytes(), name.as_bytes());
        self.shapes.check_spelling(&fields, finds_header, same)?;
        self.shapes.check(&fields, same)?;
        for name in &self.names {
            let written = name.to_ascii_lowercase();
            let plain = written.replace('_', "-");
            let found = match (fields.get(&plain), fields.get(&written)) {
                (Some(_), Some(_)) if plain != written => {
                    return Err(format!(
                        "property {name:?} validation failed: it comes as {plain:?} and {written:?}"
                    ));
                }
                (Some(value), _) | (None, Some(value)) => value.clone(),
                (None, None) => continue,
            };
            if !fields.contains_key(name) {
                fields.insert(name.clone(), found);
            }
        }
        let (mut fields, searches) = (Value::Object(fields), &request.search_time);
        self.schema.check_within(&mut fields, STEPS_FOR_HEADERS, searches).map_err(Failure::into_message)
    }
}
