//! Variables that look into the request body. They have a value only when the body is in memory, which routing sees
//! to where a route's `vars` need it.

use std::borrow::Cow;

use routing::expr::Operand;
use serde_json::Value;
use wire::HeaderId;

use crate::{Request, RequestBody};

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
    request.unjudged.set(Some(status));
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
    wire::uri::query_pairs(body)
        .find(|(key, _)| wire::uri::percent_decode(key, true) == name.as_bytes())
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
        return multipart_value(body, content_type, path)
            .map_or(Operand::Nil, |value| Operand::Bytes(Cow::Owned(value)));
    }
    let document = serde_json::from_slice::<Value>(body).ok().or_else(|| unjudged(request, MALFORMED));
    let Some(document) = document else { return Operand::Nil };
    if path.contains(['[', '*']) || path.contains("..") {
        let found = crate::variables::json_path::select(&document, path);
        return if found.is_empty() {
            Operand::Nil
        } else {
            Operand::List(found.into_iter().map(json_operand).collect())
        };
    }
    let mut at = &document;
    for segment in path.split('.') {
        let Some(next) = at.get(segment) else { return Operand::Nil };
        at = next;
    }
    json_operand(at)
}

fn json_operand<'a>(value: &Value) -> Operand<'a> {
    match value {
        Value::Null => Operand::Nil,
        Value::Bool(value) => Operand::Boolean(*value),
        Value::Number(number) => Operand::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => Operand::Bytes(Cow::Owned(text.clone().into_bytes())),
        Value::Array(items) => Operand::List(items.iter().map(json_operand).collect()),
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

/// The text of one part of a multipart body (RFC 7578).
fn multipart_value(body: &[u8], content_type: &[u8], name: &str) -> Option<Vec<u8>> {
    let content_type = std::str::from_utf8(content_type).ok()?;
    let boundary = parameter(content_type, "boundary")?;
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut rest = body;
    while let Some(at) = find(rest, &delimiter) {
        rest = rest.get(at + delimiter.len()..)?;
        let (head_end, blank) = head_end(rest)?;
        let head = String::from_utf8_lossy(rest.get(..head_end)?).into_owned();
        let content = rest.get(head_end + blank..)?;
        if head.lines().any(|line| parameter(line, "name") == Some(name)) {
            let end = find(content, &delimiter)?;
            return content.get(..end).map(|value| without_line_end(value).to_vec());
        }
    }
    None
}

/// A parameter of a field's value; its name has no case, its value may stand in quotes.
fn parameter<'a>(value: &'a str, wanted: &str) -> Option<&'a str> {
    value.split(';').skip(1).find_map(|part| {
        let (name, value) = part.split_once('=')?;
        name.trim().eq_ignore_ascii_case(wanted).then(|| value.trim().trim_matches('"'))
    })
}

/// Where a part's head ends and how long the blank line is. Bare line feeds are common in hand-made bodies.
fn head_end(part: &[u8]) -> Option<(usize, usize)> {
    let strict = find(part, b"\r\n\r\n").map(|at| (at, 4));
    let bare = find(part, b"\n\n").map(|at| (at, 2));
    match (strict, bare) {
        (Some(strict), Some(bare)) => Some(if strict.0 < bare.0 { strict } else { bare }),
        (strict, bare) => strict.or(bare),
    }
}

fn without_line_end(value: &[u8]) -> &[u8] {
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    value.strip_suffix(b"\r").unwrap_or(value)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(haystack, needle)
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
            if is_type(content_type(request), JSON) {
                serde_json::from_slice::<Value>(body).ok()?.get("query")?.as_str()?.as_bytes().to_vec()
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
