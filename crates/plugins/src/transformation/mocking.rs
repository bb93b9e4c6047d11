//! Answers with a fixed body, or with random data that fits a schema, without asking an upstream.

use std::{sync::Arc, time::Duration};

use quick_xml::escape::partial_escape;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_model::header_text::Text;
use tidegate_model::random::{random_fraction, random_u64};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Template, location,
    reply::ReplyBody,
};

use crate::common::{conf::typed, header_edits, number, schemas};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "mocking",
    version: 0.1,
    priority: 10900,
    guards: false,
    answers: true,
    schema: include_str!("mocking.json"),
    phases: Phases::ACCESS,
    check,
    headers: &[("response_headers", Text::Fields), ("content_type", Text::Value)],
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    delay: u64,
    response_status: u16,
    content_type: String,
    response_example: Option<String>,
    response_schema: Option<Value>,
    with_mock_header: bool,
    response_headers: Option<Map<String, Value>>,
}

struct Mocking {
    delay: u64,
    /// Status and the headers that are the same each time.
    base: Reply,
    body: Body,
    headers: Vec<(String, Template)>,
}

enum Body {
    /// No variable in it: the same bytes each time.
    Fixed(bytes::Bytes),
    Template(Template),
    Random {
        schema: Value,
        xml: bool,
    },
}

/// The media type without parameters.
fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn is_xml(content_type: &str) -> bool {
    matches!(media_type(content_type), "application/xml" | "text/xml")
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let content_type = conf.get("content_type").and_then(Value::as_str).unwrap_or_default();
    let known = ["application/xml", "application/json", "text/plain", "text/html", "text/xml"];
    if !known.contains(&media_type(content_type)) {
        return Err("unsupported content type!".to_owned());
    }
    match conf.get("response_schema") {
        Some(schema) => schemas::compile("response_schema", &with_lower_case_types(schema)).map(|_| ()),
        None => Ok(()),
    }
}

/// What has no effect beside an example, and header fields that the gateway writes itself.
fn remarks(conf: &Value) -> Vec<String> {
    let mut found = schemas::remarks(conf, &["response_schema"]);
    let has = |name: &str| conf.get(name).is_some_and(|value| !value.is_null());
    if has("response_example") && has("response_schema") {
        found.push("response_schema has no effect with response_example; remove one".to_owned());
    }
    found.extend(header_edits::unsent("response_headers", conf.get("response_headers")));
    found
}

/// Examples are made for types in any case, as in APISIX.
fn with_lower_case_types(schema: &Value) -> Value {
    match schema {
        Value::Object(rules) => Value::Object(
            rules
                .iter()
                .map(|(name, rule)| match rule {
                    Value::String(kind) if name == "type" => (name.clone(), kind.to_ascii_lowercase().into()),
                    rule => (name.clone(), with_lower_case_types(rule)),
                })
                .collect(),
        ),
        Value::Array(rules) => rules.iter().map(with_lower_case_types).collect(),
        other => other.clone(),
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let body = match (conf.response_example, conf.response_schema) {
        (Some(example), _) => {
            let template = Template::compile(&example);
            match template.literal() {
                Some(fixed) => Body::Fixed(fixed.to_vec().into()),
                None => Body::Template(template),
            }
        }
        (None, Some(schema)) => Body::Random { schema, xml: is_xml(&conf.content_type) },
        (None, None) => Body::Fixed(bytes::Bytes::new()),
    };
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.as_f64().map_or_else(|| other.to_string(), number::lua),
    };
    let mut base = Reply::bytes(conf.response_status, bytes::Bytes::new()).content_type(&conf.content_type);
    if conf.with_mock_header {
        base = base.header("x-mock-by", "APISIX/3.18.0");
    }
    let mut headers = Vec::new();
    for (name, value) in conf.response_headers.unwrap_or_default() {
        let template = Template::compile(&text(&value));
        match template.literal() {
            Some(fixed) if headers.is_empty() => base.headers.add(&name, fixed),
            _ => headers.push((name, template)),
        }
    }
    Ok(Arc::new(Mocking { delay: conf.delay, base, body, headers }))
}

impl Plugin for Mocking {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let reply = self.reply(request);
        if self.delay == 0 {
            return Step::reply(reply);
        }
        Step::wait(async move {
            tokio::time::sleep(Duration::from_secs(self.delay)).await;
            Err(Box::new(reply))
        })
    }

    fn answers_all_in(&self) -> Option<Phases> {
        Some(Phases::ACCESS)
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        Foresight::answers(&self.reply(request))
    }
}

impl Mocking {
    fn reply(&self, request: &Request) -> Reply {
        let body = match &self.body {
            Body::Fixed(bytes) => bytes.clone(),
            Body::Template(template) => template.render(request).into(),
            Body::Random { schema, xml } => {
                let mut left = MAX_VALUES;
                let value = random_object(schema, 0, &mut left);
                let text =
                    if *xml { format!("<data>\n{}</data>", to_xml(&value)) } else { value.to_string() };
                Template::compile(&text).render(request).into()
            }
        };
        let mut reply = self.base.clone();
        reply.body = ReplyBody::Bytes(body);
        for (name, value) in &self.headers {
            if let Some(value) = location::field(name, value, request) {
                reply.headers.add(name, value);
            }
        }
        reply
    }
}

/// Between 1 and `most`.
fn random_up_to(most: u64) -> u64 {
    1 + random_u64() % most
}

/// Schemas nest as deep as JSON may; examples need not.
const MAX_DEPTH: usize = 32;
/// Nested arrays grow exponentially; values beyond this number are `null`.
const MAX_VALUES: usize = 10_000;

fn random_object(schema: &Value, depth: usize, left: &mut usize) -> Value {
    let properties = schema.get("properties").and_then(Value::as_object);
    let entries = properties.into_iter().flatten().filter(|_| depth < MAX_DEPTH);
    Value::Object(
        entries.map(|(name, schema)| (name.clone(), random_value(schema, depth + 1, left))).collect(),
    )
}

fn random_value(schema: &Value, depth: usize, left: &mut usize) -> Value {
    let Some(rest) = left.checked_sub(1) else { return Value::Null };
    *left = rest;
    let example = schema.get("example");
    match schema.get("type").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase().as_str() {
        "array" => match schema.get("items").filter(|_| depth < MAX_DEPTH) {
            Some(items) => (0..random_up_to(3)).map(|_| random_value(items, depth + 1, left)).collect(),
            None => Value::Null,
        },
        "object" => random_object(schema, depth, left),
        "string" => example.filter(|value| value.is_string()).cloned().unwrap_or_else(|| {
            (0..random_up_to(10))
                .map(|_| char::from(b'a' + (random_u64() % 26) as u8))
                .collect::<String>()
                .into()
        }),
        "number" => example
            .filter(|value| value.is_number())
            .cloned()
            .unwrap_or_else(|| (random_fraction() * 10_000.0).into()),
        "integer" => example
            .and_then(Value::as_f64)
            .map_or_else(|| random_up_to(10_000).into(), |value| (value.floor() as i64).into()),
        "boolean" => example
            .filter(|value| value.is_boolean())
            .cloned()
            .unwrap_or_else(|| random_u64().is_multiple_of(2).into()),
        _ => Value::Null,
    }
}

fn to_xml(value: &Value) -> String {
    let Some(object) = value.as_object() else { return String::new() };
    let mut out = String::new();
    for (name, value) in object {
        match value {
            Value::Array(items) => items.iter().for_each(|item| out.push_str(&element(name, item))),
            value => out.push_str(&element(name, value)),
        }
    }
    out
}

fn element(name: &str, value: &Value) -> String {
    let inner = match value {
        Value::Object(_) => format!("\n{}", to_xml(value)),
        Value::String(text) => partial_escape(text).into_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    format!("<{name}>{inner}</{name}>\n")
}
