//! What must hold for any text that a client or an operator sends: no panic, no end of the stack, nothing out of proportion,
//! and where two ways lead to one answer, the same answer. Run as `properties.rs` is.

use std::{borrow::Cow, cell::Cell, collections::HashMap};

use serde_json::Value;
use tidegate_clients::jws::{Algorithm, Token, VerifyingKey};
use tidegate_plugin_api::{multipart, request::cookie_in, template::Template, variables::json_path as paths};
use tidegate_plugins::parsers;
use tidegate_routing::expr::{Expression, Operand, Variables};

fn text(data: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(data)
}

/// Two texts: up to the first `0xff`, and behind it.
fn pair(data: &[u8]) -> (&[u8], &[u8]) {
    let at = data.iter().position(|byte| *byte == 0xff);
    at.map_or((data, &[]), |at| (&data[..at], &data[at + 1..]))
}

/// What is read with little memory is read with much.
pub(crate) fn xml(data: &[u8]) {
    let text = text(data);
    if parsers::xml(&text, 1 << 12) {
        assert!(parsers::xml(&text, 1 << 24), "more memory, and no document");
    }
}

/// Texts of `protos` objects.
pub(crate) fn proto(data: &[u8]) {
    let _ = tidegate_plugins::check_proto(&text(data));
}

/// Templates of body-transformer, which are compiled to Lua, and those with variables.
pub(crate) fn template(data: &[u8]) {
    let text = text(data);
    let _ = parsers::template(&text);
    for template in [Template::compile(&text), Template::compile_simple(&text)] {
        assert_eq!(template.literal().is_none(), template.variables().next().is_some());
        if let Some(literal) = template.literal() {
            assert!(literal.len() <= text.len(), "a literal longer than its text");
        }
    }
}

/// A document of YAML means the same when it is written as JSON, which is YAML too.
pub(crate) fn yaml(data: &[u8]) {
    let Ok(value) = tidegate_config::yaml::to_value(&text(data)) else { return };
    let json = value.to_string();
    match tidegate_config::yaml::to_value(&json) {
        Ok(again) => assert_eq!(again, value, "written as JSON: {json}"),
        // JSON nests where YAML's aliases repeat.
        Err(fault) => assert!(json.len() > data.len(), "{fault}: {json}"),
    }
}

struct Request<'a> {
    values: HashMap<&'static str, &'a [u8]>,
    gave_up: Cell<bool>,
}

impl Variables for Request<'_> {
    type Name = String;

    fn get<'a>(&'a self, name: &String) -> Operand<'a> {
        match name.as_str() {
            "number" => Operand::Number(7.0),
            "yes" => Operand::Boolean(true),
            "list" => {
                Operand::List(vec![Operand::Nil, Operand::Number(1.0), Operand::Bytes(b"a"[..].into())])
            }
            other => self.values.get(other).map_or(Operand::Nil, |value| Operand::Bytes((*value).into())),
        }
    }

    fn gave_up(&self, _: &str) {
        self.gave_up.set(true);
    }
}

/// A rule and the value of `$text`: whatever it says, its negation says the opposite.
pub(crate) fn expression(data: &[u8]) {
    let (rule, value) = pair(data);
    let Ok(rule) = serde_json::from_slice::<Value>(rule) else { return };
    let mut name = |name: &str| name.to_owned();
    let Ok(expression) = Expression::compile(&rule, &mut name) else { return };
    let request = Request { values: HashMap::from([("text", value)]), gave_up: Cell::new(false) };
    let holds = expression.eval(&request);
    assert_eq!(holds, expression.eval(&request), "asked twice");
    assert!(holds || !expression.is_always_true(), "an empty rule holds");
    let negated = serde_json::json!(["!AND", rule.clone()]);
    let negated = Expression::compile(&negated, &mut name);
    if let (Ok(negated), false, false) = (negated, request.gave_up.get(), expression.is_always_true()) {
        assert_eq!(negated.eval(&request), !holds, "negated: {rule}");
    }
}

/// A line of cookies and a name: the value is a piece of the line, and alone it is the same.
pub(crate) fn cookie(data: &[u8]) {
    let (line, name) = pair(data);
    let Some(value) = cookie_in(line, name) else { return };
    assert!(!value.contains(&b';'), "a value beyond its end");
    let alone = [b"other=1; ", name, b"=", value].concat();
    assert_eq!(cookie_in(&alone, name), Some(value), "written again");
}

/// A token: what is signed and the signature are all of it, and nobody's key has signed what the fuzzer makes.
pub(crate) fn jwt(data: &[u8]) {
    let Ok(token) = Token::parse(data) else { return };
    let signature = token.signature_text();
    assert!(data.ends_with(signature.as_bytes()) || signature.contains('\u{fffd}'), "another signature");
    let key = VerifyingKey::from_secret(Algorithm::Hs256, b"of the fuzz targets alone").expect("a key");
    assert!(!token.is_signed_by(&key), "signed by nobody");
    let _ = (token.algorithm(), token.key_id());
}

/// What an importer makes of any text can be read as the apisix.yaml that it writes.
fn imported(source: tidegate_import::Source, data: &[u8]) {
    let files = |name: &str| Err(format!("no file {name}"));
    let Ok(imported) =
        tidegate_import::import(source, &text(data), &files, tidegate_import::Options::default())
    else {
        return;
    };
    let Ok(yaml) = imported.output.yaml() else { return };
    let read = tidegate_config::yaml::to_value(&yaml).unwrap_or_else(|fault| panic!("{fault}: {yaml}"));
    for (collection, objects) in imported.output.lists() {
        let found = read.get(collection).and_then(Value::as_array).map_or(0, Vec::len);
        assert_eq!(found, objects.len(), "{collection} in {yaml}");
    }
}

pub(crate) fn import_nginx(data: &[u8]) {
    imported(tidegate_import::Source::Nginx, data);
}

pub(crate) fn import_kong(data: &[u8]) {
    imported(tidegate_import::Source::Kong, data);
}

pub(crate) fn import_apisix(data: &[u8]) {
    imported(tidegate_import::Source::Apisix, data);
}

/// A body and its media type: the parts lie one behind the other in the body.
pub(crate) fn form(data: &[u8]) {
    let (body, content_type) = pair(data);
    let mut end = 0;
    for (name, value) in multipart::fields(body, content_type).flatten() {
        let at = (value.as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
        assert!(value.is_empty() || (at >= end && at + value.len() <= body.len()), "parts overlap");
        assert!(!name.is_empty() || !value.is_empty() || body.len() > 2, "a part of nothing");
        end = end.max(at + value.len()).min(body.len());
    }
}

/// A document and a path: what is picked out of the bytes is what the tree has.
pub(crate) fn json_path(data: &[u8]) {
    let (document, path) = pair(data);
    let path = text(path);
    let checked = paths::check(&path);
    let Some(picked) = paths::select_in_text(document, &path) else { return };
    assert!(checked.is_ok() || picked.is_empty(), "found by what is not a path: {path}");
    let tree: Value = serde_json::from_slice(document).expect("it was read");
    let selected: Vec<Value> = paths::select(&tree, &path).into_iter().cloned().collect();
    assert_eq!(picked, selected, "{path} in {tree}");
}
