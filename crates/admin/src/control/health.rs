//! `/v1/healthcheck`: the state of checked nodes, as JSON or as a page.

use std::fmt::Write;

use quick_xml::escape::escape;
use serde_json::{Value, json};
use tidegate_model::{Kind, Object};

use super::{
    lists::list_response,
    parts::{ControlParts, NodeHealth},
    view,
};
use crate::message::{Head, Response};

const KINDS: [Kind; 4] = [Kind::Route, Kind::StreamRoute, Kind::Service, Kind::Upstream];

pub(super) fn all(parts: &ControlParts, request: &Head) -> Response {
    let mut objects = Vec::new();
    parts.store.read(&mut |state| {
        let all = KINDS.iter().flat_map(|kind| state.list(*kind));
        // To fill in the defaults of each takes a tenth of a millisecond.
        objects = all.filter(|object| object.document.may_have("checks")).cloned().collect();
    });
    let checkers = objects.iter().filter_map(|object| checker(parts, object));
    if wants_page(request) { page(&checkers.collect::<Vec<_>>()) } else { list_response(checkers) }
}

pub(super) fn one(parts: &ControlParts, request: &Head, path: &[&str]) -> Response {
    let source = path.first().copied().unwrap_or_default();
    let Some(id) = path.get(1).filter(|id| !id.is_empty()) else {
        return Response::error(404, &format!("missing src id for src type {source}"));
    };
    let Some(kind) = KINDS.into_iter().find(|kind| kind.directory() == source) else {
        return Response::error(400, &format!("invalid src type {source}"));
    };
    let Some(object) = parts.store.get(kind, id) else {
        return Response::error(404, &format!("{source}[{id}] not found"));
    };
    match checker(parts, &object) {
        None => Response::error(404, &format!("no checker for {source}[{id}]")),
        Some(checker) if wants_page(request) => page(&[checker]),
        Some(checker) => Response::json(200, &checker),
    }
}

fn checker(parts: &ControlParts, object: &Object) -> Option<Value> {
    let value = view::filled(parts, object);
    let checks = value.get("checks").or_else(|| value.pointer("/upstream/checks"))?;
    let kind = checks.pointer("/active/type").or_else(|| checks.pointer("/passive/type"));
    let nodes = parts.health.nodes(object.kind, &object.id);
    let nodes: Vec<Value> = nodes.iter().map(node).collect();
    let nodes = if nodes.is_empty() { json!({}) } else { Value::Array(nodes) };
    Some(json!({"name": view::key(parts, object), "type": kind, "nodes": nodes}))
}

fn node(node: &NodeHealth) -> Value {
    json!({
        "ip": node.ip,
        "port": node.port,
        "hostname": node.hostname,
        "status": node.status,
        "counter": {
            "success": node.successes,
            "tcp_failure": node.tcp_failures,
            "http_failure": node.http_failures,
            "timeout_failure": node.timeout_failures,
        },
    })
}

fn wants_page(request: &Head) -> bool {
    request.header("accept").is_some_and(|accept| accept.contains("text/html"))
}

fn page(checkers: &[Value]) -> Response {
    let mut rows = String::new();
    let mut index = 0;
    for checker in checkers {
        for node in checker.get("nodes").and_then(Value::as_array).into_iter().flatten() {
            index += 1;
            row(&mut rows, index, checker, node);
        }
    }
    let heads = [
        "Index",
        "Upstream",
        "Check type",
        "Host",
        "Status",
        "Success counts",
        "TCP Failures",
        "HTTP Failures",
        "TIMEOUT Failures",
    ];
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let title = "APISIX upstream check status";
    let html = format!(
        "<html xmlns=\"http://www.w3.org/1999/xhtml\">\n<head><title>{title}</title></head>\n<body>\n\
         <h1>{title}</h1>\n<table cellspacing=\"0\" cellpadding=\"3\" border=\"1\">\n<tr>{heads}</tr>\n{rows}\
         </table>\n</body>\n</html>\n"
    );
    Response::typed(200, "text/html", &html)
}

fn row(rows: &mut String, index: usize, checker: &Value, node: &Value) {
    let text = |value: Option<&Value>| {
        let text = value.map(tidegate_model::schema::lua::text).unwrap_or_default();
        escape(text).into_owned()
    };
    let healthy = matches!(node.get("status").and_then(Value::as_str), Some("healthy" | "mostly_healthy"));
    rows.push_str(if healthy { "<tr>" } else { "<tr bgcolor=\"#FF0000\">" });
    let counter = |name: &str| text(node.pointer(&format!("/counter/{name}")));
    let cells = [
        index.to_string(),
        text(checker.get("name")),
        text(checker.get("type")),
        format!("{}:{}", text(node.get("ip")), text(node.get("port"))),
        text(node.get("status")),
        counter("success"),
        counter("tcp_failure"),
        counter("http_failure"),
        counter("timeout_failure"),
    ];
    for cell in cells {
        // Writing to a string cannot fail.
        let _ = write!(rows, "<td>{cell}</td>");
    }
    rows.push_str("</tr>\n");
}
