//! Variables of the request body. They have a value only when the body is in memory, which routing ensures where a
//! route's `vars` need it.

use std::{borrow::Cow, net::IpAddr};

use serde_json::Value;
use tidegate_routing::expr::Operand;

use super::{
    Named, graphql,
    json_path::{self, path::Path},
    known::{BODY_TOO_LARGE, MALFORMED, Unjudged},
    variable::Variable,
};
use crate::{
    document::{Allowance, limits::Unread},
    multipart,
};

/// A body, and the facts of its request that are needed to read it.
pub(super) struct Source<'a> {
    pub body: &'a [u8],
    pub content_type: &'a [u8],
    pub client: IpAddr,
}

impl Source<'_> {
    /// Whether a body of this type can hold the variable.
    pub(super) fn is_for(&self, variable: &Variable) -> bool {
        match variable {
            Variable::PostArg(_) => self.is_form() || self.is_like_form(),
            Variable::PostArgPath(_) => {
                self.is_form() || self.is_like_form() || self.is(MULTIPART) || self.is(JSON)
            }
            _ => self.is(JSON) || self.is(GRAPHQL),
        }
    }

    /// Whether a value may be in it: a query of GraphQL is taken from any type.
    pub(super) fn may_have(&self, variable: &Variable) -> bool {
        matches!(variable, Variable::Named(_)) || self.is_for(variable)
    }

    /// A type that only begins like a form may be JSON to the upstream.
    fn is_form(&self) -> bool {
        tidegate_protocol::media_type::is(self.content_type, FORM)
    }

    /// Whether the upstream might take it for a form; the gateway cannot know.
    fn is_like_form(&self) -> bool {
        tidegate_protocol::media_type::is_like(self.content_type, FORM)
    }

    /// Media types have no case (RFC 9110 section 8.3.1).
    fn is(&self, media_type: &[u8]) -> bool {
        let start = self.content_type.get(..media_type.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(media_type))
    }
}

const FORM: &str = "application/x-www-form-urlencoded";
const MULTIPART: &[u8] = b"multipart/form-data";
const JSON: &[u8] = b"application/json";
const GRAPHQL: &[u8] = b"application/graphql";

/// The value of a variable of the body.
pub(super) fn look_up<'a>(variable: &Variable, source: &Source<'a>) -> Result<Operand<'a>, Unjudged> {
    match variable {
        Variable::PostArg(_) | Variable::PostArgPath(_) if source.is_like_form() => Err(MALFORMED),
        Variable::PostArg(name) if source.is_form() => Ok(form_value(source.body, name)),
        Variable::PostArgPath(path) => post_arg_path(source, path),
        Variable::Named(named) => {
            Ok(graphql_of_body(source)?.map_or(Operand::Nil, |found| of(found, *named)))
        }
        _ => Ok(Operand::Nil),
    }
}

/// The first value of a url-encoded body.
fn form_value(body: &[u8], name: &str) -> Operand<'static> {
    let plain = |key: &[u8]| memchr::memchr2(b'%', b'+', key).is_none();
    let found = tidegate_protocol::uri::query_pairs(body).find(|(key, _)| {
        *key == name.as_bytes()
            || (!plain(key) && tidegate_protocol::uri::percent_decode(key, true) == name.as_bytes())
    });
    found.map_or(Operand::Nil, |(_, value)| {
        Operand::Bytes(Cow::Owned(tidegate_protocol::uri::percent_decode(value.unwrap_or_default(), true)))
    })
}

/// `post_arg.PATH`
fn post_arg_path<'a>(source: &Source<'a>, path: &str) -> Result<Operand<'a>, Unjudged> {
    if source.is_form() {
        return Ok(form_value(source.body, path));
    }
    if source.is(MULTIPART) {
        for field in multipart::fields(source.body, source.content_type) {
            match field {
                Ok((name, value)) if *name == *path.as_bytes() => {
                    return Ok(Operand::Bytes(Cow::Borrowed(value)));
                }
                Ok(_) => {}
                Err(multipart::Doubtful) => return Err(MALFORMED),
            }
        }
        return Ok(Operand::Nil);
    }
    if !source.is(JSON) {
        return Ok(Operand::Nil);
    }
    if path.contains(['[', '*']) || path.contains("..") {
        let found = Path::of_json_path(path).map(|path| json_values(source, &path)).transpose()?;
        return Ok(match found {
            Some(found) if !found.is_empty() => Operand::List(found.into_iter().map(json_operand).collect()),
            _ => Operand::Nil,
        });
    }
    let found = Path::of_names(path).map(|path| json_values(source, &path)).transpose()?;
    Ok(found.and_then(|mut found| found.pop()).map_or(Operand::Nil, json_operand))
}

/// The values that a path selects in a JSON body.
fn json_values(source: &Source<'_>, path: &Path<'_>) -> Result<Vec<Value>, Unjudged> {
    match json_path::values(source.body, path, &Allowance::of_a_body(Some(source.client))) {
        Ok(values) => Ok(values),
        Err(Unread::Syntax(_)) => Err(MALFORMED),
        Err(Unread::TooLarge(error)) => Err(Unjudged::TooLarge(error)),
    }
}

fn json_operand(value: Value) -> Operand<'static> {
    match value {
        Value::Null => Operand::Nil,
        Value::Bool(value) => Operand::Boolean(value),
        Value::Number(number) => Operand::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => Operand::Bytes(Cow::Owned(text.into_bytes())),
        Value::Array(items) => Operand::List(items.into_iter().map(json_operand).collect()),
        Value::Object(_) => Operand::Bytes(Cow::Owned(value.to_string().into_bytes())),
    }
}

pub(crate) fn operand_text(operand: Operand<'_>) -> Option<Cow<'_, [u8]>> {
    match operand {
        Operand::Nil => None,
        Operand::Bytes(bytes) => Some(bytes),
        Operand::Number(number) => Some(Cow::Owned(number.to_string().into_bytes())),
        Operand::Boolean(value) => Some(Cow::Owned(value.to_string().into_bytes())),
        Operand::List(items) => {
            let texts: Vec<Vec<u8>> =
                items.into_iter().filter_map(operand_text).map(Cow::into_owned).collect();
            Some(Cow::Owned(texts.join(&b", "[..])))
        }
    }
}

/// An operation beyond `graphql.max_size` cannot be judged.
pub(super) fn most() -> usize {
    crate::host().map_or(1 << 20, |host| host.graphql_max_bytes)
}

/// The operation of a body. A body that claims to be GraphQL, or JSON with a query, and cannot be read here is an
/// error: the upstream may be able to read it.
fn graphql_of_body(source: &Source<'_>) -> Result<Option<graphql::Operation>, Unjudged> {
    if source.body.len() > most() {
        // Of other types a query is taken only where possible.
        let is_meant = source.is(JSON) || source.is(GRAPHQL);
        return if is_meant { Err(BODY_TOO_LARGE) } else { Ok(None) };
    }
    if source.is(GRAPHQL) {
        return operation(source.body, None).ok_or(MALFORMED).map(Some);
    }
    if !source.is(JSON) {
        return Ok(operation(source.body, None));
    }
    // A list is several requests in one.
    if source.body.trim_ascii_start().first() == Some(&b'[') {
        return Err(MALFORMED);
    }
    let member = |name| -> Result<Option<Value>, Unjudged> {
        let found = Path::of_names(name).map(|path| json_values(source, &path)).transpose()?;
        Ok(found.and_then(|mut found| found.pop()))
    };
    let (query, name) = (member("query")?, member("operationName")?);
    let name = name.as_ref().and_then(Value::as_str);
    match query {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(query)) => operation(query.as_bytes(), name).ok_or(MALFORMED).map(Some),
        Some(_) => Err(MALFORMED),
    }
}

/// An empty name counts as none.
pub(super) fn operation(query: &[u8], name: Option<&str>) -> Option<graphql::Operation> {
    graphql::operation(std::str::from_utf8(query).ok()?, name.filter(|name| !name.is_empty()))
}

pub(super) fn of(operation: graphql::Operation, named: Named) -> Operand<'static> {
    match named {
        Named::GraphqlName => Operand::Bytes(Cow::Owned(operation.name.into_bytes())),
        Named::GraphqlOperation => Operand::Bytes(Cow::Borrowed(operation.kind.as_bytes())),
        _ => {
            let fields = operation.root_fields.into_iter();
            Operand::List(fields.map(|field| Operand::Bytes(Cow::Owned(field.into_bytes()))).collect())
        }
    }
}
