//! Checks header fields and body of requests against JSON schemas before they go upstream.

use std::sync::Arc;

use model::Schema;
use plugin::{
    BodyError, BuildContext, Phases, Plugin, PluginDef, Reply, Request, RequestBody, SchemaKind, Step,
    Verdict,
    document::{Allowance, TooLarge},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use telemetry::error_log;
use wire::HeaderId;

use crate::common::{
    conf::typed,
    form,
    json::{self, Undecoded},
    schemas,
};

pub static PLUGIN: PluginDef = PluginDef {
    name: "request-validation",
    version: 0.1,
    priority: 2800,
    kind: Some("validation"),
    schema: include_str!("../schemas/request-validation.json"),
    phases: Phases::REWRITE,
    check,
    build,
    ..PluginDef::DEFAULT
};

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
    body: Option<Schema>,
    /// Bytes.
    max_body: usize,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

struct HeaderCheck {
    schema: Schema,
    /// Names as the schema spells them: it finds fields in any case, and with `_` for `-`.
    names: Vec<String>,
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
        Ok::<_, String>(HeaderCheck { schema: schemas::compile("header_schema", &schema)?, names })
    });
    let body = conf.body_schema.map(|schema| schemas::compile("body_schema", &schema));
    Ok(Arc::new(RequestValidation {
        headers: headers.transpose()?,
        body: body.transpose()?,
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

impl Plugin for RequestValidation {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if let Some(check) = &self.headers
            && let Err(reason) = check.run(request)
        {
            return Step::Reply(self.reject(Some(&reason)));
        }
        match &self.body {
            Some(schema) => Step::wait(self.check_body(schema, request)),
            None => Step::Next,
        }
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

    async fn check_body(&self, schema: &Schema, request: &mut Request) -> Verdict {
        let body = match request.body.collect(self.max_body, request.remote_addr).await {
            Ok(body) if !body.is_empty() => body,
            Err(error @ BodyError::Overloaded) => return Err(error.into()),
            _ => return Err(self.reject(None)),
        };
        let mut types = request.head.headers.all_known(HeaderId::ContentType);
        let content_type = types.next().unwrap_or_default();
        if types.next().is_some() {
            // Gateway and upstream might each believe another one.
            return Err(self.reject(None));
        }
        const FORM: &[u8] = b"application/x-www-form-urlencoded";
        let is_form = content_type.get(..FORM.len()).is_some_and(|start| start.eq_ignore_ascii_case(FORM));
        let allowance = Allowance::of_a_body(Some(request.remote_addr));
        let value = if is_form {
            form::decode(&body, &allowance).map_err(Undecoded::from)
        } else {
            json::decode(&body, &allowance)
        };
        let mut value = value.map_err(|reason| match reason {
            Undecoded::TooLarge(TooLarge::Spent) => Box::new(Reply::page(503)),
            reason => self.reject(Some(&reason.to_string())),
        })?;
        schema.check(&mut value).map_err(|reason| self.reject(Some(&reason)))?;
        if !is_form {
            // What was checked is what goes upstream: duplicate keys and the like are gone.
            drop(body);
            request.body = RequestBody::Empty;
            request.body = RequestBody::Collected(value.to_string().into());
        }
        Ok(())
    }
}

impl HeaderCheck {
    fn run(&self, request: &Request) -> Result<(), String> {
        let mut fields = Map::new();
        for (name, value) in request.head.headers.iter() {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let value = Value::from(String::from_utf8_lossy(value));
            form::insert(&mut fields, name, value);
        }
        for name in &self.names {
            let plain = name.to_ascii_lowercase().replace('_', "-");
            if plain != *name
                && !fields.contains_key(name)
                && let Some(value) = fields.get(&plain).cloned()
            {
                fields.insert(name.clone(), value);
            }
        }
        self.schema.check(&mut Value::Object(fields))
    }
}
