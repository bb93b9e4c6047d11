//! oas-validator: what of a request fits an OpenAPI document, and documents from elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream, eventually};

fn gateway(upstream: &Upstream, conf: &Value, metadata: &Value) -> Gateway {
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let objects = json!({
        "routes": [{"id": "1", "uri": "/*", "plugins": {"oas-validator": conf}, "upstream": node}],
        "plugin_metadata": [metadata],
    });
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

fn plain(upstream: &Upstream, conf: &Value) -> Gateway {
    gateway(upstream, conf, &json!({"id": "oas-validator", "spec_url_ttl": 3600}))
}

fn send(gateway: &Gateway, line: &str, fields: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let text = format!("{line} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    let answer = gateway.client().request(&text).unwrap_or_else(|error| panic!("{line}: {error}"));
    (answer.status(), answer.body_text())
}

fn document(version: &str) -> Value {
    let parameter = |place: &str, name: &str, more: Value| {
        let mut parameter = json!({"in": place, "name": name});
        parameter.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        parameter
    };
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let content = |kind: &str| json!({"required": true, "content": {kind: {"schema": {"$ref": "#/components/schemas/Pet"}}}});
    json!({
        "openapi": version,
        "servers": [{"url": "https://api.test/v1/"}],
        "paths": {
            "/pets": {
                "post": {"requestBody": {"$ref": "#/components/requestBodies/Pet"}},
                "get": {"parameters": [
                    parameter("query", "status", json!({"required": true, "schema": {"enum": ["sold", "pending"]}})),
                    parameter("query", "ids", json!({"schema": list})),
                    parameter("query", "some", json!({"explode": false, "schema": list})),
                    parameter("query", "filter", json!({"style": "deepObject", "schema": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}})),
                    parameter("query", "doc", json!({"content": {"application/json": {"schema": {"type": "object"}}}})),
                    parameter("header", "X-Count", json!({"schema": {"type": "integer", "minimum": 1}})),
                    parameter("cookie", "session", json!({"schema": {"minLength": 3}})),
                ]},
            },
            "/pets/{id}": {
                "parameters": [parameter("path", "id", json!({"required": true, "schema": {"type": "integer"}}))],
                "get": {},
                "put": {"requestBody": content("application/x-www-form-urlencoded")},
                "patch": {"requestBody": {"content": {"text/plain": {"schema": {"maxLength": 3}}, "image/*": {}}}},
            },
            "/pets/find": {"get": {}},
        },
        "components": {
            "requestBodies": {"Pet": content("application/json")},
            "schemas": {"Pet": {
                "type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
            }},
        },
    })
}

const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn what_fits() {
    let upstream = Upstream::start();
    for version in ["3.0.3", "3.1.0"] {
        let conf = json!({"spec": document(version).to_string(), "verbose_errors": true});
        let gateway = plain(&upstream, &conf);
        for (line, fields, body, expected) in [
            ("POST /v1/pets", JSON, r#"{"name":"Rex","age":3}"#, ""),
            ("POST /v1/pets", "Content-Type: application/json; charset=utf-8\r\n", r#"{"name":"Rex"}"#, ""),
            ("POST /v1/pets", JSON, r#"{"age":3}"#, r#"body: property \"name\" is required"#),
            ("POST /v1/pets", JSON, r#"{"name":"Rex","age":"3"}"#, "body.age: expected integer"),
            ("POST /v1/pets", JSON, "{", "body: Expected"),
            ("POST /v1/pets", JSON, r#"{"name":5,"name":"a"}"#, "body: "),
            ("POST /v1/pets", JSON, r#"{"name":5,"\u006eame":"a"}"#, "body: "),
            ("POST /v1/pets", JSON, "", "body: it is required"),
            ("POST /v1/pets", "", r#"{"name":"Rex"}"#, "media type"),
            (
                "POST /v1/pets",
                "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
                "x",
                "compressed",
            ),
            (
                "POST /v1/pets",
                "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
                "{}",
                "several media types",
            ),
            ("GET /v1/pets?status=sold", "", "", ""),
            ("GET /v1/pets", "", "", "query status: it is required"),
            ("GET /v1/pets?status=married", "", "", "query status: "),
            ("GET /v1/pets?status=sold&status=pending", "", "", "duplicate parameter"),
            ("GET /v1/pets?status=sold&ids=1&ids=2&some=1,2", "", "", ""),
            ("GET /v1/pets?status=sold&ids=1&ids=x", "", "", "query ids[1]: expected integer"),
            ("GET /v1/pets?status=sold&some=1,x", "", "", "query some[1]: expected integer"),
            ("GET /v1/pets?status=sold&filter[n]=1", "", "", ""),
            ("GET /v1/pets?status=sold&filter[n]=x", "", "", "query filter.n: expected integer"),
            ("GET /v1/pets?status=sold&doc=%7B%7D", "", "", ""),
            ("GET /v1/pets?status=sold&doc=1", "", "", "query doc: expected object"),
            ("GET /v1/pets?status=sold", "X-Count: 2\r\nCookie: session=abc\r\n", "", ""),
            ("GET /v1/pets?status=sold", "X-Count: 0\r\n", "", "header X-Count: 0 is less"),
            ("GET /v1/pets?status=sold", "X-Count: 2\r\nX-Count: x\r\n", "", "header X-Count: duplicate"),
            (
                "GET /v1/pets?status=sold",
                "Cookie: session=abc; session=a\r\n",
                "",
                "cookie session: duplicate",
            ),
            ("GET /v1/pets?status=sold", "Cookie: session=a\r\n", "", "cookie session: it is too short"),
            ("GET /v1/pets/1", "", "", ""),
            ("GET /v1/pets/x", "", "", "path id: expected integer"),
            ("GET /v1/pets/find", "", "", ""),
            ("PUT /v1/pets/1", FORM, "name=Rex&age=3&tags=a&tags=b", ""),
            ("PUT /v1/pets/1", FORM, "name=Rex&age=x", "body.age: expected integer"),
            ("PATCH /v1/pets/1", "Content-Type: text/plain\r\n", "four", "body: it is too long"),
            ("PATCH /v1/pets/1", "Content-Type: image/png\r\n", "four", ""),
            ("PATCH /v1/pets/1", "", "", ""),
            ("DELETE /v1/pets/1", "", "", "the method is not in the document"),
            ("GET /v1/dogs", "", "", "the path is not in the document"),
            ("GET /pets/1", "", "", "the path is not in the document"),
        ] {
            let (status, text) = send(&gateway, line, fields, body);
            let fits = expected.is_empty();
            assert_eq!(status, if fits { 200 } else { 400 }, "{version} {line} {fields}{body}: {text}");
            let start = r#"{"message":"failed to validate request. "#;
            assert!(fits || (text.starts_with(start) && text.contains(expected)), "{line} {body}: {text}");
        }
    }
}

#[test]
fn what_is_done_about_it() {
    let upstream = Upstream::start();
    let refused = |more: Value, line: &str, fields: &str, body: &str| {
        let mut conf = json!({"spec": document("3.1.0").to_string()});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        send(&plain(&upstream, &conf), line, fields, body)
    };
    let short = (422, "{\"message\":\"failed to validate request. \"}\n".to_owned());
    assert_eq!(refused(json!({"rejection_status_code": 422}), "GET /v1/pets/x", "", ""), short);
    assert_eq!(refused(json!({"reject_if_not_match": false}), "GET /nothing", "", "").0, 200);
    assert_eq!(refused(json!({"skip_path_params_validation": true}), "GET /v1/pets/x", "", "").0, 200);
    assert_eq!(refused(json!({"skip_query_param_validation": true}), "GET /v1/pets", "", "").0, 200);
    let fields = "X-Count: 0\r\nCookie: session=a\r\n";
    assert_eq!(
        refused(json!({"skip_request_header_validation": true}), "GET /v1/pets?status=sold", fields, "").0,
        200
    );
    assert_eq!(refused(json!({"skip_request_body_validation": true}), "POST /v1/pets", JSON, "{").0, 200);
    let large = refused(json!({"max_req_body_size": 10}), "POST /v1/pets", JSON, r#"{"name":"Rex"}"#);
    assert_eq!(large.0, 500);
    assert!(large.1.contains("greater than the maximum size 10"), "{}", large.1);
    let broken = send(&plain(&upstream, &json!({"spec": "{\"openapi\": \"2.0\"}"})), "GET /", "", "");
    assert_eq!(broken, (500, "{\"message\":\"failed to parse openapi spec\"}\n".to_owned()));
}

#[test]
fn documents_from_elsewhere() {
    let upstream = Upstream::start();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    // The first document has version 1 of the API, later ones have version 2.
    let server = Upstream::service(move |request| {
        if request.header("X-Token") != Some("secret") {
            return (403, String::new());
        }
        let version = if count.fetch_add(1, SeqCst) == 0 { "/v1" } else { "/v2" };
        let mut document = document("3.1.0");
        document["servers"] = json!([{ "url": version }]);
        (200, document.to_string())
    });
    let url = format!("http://{}/openapi.json", server.address);
    let conf = json!({"spec_url": url, "spec_url_request_headers": {"X-Token": "secret"}});
    let young = plain(&upstream, &conf);
    for _ in 0..3 {
        assert_eq!(send(&young, "GET /v1/pets/1", "", "").0, 200);
    }
    assert_eq!(asked.load(SeqCst), 1, "it is kept");

    let old = gateway(&upstream, &conf, &json!({"id": "oas-validator", "spec_url_ttl": 1}));
    assert_eq!(send(&old, "GET /v2/pets/1", "", "").0, 200);
    let before = asked.load(SeqCst);
    eventually("a new document", || {
        send(&old, "GET /v2/pets/1", "", "").0 == 200 && asked.load(SeqCst) > before
    });

    for (path, conf) in
        [("", json!({"spec_url": url})), ("", json!({"spec_url": format!("http://{}/", upstream.address)}))]
    {
        let (status, text) = send(&plain(&upstream, &conf), &format!("GET /v1/pets/1{path}"), "", "");
        assert_eq!((status, text.as_str()), (500, "{\"message\":\"failed to parse openapi spec\"}\n"));
    }
}
