//! Lets requests through or refuses them by labels of the consumer, or of a user of an identity provider.

use std::sync::Arc;

use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
    variables::{is_json_path, json_path},
};
use tidegate_telemetry::error_log;

use crate::{
    common::{auth::ExternalUser, conf::typed},
    lua,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "acl",
    version: 0.1,
    priority: 2410,
    schema: include_str!("acl.json"),
    phases: Phases::ACCESS,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

type Labels = std::collections::BTreeMap<String, Vec<String>>;

#[derive(Deserialize)]
struct Conf {
    external_user_label_field: String,
    external_user_label_field_key: Option<String>,
    external_user_label_field_parser: Option<String>,
    external_user_label_field_separator: Option<String>,
    allow_labels: Option<Labels>,
    deny_labels: Option<Labels>,
    rejected_code: u16,
    rejected_msg: Option<String>,
}

struct Acl {
    field: String,
    field_key: String,
    /// Of external users' values; consumers' labels show their form themselves.
    parser: Parser,
    allow: Option<Labels>,
    deny: Option<Labels>,
    rejected_code: u16,
    rejected_message: String,
}

/// How a label's value becomes a list.
enum Parser {
    /// By its form: a list, a JSON list, a text with commas, one value.
    Guess,
    Segmented(Regex),
    Json,
    Table,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let path = conf.get("external_user_label_field").and_then(Value::as_str).unwrap_or_default();
    // These select nothing here, so denied labels would never be found.
    if path.contains(['?', '('])
        || path.split('[').skip(1).any(|part| !part.starts_with(['\'', '"']) && part.contains([':', ',']))
    {
        return Err(format!(
            "external_user_label_field {path}: filters, slices and unions are not supported"
        ));
    }
    if is_json_path(path) {
        return check_separator(conf);
    }
    Err(format!("invalid external_user_label_field: {path} is not a JSONPath"))
}

/// A separator that matches the empty string splits every letter, so no denied label is ever found.
fn check_separator(conf: &Value) -> Result<(), String> {
    let parser = conf.get("external_user_label_field_parser").and_then(Value::as_str);
    let separator = conf.get("external_user_label_field_separator").and_then(Value::as_str);
    let Some(separator) = separator.filter(|_| parser == Some("segmented_text")) else { return Ok(()) };
    let cuts = |text: &str| {
        Regex::new(&format!("^(?:\\s*{separator}\\s*)$")).is_ok_and(|regex| regex.is_match(text))
    };
    if cuts("") || cuts("a") {
        return Err(format!(
            "external_user_label_field_separator {separator} is a regular expression that cuts everywhere; write {}",
            regex::escape(separator)
        ));
    }
    Ok(())
}

/// What the configuration alone shows: which labels consumers and users of an identity provider have is not known here.
fn remarks(conf: &Value) -> Vec<String> {
    let pairs = |name: &str| -> Vec<(String, String)> {
        let labels = conf.get(name).and_then(Value::as_object).into_iter().flatten();
        let pairs = labels.flat_map(|(label, values)| {
            let values = values.as_array().into_iter().flatten().filter_map(Value::as_str);
            values.map(move |value| (label.clone(), value.to_owned()))
        });
        pairs.collect()
    };
    let (allowed, denied) = (pairs("allow_labels"), pairs("deny_labels"));
    let mut found = Vec::new();
    let both: Vec<_> = allowed.iter().filter(|pair| denied.contains(pair)).collect();
    if !both.is_empty() && both.len() == allowed.len() {
        found.push("deny_labels has all of allow_labels, so every consumer is refused".to_owned());
    } else {
        found.extend(both.iter().map(|(label, value)| {
            format!("allow_labels: {label} {value} has no effect: deny_labels has it too")
        }));
    }
    let parser = conf.get("external_user_label_field_parser").and_then(Value::as_str);
    if conf.get("external_user_label_field_separator").is_some() && parser != Some("segmented_text") {
        let why = "without external_user_label_field_parser segmented_text";
        found.push(format!("external_user_label_field_separator has no effect {why}"));
    }
    found
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let parser = match conf.external_user_label_field_parser.as_deref() {
        Some("segmented_text") => {
            let separator = conf.external_user_label_field_separator.unwrap_or_default();
            // Without it nothing would match, also nothing that is denied.
            let regex = Regex::new(&format!("\\s*{separator}\\s*")).map_err(|error| {
                format!("external_user_label_field_separator is not a regular expression: {error}")
            })?;
            Parser::Segmented(regex)
        }
        Some("json") => Parser::Json,
        Some("table") => Parser::Table,
        _ => Parser::Guess,
    };
    Ok(Arc::new(Acl {
        field_key: conf
            .external_user_label_field_key
            .unwrap_or_else(|| conf.external_user_label_field.clone()),
        field: conf.external_user_label_field,
        parser,
        allow: conf.allow_labels,
        deny: conf.deny_labels,
        rejected_code: conf.rejected_code,
        rejected_message: conf.rejected_msg.unwrap_or_else(|| "The consumer is forbidden.".to_owned()),
    }))
}

fn warn(text: std::fmt::Arguments) {
    error_log::log(error_log::Level::Warn, text);
}

impl Plugin for Acl {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let permitted = if let Some(consumer) = &request.consumer {
            self.permits(&consumer.labels, &Parser::Guess)
        } else if let Some(ExternalUser(user)) = request.extensions.get() {
            self.permits_external(user)
        } else if let Some(user) = lua::context_field(request, "external_user") {
            self.permits_external(&user)
        } else {
            return Step::reply(Reply::message(401, "Missing authentication."));
        };
        if permitted {
            return Step::Next;
        }
        Step::reply(Reply::message(self.rejected_code, &self.rejected_message))
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Acl {
    fn permits(&self, labels: &Map<String, Value>, parser: &Parser) -> bool {
        let denied = self.deny.as_ref().is_some_and(|deny| contains_label(deny, labels, parser));
        !denied && self.allow.as_ref().is_none_or(|allow| contains_label(allow, labels, parser))
    }

    fn permits_external(&self, user: &Value) -> bool {
        let found = json_path(user, &self.field);
        let mut labels = Map::new();
        match found[..] {
            [] => {}
            [only] => _ = labels.insert(self.field_key.clone(), only.clone()),
            // Several: each is parsed for itself, then there is nothing left to parse.
            ref many => {
                let merged = many.iter().flat_map(|value| match value {
                    Value::String(_) => values(value, &self.parser),
                    _ => values(value, &Parser::Guess),
                });
                labels.insert(self.field_key.clone(), merged.collect());
                return self.permits(&labels, &Parser::Guess);
            }
        }
        self.permits(&labels, &self.parser)
    }
}

fn contains_label(wanted: &Labels, labels: &Map<String, Value>, parser: &Parser) -> bool {
    wanted.iter().any(|(label, wanted)| {
        let Some(value) = labels.get(label).filter(|value| !value.is_null()) else { return false };
        let has = values(value, parser);
        has.iter().filter_map(Value::as_str).any(|value| wanted.iter().any(|wanted| wanted == value))
    })
}

fn values(value: &Value, parser: &Parser) -> Vec<Value> {
    match (parser, value) {
        (Parser::Guess | Parser::Table, Value::Array(values)) => values.clone(),
        (Parser::Guess | Parser::Table, Value::Object(_)) => Vec::new(),
        (Parser::Guess, Value::String(text)) if text.starts_with('[') => json_list(text),
        (Parser::Guess, Value::String(text)) => text.split(',').map(|part| part.trim().into()).collect(),
        (Parser::Json, Value::String(text)) if text.starts_with('[') => json_list(text),
        (Parser::Segmented(separator), Value::String(text)) => {
            separator.split(text).map(Value::from).collect()
        }
        _ => {
            warn(format_args!("acl: a label's value does not have the format that its parser expects"));
            Vec::new()
        }
    }
}

fn json_list(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap_or_else(|error| {
        warn(format_args!("acl: failed to decode labels [{text}] as array, err: {error}"));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parsers() {
        let segmented = Parser::Segmented(Regex::new("\\s*\\|\\s*").unwrap());
        let cases = [
            (&Parser::Guess, json!("a"), json!(["a"])),
            (&Parser::Guess, json!("a, b"), json!(["a", "b"])),
            (&Parser::Guess, json!("[\"a\",\"b\"]"), json!(["a", "b"])),
            (&Parser::Guess, json!("[broken"), json!([])),
            (&Parser::Guess, json!(["a"]), json!(["a"])),
            (&Parser::Guess, json!(1), json!([])),
            (&segmented, json!("a | b"), json!(["a", "b"])),
            (&segmented, json!(["a"]), json!([])),
            (&Parser::Json, json!("a"), json!([])),
            (&Parser::Table, json!("a"), json!([])),
        ];
        for (parser, value, expected) in cases {
            assert_eq!(Value::Array(values(&value, parser)), expected, "{value}");
        }
    }
}
