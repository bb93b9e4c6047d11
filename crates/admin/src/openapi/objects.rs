//! The operations on objects: one set for each kind, less what the kind refuses.

use serde_json::json;
use tidegate_model::Kind;

use super::{
    build::{Operation, Paths},
    fragments::schema,
    resources::{RESOURCES, Resource},
};
use crate::resource::target::Target;

pub(super) fn add(paths: &mut Paths) {
    for resource in &RESOURCES {
        let own = Target { kind: resource.kind, owner: None, id: None, sub_path: String::new() };
        let collection = format!("/apisix/admin{}", resource.path);
        // Secrets are listed whatever manager they are in.
        let listed = collection.trim_end_matches("/{manager}").to_owned();
        paths.add(&listed, "get", list(resource));
        if !own.refuses("POST") {
            paths.add(&collection, "post", create(resource));
        }
        if !matches!(resource.kind, Kind::Secret | Kind::PluginMetadata) {
            paths.add(&collection, "put", put_by_body(resource));
        }
        let one = format!("{collection}/{{{}}}", resource.id);
        paths.add(&one, "get", get(resource));
        paths.add(&one, "put", put(resource));
        paths.add(&one, "delete", delete(resource));
        if !own.refuses("PATCH") {
            paths.add(&one, "patch", patch(resource));
            paths.add(&format!("{one}/{{part}}"), "patch", patch_part(resource));
        }
    }
}

fn read(resource: &Resource, verb: &str, summary: &str) -> Operation {
    Operation::admin(&format!("{verb}{}", resource.name), "Resources", summary)
}

/// What writes one object.
fn of_object(id: &str, summary: &str) -> Operation {
    Operation::write(id, "Resources", summary).refusals(&[(409, "Conflict")])
}

fn write(resource: &Resource, verb: &str, summary: &str) -> Operation {
    of_object(&format!("{verb}{}", resource.name), summary)
}

fn with_ttl(operation: Operation) -> Operation {
    let seconds = json!({"type": "number", "exclusiveMinimum": 0});
    operation.query("ttl", "Delete the object again after so many seconds", seconds)
}

fn shown(resource: &Resource, form: &str) -> serde_json::Value {
    schema(&format!("{}{form}", resource.name))
}

fn list(resource: &Resource) -> Operation {
    let pattern = json!({"type": "string"});
    let summary = format!("List {}", resource.plural);
    let mut operation = Operation::admin(&format!("list{}", resource.plural), "Resources", &summary)
        .query(
            "page",
            "The page, from 1; takes effect with page_size",
            json!({"type": "integer", "minimum": 1}),
        )
        .query("page_size", "Objects on a page", json!({"type": "integer", "minimum": 10, "maximum": 500}))
        .query("search", "A text that the ID or the name contains, in any letter case", pattern.clone())
        .query("name", "A regular expression that the name matches", pattern.clone())
        .query("label", "The name of a label that the object has", pattern.clone())
        .query(
            "uri",
            "A regular expression that a path of the object matches; routes have paths",
            pattern.clone(),
        );
    if matches!(resource.kind, Kind::Route | Kind::StreamRoute) {
        let about = "service_id=ID or upstream_id=ID, encoded as a value of a query";
        operation = operation.query("filter", about, pattern);
    }
    operation.json(200, "The objects", shown(resource, "List"))
}

fn get(resource: &Resource) -> Operation {
    read(resource, "get", &format!("Get one of the {}", resource.plural)).json(
        200,
        "The object",
        shown(resource, "Entry"),
    )
}

fn create(resource: &Resource) -> Operation {
    with_ttl(write(resource, "create", "Create an object with a new id")).body(shown(resource, "")).written(
        201,
        "Created",
        shown(resource, "Written"),
    )
}

fn put(resource: &Resource) -> Operation {
    with_ttl(write(resource, "put", "Create or replace an object"))
        .body(shown(resource, ""))
        .written(200, "Replaced", shown(resource, "Written"))
        .written(201, "Created", shown(resource, "Written"))
}

/// Consumers are named by their field `username`, others by `id`.
fn put_by_body(resource: &Resource) -> Operation {
    let summary = match resource.kind {
        Kind::Consumer => "Create or replace the consumer that `username` names",
        _ => "Create or replace the object that the field `id` of the body names",
    };
    let id = format!("put{}ByBody", resource.name);
    with_ttl(of_object(&id, summary))
        .body(shown(resource, ""))
        .written(200, "Replaced", shown(resource, "Written"))
        .written(201, "Created", shown(resource, "Written"))
}

fn patch(resource: &Resource) -> Operation {
    with_ttl(write(resource, "patch", "Merge fields into an object"))
        .description("Lists are replaced, objects are merged, and null removes a field.")
        .body(json!({"type": "object"}))
        .written(200, "Changed", shown(resource, "Written"))
}

fn patch_part(resource: &Resource) -> Operation {
    let id = format!("patchPartOf{}", resource.name);
    with_ttl(of_object(&id, "Replace one part of an object"))
        .description(
            "The path goes on behind the id with the names that lead to the part; the body is its new value.",
        )
        .body(json!({}))
        .written(200, "Changed", shown(resource, "Written"))
}

fn delete(resource: &Resource) -> Operation {
    let force = "Delete the object although others refer to it";
    write(resource, "delete", "Delete an object")
        .query("force", force, json!({"enum": ["true", "false"]}))
        .written(200, "Deleted", schema("Deleted"))
}
