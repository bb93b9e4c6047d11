//! The configuration as a whole.

use serde_json::{Value, json};

use super::{
    build::{Operation, Paths},
    fragments::{object, schema},
};

const TAG: &str = "Configuration";

fn read(id: &str, summary: &str) -> Operation {
    Operation::admin(id, TAG, summary)
}

/// A change of many objects, which its client may have only tried.
fn write(id: &str, summary: &str) -> Operation {
    Operation::write(id, TAG, summary)
        .header(
            "If-Match",
            "Refuse the change unless the configuration is at this revision",
            false,
            json!({"type": "string", "pattern": r#"^(\*|"?[0-9]+"?)$"#}),
        )
        .refusals(&[(409, "Conflict"), (412, "Elsewhere"), (501, "NotImplemented")])
        .written(200, "Written, or with dry_run what would be", schema("Changed"))
}

fn of_history(operation: Operation) -> Operation {
    operation.refusals(&[(410, "Gone"), (501, "NotImplemented")])
}

fn paged(operation: Operation) -> Operation {
    let number = |most: Value| json!({"type": "integer", "minimum": 1, "maximum": most});
    operation.query("page", "The page, from 1", json!({"type": "integer", "minimum": 1})).query(
        "page_size",
        "Entries on a page (20)",
        number(json!(500)),
    )
}

fn list_of(name: &str) -> Value {
    let list = json!({"type": "array", "items": schema(name)});
    json!({"type": "object", "required": ["list", "total"], "properties": {
        "list": list, "total": {"type": "integer"}, "oldest": {"type": ["integer", "null"]},
    }})
}

pub(super) fn add(paths: &mut Paths) {
    add_writes(paths);
    add_history(paths);
    let yaml = json!({
        "description": "The configuration in the form of apisix.yaml, secrets in plain",
        "content": {"application/yaml": {"schema": schema("Configuration")}},
    });
    let export = read("export", "Export the whole configuration; needs a key of role admin")
        .refusals(&[(409, "Conflict"), (500, "Failed")])
        .response(200, yaml);
    paths.add("/apisix/admin/export", "get", export);
}

fn add_writes(paths: &mut Paths) {
    let change = json!({"type": "object", "required": ["method", "path"], "additionalProperties": false, "properties": {
        "method": {"enum": ["PUT", "PATCH", "DELETE"]},
        "path": {"type": "string", "description": "As below /apisix/admin, such as /routes/1"},
        "value": {"description": "The body; not with DELETE"},
    }});
    let changes = json!({"type": "object", "required": ["changes"], "additionalProperties": false, "properties": {
        "changes": {"type": "array", "items": change, "minItems": 1, "maxItems": 10000},
        "dry_run": {"type": "boolean", "default": false},
    }});
    let transaction = write("runTransaction", "Make several changes as one, or none of them").body(changes);
    paths.add("/apisix/admin/transactions", "post", transaction);
    let import = write("import", "Import a configuration in the form of apisix.yaml, all of it or nothing")
        .description("YAML ends with the line `#END`, so that half of a file is not taken for the whole.")
        .query(
            "mode",
            "What becomes of objects that the body does not have",
            json!({"enum": ["merge", "replace"]}),
        )
        .query(
            "source",
            "Whose file the body was converted from: what was changed since its last import is not overwritten unasked",
            json!({"type": "string", "pattern": "^[a-z0-9-]{1,32}$"}),
        )
        .query(
            "earlier",
            "With source: what becomes of objects that were changed since, and of those of the last import that the body does \
             not have",
            json!({"enum": ["refuse", "replace", "keep"]}),
        )
        .query("dry_run", "Say what would change; write nothing", json!({"enum": ["true", "false"]}))
        .bodies(json!({
            "application/yaml": {"schema": schema("Configuration")},
            "application/json": {"schema": schema("Configuration")},
        }));
    paths.add("/apisix/admin/import", "put", import);
    let point = json!({"type": "object", "additionalProperties": false,
        "oneOf": [{"required": ["revision"]}, {"required": ["checkpoint"]}],
        "properties": {
            "revision": {"type": "integer", "minimum": 0},
            "checkpoint": {"type": "string"},
            "key": {"type": "string", "description": "Only this object, such as /routes/1, with what comes and goes with it"},
            "dry_run": {"type": "boolean", "default": false},
        },
    });
    let rollback = of_history(write(
        "rollback",
        "Bring the configuration, or one object of it, back to a revision or checkpoint",
    ))
    .body(point);
    paths.add("/apisix/admin/rollback", "post", rollback);
}

fn add_history(paths: &mut Paths) {
    let history = paged(of_history(read("listHistory", "What was changed, by whom, newest first")))
        .query("since", "Only changes after this revision", json!({"type": "integer", "minimum": 0}))
        .query("key", "Only changes of this object, such as /routes/1", json!({"type": "string"}));
    let history = history.json(200, "The changes", list_of("HistoryEntry"));
    paths.add("/apisix/admin/history", "get", history);
    let one = paged(of_history(read("getHistory", "One change with the differences that it made")));
    let one = one.json(200, "The change", schema("HistoryEntry"));
    paths.add("/apisix/admin/history/{revision}", "get", one);
    let list = of_history(read("listCheckpoints", "The revisions that have a name"));
    paths.add("/apisix/admin/checkpoints", "get", list.json(200, "The checkpoints", list_of("Checkpoint")));
    let put = of_history(Operation::write("putCheckpoint", TAG, "Give the current revision a name"))
        .written(200, "Moved to the current revision", schema("Checkpoint"))
        .written(201, "Made", schema("Checkpoint"));
    paths.add("/apisix/admin/checkpoints/{checkpoint}", "put", put);
    let gone = object(&[("deleted", json!({"const": "1"})), ("name", json!({"type": "string"}))]);
    let delete = of_history(Operation::write("deleteCheckpoint", TAG, "Delete a checkpoint"));
    paths.add("/apisix/admin/checkpoints/{checkpoint}", "delete", delete.json(200, "Deleted", gone));
}

/// What is offered whether objects are written one by one or all at once.
pub(super) fn add_shared(paths: &mut Paths) {
    let revision =
        read("getRevision", "How far the newest write has got: stored, compiled, used by each worker");
    paths.add("/apisix/admin/revision", "get", revision.json(200, "Revisions", schema("Revision")));
    add_views(paths);
    let question = json!({"type": "object", "required": ["url"], "additionalProperties": false, "properties": {
        "url": {"type": "string", "description": "http://HOST/PATH?QUERY, or a path"},
        "method": {"type": "string", "default": "GET"},
        "headers": {"type": "object", "additionalProperties": {"type": ["string", "array"]}},
        "body": {"type": "string"},
        "client_ip": {"type": "string"},
        "consumer": {"type": "string", "description": "Whom authentication is taken to find"},
    }});
    let explain = read(
        "explain",
        "Which route a request would match, why the others do not, and what would become of it",
    )
    .body(question)
    .json(200, "The explanation", explanation());
    paths.add("/apisix/admin/explain", "post", explain);
    let validate = read("validateConfiguration", "Check a whole configuration; nothing is written")
        .bodies(configurations())
        .json(200, "It is valid", json!({"type": "object"}));
    paths.add("/apisix/admin/configs/validate", "post", validate);
    let own = read("getOpenapi", "This document, with the plugins that are enabled");
    paths.add("/apisix/admin/openapi.json", "get", own.json(200, "OpenAPI 3.1", json!({"type": "object"})));
}

/// What a client finds out about the process before it changes anything.
fn add_views(paths: &mut Paths) {
    let text = || json!({"type": "string"});
    let mode = json!({"type": "object", "required": ["provider", "writable", "history", "version", "node"], "properties": {
        "provider": {"enum": ["embedded", "etcd", "yaml", "api"]},
        "writable": {"type": "boolean"},
        "why": {"type": ["string", "null"], "description": "Why objects cannot be written one by one"},
        "history": {"type": "boolean"},
        "version": text(),
        "node": {"type": "string", "description": "The name of the machine"},
    }});
    let operation = read("getMode", "Where the configuration is from, and whether it can be written");
    paths.add("/apisix/admin/mode", "get", operation.json(200, "The mode", mode));
    let names = ["kind", "id", "reason", "effect"];
    let rejected = json!({"type": "object", "required": ["total", "list"], "properties": {
        "total": {"type": "integer"},
        "list": {"type": "array", "items": object(&names.map(|name| (name, text())))},
    }});
    let operation = read("listRejectedObjects", "Objects that cannot be used, as in the Control API");
    paths.add("/apisix/admin/rejected", "get", operation.json(200, "The objects", rejected));
    let operation = read("listChecked", "Health of checked nodes, as in the Control API");
    paths.add(
        "/apisix/admin/healthcheck",
        "get",
        operation.json(200, "The checks", super::control::checkers()),
    );
}

fn configurations() -> Value {
    json!({
        "application/json": {"schema": schema("Configuration")},
        "application/yaml": {"schema": schema("Configuration")},
    })
}

/// `/configs` of API-driven standalone mode.
pub(super) fn add_configurations(paths: &mut Paths) {
    let digest = json!({"type": "string"});
    let shown = json!({"description": "The configuration with its versions and digest", "content": {
        "application/json": {"schema": schema("Configuration")},
        "application/yaml": {"schema": schema("Configuration")},
    }});
    let path = "/apisix/admin/configs";
    let get = read("getConfiguration", "The configuration that was put last; needs a key of role admin");
    paths.add(path, "get", get.refusals(&[(500, "Failed")]).response(200, shown));
    let head = read("headConfiguration", "The digest and the time of the configuration that was put last");
    paths.add(path, "head", head.empty(200, "In X-Digest and X-Last-Modified"));
    let put = Operation::write("putConfiguration", TAG, "Replace the whole configuration")
        .header("X-Digest", "A value that differs between configurations", true, digest)
        .bodies(configurations())
        .refusals(&[(500, "Failed")])
        .empty(202, "Accepted")
        .empty(204, "A configuration of this digest is there already");
    paths.add(path, "put", put);
}

/// The answer of `POST /apisix/admin/explain`, as far as programs decide by it.
fn explanation() -> Value {
    let text = || json!({"type": "string"});
    let or_null = |kind: &str| json!({"type": [kind, "null"]});
    let cause = object(&[("code", text()), ("values", json!({"type": "object"}))]);
    let answer = object(&[
        ("plugin", or_null("string")),
        ("phase", or_null("string")),
        ("from", or_null("string")),
        ("status", or_null("integer")),
        ("reason", text()),
        ("cause", cause),
    ]);
    let upstream = object(&[
        ("upstream", text()),
        ("weight", json!({"type": "integer"})),
        ("percent", json!({"type": "number"})),
        ("node", or_null("string")),
        ("nodes", json!({"type": "array", "items": text()})),
        ("more_nodes", json!({"type": "boolean"})),
    ]);
    let mut maybe_answer = answer.clone();
    maybe_answer["type"] = json!(["object", "null"]);
    let result = object(&[
        ("outcome", json!({"enum": ["upstream", "answered", "may_be_answered"]})),
        ("summary", text()),
        ("answer", maybe_answer),
        ("may_answer", json!({"type": "array", "items": answer})),
        ("status_changed_by", json!({"type": "array", "items": text()})),
        ("upstreams", json!({"type": "array", "items": upstream})),
    ]);
    json!({"type": "object", "required": ["result"], "properties": {"result": result}})
}
