//! Lets clients ask a GraphQL service in plain HTTP: the query is the route's, its variables come from the request.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, RequestBody, SchemaKind, Step,
    Verdict, aside, document::Allowance, graphql::Document, memory,
};
use tidegate_protocol::{HeaderId, Method, uri::encode_component};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{conf::typed, form, json};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "degraphql",
    version: 0.1,
    priority: 509,
    // Without it a client could send any query.
    guards: true,
    schema: include_str!("degraphql.json"),
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Degraphql {
    query: String,
    variables: Option<Vec<String>>,
    operation_name: Option<String>,
    max_req_body_size: usize,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Plugin {
        return Ok(());
    }
    let conf: Degraphql = typed(conf)?;
    let document = Document::parse(&conf.query).map_err(|fault| format!("failed to parse query: {fault}"))?;
    if document.operations.len() > 1 && conf.operation_name.is_none() {
        return Err("operation_name is required if multiple operations are present in the query".to_owned());
    }
    Ok(())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<Degraphql>(conf)?))
}

impl Plugin for Degraphql {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match request.head.method {
            Method::Get => self.ask_by_target(request).into(),
            Method::Post => Step::wait(self.ask_by_body(request)),
            _ => Step::reply(Reply::page(405)),
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Degraphql {
    fn ask_by_target(&self, request: &mut Request) -> Verdict {
        let mut pairs = Vec::new();
        if let Some(name) = &self.operation_name {
            pairs.push(("operationName", name.clone()));
        }
        pairs.push(("query", self.query.clone()));
        if let Some(names) = &self.variables {
            let query = request.head.query().unwrap_or_default();
            let allowance = Allowance::of_a_body(Some(request.remote_addr));
            let arguments = form::decode(query, &allowance).map_err(|error| Reply::page(error.status()))?;
            pairs.push(("variables", Value::Object(chosen(names, &arguments)).to_string()));
        }
        let mut query = Vec::new();
        for (name, value) in pairs {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(name.as_bytes());
            query.push(b'=');
            encode_component(value.as_bytes(), &mut query);
        }
        request.set_query(&query);
        Ok(())
    }

    async fn ask_by_body(&self, request: &mut Request) -> Verdict {
        let body = self.body(request).await?;
        let mut question = Map::new();
        if let Some(name) = &self.operation_name {
            question.insert("operationName".to_owned(), name.as_str().into());
        }
        question.insert("query".to_owned(), self.query.as_str().into());
        if let Some(names) = &self.variables {
            question.insert("variables".to_owned(), chosen_of_body(names, body, request).await?.into());
        }
        let question = Value::Object(question).to_string().into_bytes();
        let question =
            memory::hold(question, request.remote_addr).map_err(|memory::Spent| Reply::page(503))?;
        request.body = RequestBody::Collected(question);
        let headers = &mut request.head.headers;
        headers.set("Content-Type", "application/json");
        headers.remove_known(HeaderId::ContentEncoding);
        Ok(())
    }

    /// What was sent. It is read even where no variable is taken from it, because the question takes its place.
    async fn body(&self, request: &mut Request) -> Result<Bytes, Box<Reply>> {
        let body = request.collect_body(self.max_req_body_size).await;
        body.map_err(|reply| if reply.status == 413 { Box::new(Reply::page(503)) } else { reply })
    }
}

async fn chosen_of_body(
    names: &[String],
    body: Bytes,
    request: &Request,
) -> Result<Map<String, Value>, Box<Reply>> {
    if body.is_empty() {
        return Err(refused("missing request body"));
    }
    if request.has_coded_body() {
        return Err(refused("invalid request body can't be decoded: it is compressed, or not in UTF-8"));
    }
    let (client, names) = (request.remote_addr, names.to_vec());
    let read = move || {
        let document = json::decode(&body, &Allowance::of_a_body(Some(client)))?;
        if !document.is_object() {
            return Err(json::Undecoded::Invalid("bad type".to_owned()));
        }
        let found = chosen(&names, &document);
        aside::release(document);
        Ok(found)
    };
    match aside::run_by_size(request.remote_addr, read_bytes(request), read).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(json::Undecoded::Invalid(reason))) => {
            Err(refused(&format!("invalid request body can't be decoded: {reason}")))
        }
        Ok(Err(error)) => Err(Box::new(Reply::page(error.status()))),
        Err(aside::Undone) => Err(Box::new(Reply::page(503))),
    }
}

fn read_bytes(request: &Request) -> usize {
    match &request.body {
        RequestBody::Collected(body) => body.len(),
        _ => 0,
    }
}

/// The values of the variables that are there, by name as APISIX writes them. Others stay away: the query may have a default.
fn chosen(names: &[String], values: &Value) -> Map<String, Value> {
    let names: BTreeSet<&String> = names.iter().collect();
    names.into_iter().filter_map(|name| Some((name.clone(), values.get(name)?.clone()))).collect()
}

fn refused(reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("degraphql: {reason}"));
    Box::new(Reply::page(400))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(conf: Value) -> String {
        let mut whole = json!({"max_req_body_size": 1});
        whole.as_object_mut().expect("an object").extend(conf.as_object().expect("an object").clone());
        check(&whole, SchemaKind::Plugin).err().unwrap_or_default()
    }

    #[test]
    fn queries_are_read_when_they_are_written() {
        let two = "query A { a } query B { b }";
        let several = "operation_name is required if multiple operations are present in the query";
        assert_eq!(checked(json!({"query": "uery {}"})), "failed to parse query: Syntax error near line 1");
        assert_eq!(checked(json!({"query": two})), several);
        assert_eq!(checked(json!({"query": two, "operation_name": "A"})), "");
        assert_eq!(checked(json!({"query": "{ ...F } fragment F on T { a }"})), "");
    }

    #[test]
    fn variables_that_are_there() {
        let names = ["b".to_owned(), "a".to_owned()];
        assert_eq!(Value::Object(chosen(&names, &json!({"a": [1], "c": 2}))), json!({"a": [1]}));
        assert!(chosen(&names, &json!([1])).is_empty());
    }
}
