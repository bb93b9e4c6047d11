//! Requests to GraphQL services: in a `POST` as JSON or as GraphQL, in a `GET` as arguments.
//!
//! What a service may read in two ways is refused: a query in the target of a `POST`, an argument or member that is there twice, a
//! body in a coding.

use serde_json::{Map, Value};
use tidegate_plugin_api::{
    Reply, Request, RequestBody, aside,
    document::Allowance,
    graphql::{Document, Fault},
    host,
};
use tidegate_protocol::{HeaderId, media_type, uri};
use tidegate_telemetry::error_log::{self, Level};

use super::json;

const NO_BODY: &str = "Invalid graphql request: can't get graphql request body";

/// Values in the JSON of one request.
const MOST_VALUES: usize = 65_536;

/// A document, and what is to run of it.
#[derive(Debug, Default)]
pub(crate) struct Question {
    pub text: String,
    pub variables: Map<String, Value>,
    pub operation: Option<String>,
}

/// `graphql.max_size`
fn most_bytes() -> usize {
    host().map_or(1 << 20, |host| host.graphql_max_bytes)
}

/// A refusal as APISIX words it.
pub(crate) fn refused(message: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("{message}"));
    Box::new(Reply::message(400, message))
}

/// The document of a question, with APISIX's words for one that cannot be read.
pub(crate) fn document(text: &str) -> Result<Document<'_>, Box<Reply>> {
    Document::parse(text).map_err(|fault| {
        error_log::log(Level::Error, format_args!("failed to parse graphql: {fault}"));
        let why = match fault {
            Fault::NoOperation => "empty graphql query".to_owned(),
            Fault::Syntax { .. } => "failed to parse graphql query".to_owned(),
            Fault::TooLarge | Fault::TooDeep => fault.to_string(),
        };
        Box::new(Reply::message(400, &format!("Invalid graphql request: {why}")))
    })
}

impl Question {
    /// Of the target.
    pub(crate) fn of_get(request: &Request) -> Result<Question, Box<Reply>> {
        let query = request.head.query().unwrap_or_default();
        if query.is_empty() || query.len() > most_bytes() {
            return Err(refused(NO_BODY));
        }
        let text = argument(query, "query")?
            .ok_or_else(|| refused("invalid graphql request, args[query] is nil"))?;
        let operation = argument(query, "operationName")?;
        Ok(Question { text, operation, ..Question::default() })
    }

    /// Of the body, which is in memory afterwards.
    pub(crate) async fn of_post(request: &mut Request) -> Result<Question, Box<Reply>> {
        if request.arg("query").is_some() {
            return Err(refused("invalid graphql request, args[query] beside a body"));
        }
        let body = match request.collect_body(most_bytes()).await {
            Ok(body) if body.len() > most_bytes() => return Err(refused(NO_BODY)),
            Ok(body) => body,
            Err(reply) if reply.status == 413 => return Err(refused(NO_BODY)),
            Err(reply) => return Err(reply),
        };
        if body.is_empty() {
            return Err(refused(NO_BODY));
        }
        if request.has_coded_body() {
            return Err(Box::new(Reply::page(415)));
        }
        let mut types = request.head.headers.all_known(HeaderId::ContentType);
        let kind = types.next().unwrap_or_default();
        if types.next().is_some() {
            return Err(refused("invalid graphql request, several content-types"));
        }
        if media_type::is(kind, "application/graphql") {
            let text = String::from_utf8(body.to_vec())
                .map_err(|_| refused("invalid graphql request, it is not UTF-8"))?;
            return Ok(Question { text, ..Question::default() });
        }
        if !media_type::is(kind, "application/json") {
            let kind = String::from_utf8_lossy(kind);
            return Err(refused(&format!("invalid graphql request, error content-type: {kind}")));
        }
        let read =
            aside::run_by_size(request.remote_addr, body.len(), move || Question::of_json(&body)).await;
        let read = read.unwrap_or_else(|aside::Undone| Err("it was not read".to_owned()));
        read.map_err(|reason| refused(&format!("invalid graphql request, {reason}")))
    }

    fn of_json(body: &[u8]) -> Result<Question, String> {
        let document = tidegate_model::json::parse_within(body, MOST_VALUES).map_err(|fault| {
            let words = json::decode(body, &Allowance::of_a_body(None));
            words.err().map_or_else(|| fault.to_string(), |error| error.to_string())
        })?;
        let Value::Object(mut members) = document else { return Err("json body[query] is nil".to_owned()) };
        let Some(Value::String(text)) = members.remove("query") else {
            return Err("json body[query] is nil".to_owned());
        };
        let variables = match members.remove("variables") {
            Some(Value::Object(variables)) => variables,
            // Some clients send them as a text.
            Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or_default(),
            _ => Map::new(),
        };
        let operation = match members.remove("operationName") {
            Some(Value::String(name)) if !name.is_empty() => Some(name),
            _ => None,
        };
        Ok(Question { text, variables, operation })
    }
}

/// An argument that is there once.
fn argument(query: &[u8], name: &str) -> Result<Option<String>, Box<Reply>> {
    let mut values =
        uri::query_pairs(query).filter(|(key, _)| uri::percent_decode(key, true) == name.as_bytes());
    let Some((_, value)) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused(&format!("invalid graphql request, args[{name}] is duplicated")));
    }
    let value = uri::percent_decode(value.unwrap_or_default(), true);
    let text = String::from_utf8(value);
    text.map(Some).map_err(|_| refused(&format!("invalid graphql request, args[{name}] is not UTF-8")))
}

/// The body, once it was read.
pub(crate) fn body(request: &Request) -> &[u8] {
    match &request.body {
        RequestBody::Collected(body) => body,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request;

    fn of_json(body: &str) -> Result<(String, usize, Option<String>), String> {
        let read = Question::of_json(body.as_bytes());
        read.map(|question| (question.text, question.variables.len(), question.operation))
    }

    #[test]
    fn bodies() {
        let text = |text: &str| text.to_owned();
        let whole = r#"{"query": "{a}", "variables": {"a": 1, "b": 2}, "operationName": "A"}"#;
        assert_eq!(of_json(whole), Ok((text("{a}"), 2, Some(text("A")))));
        assert_eq!(
            of_json(r#"{"query": "{a}", "variables": "{\"a\": 1}", "operationName": ""}"#),
            Ok((text("{a}"), 1, None))
        );
        assert_eq!(
            of_json(r#"{"query": "{a}", "variables": [1], "operationName": 1}"#),
            Ok((text("{a}"), 0, None))
        );
        for body in ["{}", "[]", r#"[{"query": "{a}"}]"#, r#"{"query": 1}"#] {
            assert_eq!(of_json(body), Err(text("json body[query] is nil")), "{body}");
        }
        let comma = "{\n    \"query\": \"query{persons{id}}\",\n}";
        let expected = "Expected object key string but found T_OBJ_END at character 38";
        assert_eq!(of_json(comma), Err(text(expected)));
        assert!(of_json(r#"{"query": "{a}", "query": "{b}"}"#).is_err(), "two queries");
    }

    #[test]
    fn documents_beyond_what_is_read_are_refused_by_that_name() {
        for (text, why) in [
            ("{", "failed to parse graphql query"),
            ("", "empty graphql query"),
            (&format!("{{{}}}", "a ".repeat(60_000)), "the document has more than 50000 nodes"),
            (&"{a".repeat(200), "the document is nested more than 128 levels deep"),
        ] {
            let reply = document(text).expect_err("refused");
            let tidegate_plugin_api::reply::ReplyBody::Bytes(body) = reply.body else { panic!("no text") };
            let expected = format!("{{\"message\":\"Invalid graphql request: {why}\"}}\n");
            assert_eq!((reply.status, body), (400, expected.into()), "{why}");
        }
    }

    #[test]
    fn targets() {
        let of_get = |target: &str| {
            let request = test_request::request(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
            Question::of_get(&request)
                .map(|question| (question.text, question.operation))
                .map_err(|reply| reply.status)
        };
        assert_eq!(of_get("/?query=%7Ba%7D&operationName=A"), Ok(("{a}".to_owned(), Some("A".to_owned()))));
        for target in ["/", "/?test=1", "/?query=a&qu%65ry=b", "/?query=%ff"] {
            assert_eq!(of_get(target), Err(400), "{target}");
        }
    }
}
