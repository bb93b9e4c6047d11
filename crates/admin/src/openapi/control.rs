//! The Control API, the status of the process, and the metrics.

use serde_json::{Value, json};

use super::{
    build::{Operation, Paths, list_or_empty},
    fragments::{object, schema},
};

const CONTROL: (&str, &str) = ("http://127.0.0.1:9090", "Control API (apisix.control)");
const STATUS: (&str, &str) = ("http://127.0.0.1:7085", "Status (apisix.status)");
const METRICS: (&str, &str) = ("http://127.0.0.1:9091", "Metrics (plugin_attr.prometheus.export_addr)");

fn read(id: &str, summary: &str) -> Operation {
    Operation::open(id, "Control", summary).refusals(&[(403, "Forbidden"), (503, "Unavailable")])
}

fn add_control(paths: &mut Paths, path: &str, method: &str, operation: Operation) {
    paths.add(path, method, operation);
    paths.at(path, CONTROL.0, CONTROL.1);
}

pub(super) fn add(paths: &mut Paths) {
    let any = || json!({"type": "object"});
    let schemas = read("controlSchema", "The schemas of resources and plugins").json(200, "Schemas", any());
    add_control(paths, "/v1/schema", "get", schemas);
    add_objects(paths);
    add_health(paths);
    add_inspection(paths);
    let rejected = json!({"type": "object", "required": ["total", "list"], "properties": {
        "total": {"type": "integer"},
        "list": {"type": "array", "items": object(&text_fields(&["kind", "id", "reason", "effect"]))},
    }});
    let operation = read("listRejected", "Objects that cannot be used, and what becomes of their requests");
    add_control(paths, "/v1/rejected", "get", operation.json(200, "The objects", rejected));
    let store = json!({"type": "object", "required": ["state", "revision"], "properties": {
        "state": {"enum": ["good", "last_good"]}, "revision": {"type": "integer"}, "remedy": {"type": "string"},
    }});
    let operation = read("getStore", "Whether the store, or the last good copy of it, is served");
    add_control(paths, "/v1/store", "get", operation.json(200, "The state", store));
    let operation = read("collectGarbage", "Give memory back").empty(200, "Done");
    add_control(paths, "/v1/gc", "post", operation);
    let operation = read("controlReloadPlugins", "Read the list of plugins in config.yaml again");
    add_control(paths, "/v1/plugins/reload", "put", operation.text(200, "done", "text/plain"));
    let missing = |id: &str, summary: &str| read(id, summary).refusals(&[(404, "NotFound")]);
    let operation = missing("dumpDiscovery", "The services and nodes that a registry named");
    add_control(paths, "/v1/discovery/{registry}/dump", "get", operation.json(200, "Services", any()));
    let operation = missing("showDumpFile", "The file to which the nodes of Consul are written");
    let operation = operation.text(200, "The file", "text/plain");
    add_control(paths, "/v1/discovery/{registry}/show_dump_file", "get", operation);
    add_status(paths);
}

fn text_fields<'a>(names: &[&'a str]) -> Vec<(&'a str, Value)> {
    names.iter().map(|name| (*name, json!({"type": "string"}))).collect()
}

fn add_objects(paths: &mut Paths) {
    for (list, one, name) in [
        ("/v1/routes", "/v1/route/{id}", "Route"),
        ("/v1/services", "/v1/service/{id}", "Service"),
        ("/v1/upstreams", "/v1/upstream/{id}", "Upstream"),
    ] {
        let entry = format!("{name}Entry");
        let operation =
            read(&format!("controlList{name}s"), &format!("Each {name} with its defaults filled in"));
        add_control(paths, list, "get", operation.json(200, "The objects", list_or_empty(&entry)));
        let operation =
            read(&format!("controlGet{name}"), &format!("One {name} with its defaults filled in"));
        let operation = operation.refusals(&[(404, "NotFound")]).json(200, "The object", schema(&entry));
        add_control(paths, one, "get", operation);
    }
    let operation = read("controlListMetadata", "The metadata of plugins");
    let list = list_or_empty("PluginMetadataStored");
    add_control(paths, "/v1/plugin_metadatas", "get", operation.json(200, "Metadata", list));
    let operation = read("controlGetMetadata", "The metadata of one plugin").refusals(&[(404, "NotFound")]);
    let operation = operation.json(200, "Metadata", json!({"type": "object"}));
    add_control(paths, "/v1/plugin_metadata/{plugin}", "get", operation);
}

/// What one check has found out.
fn checker() -> Value {
    let count = || json!({"type": "integer"});
    let counter = object(&[
        ("success", count()),
        ("tcp_failure", count()),
        ("http_failure", count()),
        ("timeout_failure", count()),
    ]);
    let status = json!({"enum": ["healthy", "mostly_healthy", "mostly_unhealthy", "unhealthy"]});
    let node = object(&[
        ("ip", json!({"type": "string"})),
        ("port", count()),
        ("hostname", json!({"type": "string"})),
        ("status", status),
        ("counter", counter),
    ]);
    let nodes = json!({"oneOf": [
        {"type": "array", "items": node, "minItems": 1},
        {"type": "object", "maxProperties": 0},
    ]});
    json!({"type": "object", "required": ["name", "nodes"], "properties": {
        "name": {"type": "string"}, "type": {"type": ["string", "null"]}, "nodes": nodes,
    }})
}

/// The checks of all objects.
pub(super) fn checkers() -> Value {
    json!({"oneOf": [
        {"type": "array", "items": checker(), "minItems": 1},
        {"type": "object", "maxProperties": 0},
    ]})
}

fn add_health(paths: &mut Paths) {
    let shown = |schema: Value| {
        json!({"description": "As JSON, or with Accept: text/html as a page", "content": {
            "application/json": {"schema": schema}, "text/html": {"schema": {"type": "string"}},
        }})
    };
    let operation = read("listHealth", "The health of every checked node").response(200, shown(checkers()));
    add_control(paths, "/v1/healthcheck", "get", operation);
    let operation = read("getHealth", "The health of the nodes of one object")
        .refusals(&[(400, "BadRequest"), (404, "NotFound")])
        .response(200, shown(checker()));
    add_control(paths, "/v1/healthcheck/{collection}/{id}", "get", operation);
}

fn add_inspection(paths: &mut Paths) {
    let bytes = json!({"description": "The profile", "content": {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "text/plain": {"schema": {"type": "string"}},
    }});
    let seconds = json!({"type": "integer", "minimum": 1, "maximum": 60, "default": 10});
    let form = json!({"enum": ["pprof", "folded"], "default": "pprof"});
    let operation = read("getProfile", "Where the process spends its CPU time (apisix.control.profiling)")
        .query("seconds", "How long it is sampled", seconds)
        .query("format", "Compressed protobuf of pprof, or a line for each stack", form)
        .refusals(&[(400, "BadRequest"), (409, "Conflict")])
        .response(200, bytes);
    add_control(paths, "/v1/profile", "get", operation);
    let operation = read("getHeap", "What the allocator knows of its memory (apisix.control.profiling)");
    let figures = json!({"type": "object", "required": ["allocator"]});
    add_control(paths, "/v1/heap", "get", operation.json(200, "The figures", figures));
}

fn add_status(paths: &mut Paths) {
    let open = |id: &str, summary: &str| Operation::open(id, "Status", summary);
    let fine = || object(&[("status", json!({"const": "ok"}))]);
    let fault = object(&[("status", json!({"const": "error"})), ("error", json!({"type": "string"}))]);
    let status = open("getStatus", "Whether the process runs").json(200, "It runs", fine());
    let ready = open("getReadiness", "Whether the workers serve with a configuration")
        .json(200, "They do", fine())
        .json(503, "They do not", fault);
    for (path, operation) in [("/status", status), ("/status/ready", ready)] {
        paths.add(path, "get", operation);
        paths.at(path, STATUS.0, STATUS.1);
    }
    let page = json!({"description": "The metrics", "content": {
        "text/plain": {"schema": {"type": "string"}},
        "application/openmetrics-text": {"schema": {"type": "string"}},
    }});
    for (path, id) in [("/metrics", "getMetrics"), ("/apisix/prometheus/metrics", "getMetricsAsApisix")] {
        let operation = open(id, "The metrics of the gateway, in the format that Accept names");
        paths.add(path, "get", operation.response(200, page.clone()));
        paths.at(path, METRICS.0, METRICS.1);
    }
}
