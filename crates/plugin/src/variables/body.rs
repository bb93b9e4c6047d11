//! Variables that look into the request body. They have a value only when the body is in memory, which routing sees
//! to where a route's `vars` need it.

use std::borrow::Cow;

use routing::expr::Operand;
use serde_json::Value;
use telemetry::error_log;
use wire::HeaderId;

use super::json_path::{self, Path};
use crate::{
    Request, RequestBody,
    document::{Allowance, Unread},
    multipart,
};

fn collected(request: &Request) -> Option<&[u8]> {
    match &request.body {
        RequestBody::Collected(bytes) => Some(bytes),
        // Routing left it where it is, because it is too large.
        RequestBody::Unread { .. } => unjudged(request, TOO_LARGE),
        RequestBody::Empty => None,
    }
}

const JSON: &str = "application/json";
const GRAPHQL: &str = "application/graphql";

const TOO_LARGE: u16 = 413;
const MALFORMED: u16 = 400;

/// The body has something to say that cannot be read here, but perhaps by the upstream.
fn unjudged<T>(request: &Request, status: u16) -> Option<T> {
    // Later on nothing but the value is missing.
    if request.route.is_none() {
        request.set_undecided_of_routes(status);
    }
    None
}

fn content_type(request: &Request) -> &[u8] {
    request.head.headers.known(HeaderId::ContentType).unwrap_or_default()
}

/// Media types have no case (RFC 9110 section 8.3.1).
fn is_type(content_type: &[u8], wanted: &str) -> bool {
    content_type.get(..wanted.len()).is_some_and(|start| start.eq_ignore_ascii_case(wanted.as_bytes()))
}

fn is_form(request: &Request) -> bool {
    is_type(content_type(request), "application/x-www-form-urlencoded")
}

/// `post_arg_NAME`: the first value of a url-encoded body.
pub fn post_arg<'a>(request: &'a Request, name: &str) -> Option<Cow<'a, [u8]>> {
    if !is_form(request) {
        return None;
    }
    form_value(collected(request)?, name).map(Cow::Owned)
}

fn form_value(body: &[u8], name: &str) -> Option<Vec<u8>> {
    let plain = |key: &[u8]| memchr::memchr2(b'%', b'+', key).is_none();
    wire::uri::query_pairs(body)
        .find(|(key, _)| {
            *key == name.as_bytes()
                || (!plain(key) && wire::uri::percent_decode(key, true) == name.as_bytes())
        })
        .map(|(_, value)| wire::uri::percent_decode(value.unwrap_or_default(), true))
}

/// `post_arg.PATH`
pub fn post_arg_path<'a>(request: &'a Request, path: &str) -> Operand<'a> {
    let content_type = content_type(request);
    let is_form = is_form(request);
    let is_multipart = is_type(content_type, "multipart/form-data");
    // Of other bodies nothing is read, however large they are.
    if !(is_form || is_multipart || is_type(content_type, JSON)) {
        return Operand::Nil;
    }
    let Some(body) = collected(request) else { return Operand::Nil };
    if is_form {
        return form_value(body, path).map_or(Operand::Nil, |value| Operand::Bytes(Cow::Owned(value)));
    }
    if is_multipart {
        let found = multipart::fields(body, content_type).find(|(name, _)| *name == path.as_bytes());
        return found.map_or(Operand::Nil, |(_, value)| Operand::Bytes(Cow::Borrowed(value)));
    }
    if path.contains(['[', '*']) || path.contains("..") {
        let found =
            Path::of_json_path(path).map(|path| json_values(request, body, &path)).unwrap_or_default();
        return if found.is_empty() {
            Operand::Nil
        } else {
            Operand::List(found.into_iter().map(json_operand).collect())
        };
    }
    let found = Path::of_names(path).and_then(|path| json_values(request, body, &path).pop());
    found.map_or(Operand::Nil, json_operand)
}

/// What a path selects in a JSON body; nothing in one that is no JSON. When it is more than may be held, nobody can
/// tell whether a condition on it holds, and the request is refused.
fn json_values(request: &Request, body: &[u8], path: &Path<'_>) -> Vec<Value> {
    match json_path::values(body, path, &Allowance::of_a_body(Some(request.remote_addr))) {
        Ok(values) => values,
        Err(Unread::Syntax(_)) => unjudged(request, MALFORMED).unwrap_or_default(),
        Err(Unread::TooLarge(error)) => {
            error_log::log(
                error_log::Level::Error,
                format_args!("a condition on a request body cannot be looked at: {error}"),
            );
            request.set_undecided(error.status());
            Vec::new()
        }
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

pub fn operand_text(operand: Operand<'_>) -> Option<Cow<'_, [u8]>> {
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

/// What the GraphQL variables need of an operation. One beyond `graphql.max_size` cannot be judged.
fn graphql(request: &Request) -> Option<crate::variables::graphql::Operation> {
    let most = crate::host().map_or(1 << 20, |host| host.graphql_max_bytes);
    let query: Vec<u8> = match request.head.method {
        wire::Method::Get => match request.arg("query")? {
            query if query.len() > most => return unjudged(request, TOO_LARGE),
            query => query,
        },
        _ => {
            let kind = content_type(request);
            let known = is_type(kind, JSON) || is_type(kind, GRAPHQL);
            // Of other types a query is taken where it is at hand.
            if !known && matches!(request.body, RequestBody::Unread { .. }) {
                return None;
            }
            let body = collected(request)?;
            if body.len() > most {
                return if known { unjudged(request, TOO_LARGE) } else { None };
            }
            if is_type(kind, JSON) {
                match json_values(request, body, &Path::of_names("query")?).pop()? {
                    Value::String(query) => query.into_bytes(),
                    _ => return None,
                }
            } else {
                body.to_vec()
            }
        }
    };
    crate::variables::graphql::first_operation(std::str::from_utf8(&query).ok()?)
}

pub fn graphql_name(request: &Request) -> Option<Cow<'_, [u8]>> {
    graphql(request).map(|operation| Cow::Owned(operation.name.into_bytes()))
}

pub fn graphql_operation(request: &Request) -> Option<Cow<'_, [u8]>> {
    graphql(request).map(|operation| Cow::Borrowed(operation.kind.as_bytes()))
}

pub fn graphql_root_fields(request: &Request) -> Operand<'_> {
    graphql(request).map_or(Operand::Nil, |operation| {
        let fields = operation.root_fields.into_iter();
        Operand::List(fields.map(|field| Operand::Bytes(Cow::Owned(field.into_bytes()))).collect())
    })
}
