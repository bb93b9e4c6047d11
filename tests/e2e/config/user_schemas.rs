//! Schemas that users write are checked when they are written, and what they say is checked in full.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

/// A broken schema, and where its fault is.
fn broken() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"required": "name"}), "#/required"),
        (json!({"properties": []}), "#/properties"),
        (json!({"type": "object", "properties": {"a": {"type": "strin"}}}), "#/properties/a/type"),
        (json!({"properties": {"a": {"type": ["string", 1]}}}), "#/properties/a/type"),
        (json!({"properties": {"a": "string"}}), "#/properties/a"),
        (json!({"properties": {"a": {"enum": "x"}}}), "#/properties/a/enum"),
        (json!({"properties": {"a": {"pattern": "("}}}), "#/properties/a/pattern"),
        (json!({"properties": {"a": {"pattern": 1}}}), "#/properties/a/pattern"),
        (json!({"properties": {"a": {"minLength": "3"}}}), "#/properties/a/minLength"),
        (json!({"properties": {"a": {"maxLength": 1.5}}}), "#/properties/a/maxLength"),
        (json!({"properties": {"a": {"minimum": "3"}}}), "#/properties/a/minimum"),
        (json!({"properties": {"a": {"exclusiveMinimum": true}}}), "#/properties/a/exclusiveMinimum"),
        (json!({"properties": {"a": {"items": ["string"]}}}), "#/properties/a/items/0"),
        (json!({"patternProperties": {"[": {}}}), "#/patternProperties/["),
        (json!({"additionalProperties": "false"}), "#/additionalProperties"),
        (json!({"allOf": {"required": ["a"]}}), "#/allOf"),
        (json!({"anyOf": []}), "#/anyOf"),
        (json!({"not": {"$ref": "#/definitions/none"}}), "#/not/$ref"),
        (json!({"$ref": "http://example.org/schema.json"}), "#/$ref"),
        (json!({"$ref": "#/x", "x": {"required": true}}), "#/x/required"),
        (json!({"$ref": "#/definitions/a", "required": ["b"], "definitions": {"a": {}}}), "#/required"),
        (json!({"dependencies": {"a": "b"}}), "#/dependencies/a"),
        (json!({"dependentRequired": {"a": ["b"]}}), "#/dependentRequired"),
        (json!({"then": {"required": ["a"]}}), "#/then"),
    ]
}

/// Each plugin that takes a schema: its field, and a configuration with this schema.
fn holders(schema: &Value) -> Vec<(&'static str, Value)> {
    let oidc = json!({"client_id": "c", "client_secret": "s", "discovery": "http://127.0.0.1:1/x", "bearer_only": true,
                      "claim_schema": schema});
    vec![
        ("body_schema", json!({"request-validation": {"body_schema": schema}})),
        ("header_schema", json!({"request-validation": {"header_schema": schema}})),
        ("claim_schema", json!({"openid-connect": oidc})),
        ("response_schema", json!({"mocking": {"response_schema": schema}})),
    ]
}

#[test]
fn broken_schemas_are_refused_with_the_place_of_the_fault() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |plugins: &Value| {
        let route = json!({"uri": "/x", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string())
    };
    let mut wrong = Vec::new();
    for (schema, place) in broken() {
        for (field, plugins) in holders(&schema) {
            let (status, body) = put(&plugins);
            let answer: Value = serde_json::from_str(&body).unwrap_or_default();
            let message = answer["error_msg"].as_str().unwrap_or_default();
            let named = message.contains(&format!("\"{field}\" at {place}: "));
            if status != 400 || !named {
                wrong.push(format!("{field} {schema}: {status} {body}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let sound = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "minLength": 1.0}}});
    for (field, plugins) in holders(&sound) {
        let (status, body) = put(&plugins);
        assert!(status < 300, "{field}: {body}");
    }
}

/// What cannot be had by the Admin API cannot be had by a file either.
#[test]
fn a_broken_schema_in_a_file_opens_nothing() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let broken = broken();
    let routes = broken.iter().enumerate().map(|(id, (schema, _))| {
        json!({"id": id.to_string(), "uri": format!("/{id}"), "upstream": node,
               "plugins": {"request-validation": {"body_schema": schema}}})
    });
    let sound = json!({"id": "sound", "uri": "/sound", "upstream": node,
                       "plugins": {"request-validation": {"body_schema": {"type": "object"}}}});
    let routes: Vec<Value> = routes.chain([sound]).collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    assert_eq!(post(&gateway, "/sound", "", r#"{"a": 1}"#), 200);
    assert_eq!(upstream.take().len(), 1);
    for (id, (schema, _)) in broken.iter().enumerate() {
        assert!(post(&gateway, &format!("/{id}"), "", r#"{"a": 1}"#) >= 400, "{schema}");
    }
    assert_eq!(upstream.take().len(), 0);
}

fn post(gateway: &Gateway, path: &str, headers: &str, body: &str) -> u16 {
    let length = body.len();
    let request =
        format!("POST {path} HTTP/1.1\r\nHost: h\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    gateway.client().request(&request).expect("an answer").status()
}

#[test]
fn what_a_schema_says_is_checked() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, conf: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": {"request-validation": conf}, "upstream": node});
    let body = |id: &str, schema: Value| route(id, json!({ "body_schema": schema }));
    let value = |rules: Value| json!({"properties": {"a": rules}});
    let routes = json!([
        body("enum", value(json!({"enum": ["low"]}))),
        body("draft4", value(json!({"minimum": 1, "exclusiveMinimum": true}))),
        body("names", json!({"propertyNames": {"pattern": "^[a-z]+$"}})),
        body("null", value(json!({"const": null}))),
        body("length", value(json!({"maxLength": 3.0}))),
        body("slow", value(json!({"not": {"pattern": "^(a+)\\1+(a+)\\2+(a+)\\3+(a+)\\4+b$"}}))),
        route(
            "header",
            json!({"header_schema": {"allOf": [{"properties": {"X-Level": {"enum": ["low"]}}}]}})
        ),
    ]);
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    for (path, sent, expected) in [
        ("/enum", r#"{"a": "low"}"#.to_owned(), 200),
        ("/enum", r#"{"a": "high"}"#.to_owned(), 400),
        // References to secrets are for configurations: a client's are texts.
        ("/enum", r#"{"a": "$env://HOME"}"#.to_owned(), 400),
        ("/enum", r#"{"a": "$secret://vault/1/a"}"#.to_owned(), 400),
        ("/draft4", r#"{"a": 2}"#.to_owned(), 200),
        ("/draft4", r#"{"a": 1}"#.to_owned(), 400),
        ("/names", r#"{"b": 1}"#.to_owned(), 200),
        ("/names", r#"{"B": 1}"#.to_owned(), 400),
        ("/null", r#"{"a": null}"#.to_owned(), 200),
        ("/null", r#"{"a": 1}"#.to_owned(), 400),
        ("/length", r#"{"a": "abc"}"#.to_owned(), 200),
        ("/length", r#"{"a": "abcd"}"#.to_owned(), 400),
        ("/slow", r#"{"a": "aac"}"#.to_owned(), 200),
        // A search that is given up proves nothing.
        ("/slow", format!(r#"{{"a": "{}c"}}"#, "a".repeat(300)), 400),
    ] {
        assert_eq!(post(&gateway, path, "", &sent), expected, "{path} {sent}");
    }
    assert_eq!(post(&gateway, "/header", "X-Level: low\r\n", "{}"), 200);
    assert_eq!(post(&gateway, "/header", "X-Level: high\r\n", "{}"), 400);
}
