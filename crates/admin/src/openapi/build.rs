//! Paths and operations.

use serde_json::{Map, Value, json};

use super::fragments::schema;

/// The default address of the Admin API.
pub(super) const ADMIN: &str = "http://127.0.0.1:9180";

/// Paths in the order in which they were added.
#[derive(Default)]
pub(super) struct Paths(Map<String, Value>);

/// What a path offers by one method.
pub(super) struct Operation(Map<String, Value>);

impl Paths {
    pub(super) fn add(&mut self, path: &str, method: &str, operation: Operation) {
        let item = self.0.entry(path).or_insert_with(|| json!({}));
        let Some(item) = item.as_object_mut() else { return };
        let parameters: Vec<Value> = names_in(path).map(of_path).collect();
        if !parameters.is_empty() && !item.contains_key("parameters") {
            item.insert("parameters".to_owned(), json!(parameters));
        }
        item.insert(method.to_owned(), Value::Object(operation.0));
    }

    /// Says that a path is at another address than the Admin API.
    pub(super) fn at(&mut self, path: &str, url: &str, description: &str) {
        if let Some(item) = self.0.get_mut(path).and_then(Value::as_object_mut) {
            item.insert("servers".to_owned(), json!([{"url": url, "description": description}]));
        }
    }

    pub(super) fn finish(self) -> Value {
        Value::Object(self.0)
    }
}

fn names_in(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn of_path(name: &str) -> Value {
    let words = |description: &str, schema: Value| json!({"name": name, "in": "path", "required": true, "description": description, "schema": schema});
    let id = || json!({"type": "string", "pattern": r"^[a-zA-Z0-9\-_.]+$", "minLength": 1, "maxLength": 64});
    match name {
        "revision" => words("A revision of the history", json!({"type": "integer", "minimum": 0})),
        "manager" => words("The secret manager", json!({"type": "string", "enum": ["vault", "aws", "gcp"]})),
        "registry" => words("The type of a service registry, as in `discovery` of config.yaml", id()),
        "part" => words(
            "The names that lead to the changed part, separated by `/`, as in `upstream/nodes`",
            json!({"type": "string", "minLength": 1}),
        ),
        "checkpoint" => words("The name of a checkpoint: not only digits", id()),
        "collection" => words(
            "The kind of the object",
            json!({"type": "string", "enum": ["routes", "stream_routes", "services", "upstreams"]}),
        ),
        "resource" => words("A collection of the Admin API, as in its paths", id()),
        "user" => words("The user's name", id()),
        "username" => words("The consumer's name", id()),
        "plugin" => words("The plugin's name", id()),
        _ => words("The object's id", id()),
    }
}

impl Operation {
    pub(super) fn new(id: &str, tag: &str, summary: &str) -> Operation {
        let fields = json!({"operationId": id, "tags": [tag], "summary": summary, "responses": {}});
        Operation(fields.as_object().cloned().unwrap_or_default())
    }

    /// Of the Admin API, with the answers that each of its operations may get.
    pub(super) fn admin(id: &str, tag: &str, summary: &str) -> Operation {
        Operation::new(id, tag, summary).refusals(&[
            (400, "BadRequest"),
            (401, "Unauthorized"),
            (403, "Forbidden"),
            (404, "NotFound"),
            (408, "Slow"),
            (503, "Unavailable"),
        ])
    }

    /// A write of the Admin API, which may wait for the workers.
    pub(super) fn write(id: &str, tag: &str, summary: &str) -> Operation {
        Operation::admin(id, tag, summary)
            .query("wait", "Answer only when every worker uses the change", json!({"enum": ["applied"]}))
            .query(
                "wait_timeout",
                "How long to wait for that, in seconds",
                json!({"type": "number", "exclusiveMinimum": 0, "maximum": 60, "default": 5}),
            )
            .refusals(&[(504, "Behind")])
    }

    /// Of an API without a key.
    pub(super) fn open(id: &str, tag: &str, summary: &str) -> Operation {
        Operation::new(id, tag, summary).without_key()
    }

    pub(super) fn without_key(mut self) -> Operation {
        self.0.insert("security".to_owned(), json!([]));
        self
    }

    pub(super) fn description(mut self, text: &str) -> Operation {
        self.0.insert("description".to_owned(), json!(text));
        self
    }

    pub(super) fn query(self, name: &str, description: &str, schema: Value) -> Operation {
        self.parameter(json!({"name": name, "in": "query", "description": description, "schema": schema}))
    }

    pub(super) fn header(self, name: &str, description: &str, required: bool, schema: Value) -> Operation {
        self.parameter(json!({
            "name": name, "in": "header", "description": description, "required": required, "schema": schema,
        }))
    }

    fn parameter(mut self, parameter: Value) -> Operation {
        let parameters = self.0.entry("parameters").or_insert_with(|| json!([]));
        if let Some(parameters) = parameters.as_array_mut() {
            parameters.push(parameter);
        }
        self
    }

    /// A JSON body of this schema.
    pub(super) fn body(self, schema: Value) -> Operation {
        self.bodies(json!({"application/json": {"schema": schema}}))
    }

    pub(super) fn bodies(mut self, content: Value) -> Operation {
        self.0.insert("requestBody".to_owned(), json!({"required": true, "content": content}));
        self
    }

    /// A JSON response of this schema.
    pub(super) fn json(self, status: u16, description: &str, schema: Value) -> Operation {
        self.response(
            status,
            json!({"description": description, "content": {"application/json": {"schema": schema}}}),
        )
    }

    /// A response to a write, with the revision that it led to and what to know of it.
    pub(super) fn written(self, status: u16, description: &str, schema: Value) -> Operation {
        let headers = json!({
            "X-Tidegate-Revision": {
                "description": "The revision of the configuration after the write",
                "schema": {"type": "string", "pattern": "^[0-9]+$"},
            },
            "X-Tidegate-Warning": {
                "description": "What of the object has no effect or cannot be used yet",
                "schema": {"type": "string"},
            },
        });
        self.response(
            status,
            json!({
                "description": description,
                "headers": headers,
                "content": {"application/json": {"schema": schema}},
            }),
        )
    }

    pub(super) fn empty(self, status: u16, description: &str) -> Operation {
        self.response(status, json!({"description": description}))
    }

    pub(super) fn text(self, status: u16, description: &str, kind: &str) -> Operation {
        let content = json!({kind: {"schema": {"type": "string"}}});
        self.response(status, json!({"description": description, "content": content}))
    }

    pub(super) fn response(mut self, status: u16, response: Value) -> Operation {
        if let Some(responses) = self.0.get_mut("responses").and_then(Value::as_object_mut) {
            responses.insert(status.to_string(), response);
        }
        self
    }

    /// Responses of the components.
    pub(super) fn refusals(mut self, refusals: &[(u16, &str)]) -> Operation {
        for (status, name) in refusals {
            self = self.response(*status, json!({"$ref": format!("#/components/responses/{name}")}));
        }
        self
    }
}

/// A list as the Control API shows it: without items it is an empty object.
pub(super) fn list_or_empty(item: &str) -> Value {
    json!({"oneOf": [
        {"type": "array", "items": schema(item), "minItems": 1},
        {"type": "object", "maxProperties": 0},
    ]})
}
