use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tidegate_model::encrypt::Keyring;
use tidegate_store::BoxFuture;

use crate::{
    Access, AdminApi, AdminKey, AdminSettings, ApiVersion, Parts, RequestBody, Role, Standalone,
    testing::{ask, body, finish, open, parts, request},
};

const ROUTE: &str = r#"{"uri":"/a","upstream":{"nodes":{"127.0.0.1:80":1}}}"#;

fn api() -> AdminApi {
    AdminApi::new(parts(AdminSettings { stream: true, ..open() }))
}

#[track_caller]
fn check(api: &AdminApi, method: &str, path: &str, conf: &str, status: u16, message: &str) {
    let response = ask(api, method, path, conf);
    let shown = String::from_utf8_lossy(&response.body).into_owned();
    assert_eq!(response.status, status, "{method} {path}: {shown}");
    let error = body(&response).get("error_msg").and_then(Value::as_str).unwrap_or_default().to_owned();
    assert_eq!(error, message, "{method} {path}: {shown}");
}

#[track_caller]
fn put(api: &AdminApi, path: &str, conf: &str) {
    let response = ask(api, "PUT", path, conf);
    assert!(response.status < 300, "{path}: {}", String::from_utf8_lossy(&response.body));
}

#[test]
fn a_route_lives() {
    let api = api();
    let created = ask(&api, "PUT", "/routes/1", ROUTE);
    assert_eq!(created.status, 201);
    let shown = body(&created);
    assert_eq!(shown["key"], "/apisix/routes/1");
    assert_eq!(shown["value"]["id"], "1");
    assert!(shown["value"]["create_time"].is_u64() && shown["value"]["update_time"].is_u64());
    assert_eq!(shown["value"]["upstream"], json!({"nodes": {"127.0.0.1:80": 1}}), "no defaults");
    assert!(created.headers.contains(&("X-API-VERSION", "v3".into())));
    assert!(created.headers.contains(&("Server", "APISIX/3.18.0".into())));
    assert_eq!(ask(&api, "PUT", "/routes/1", ROUTE).status, 200);
    let got = body(&ask(&api, "GET", "/routes/1", ""));
    assert_eq!((&got["createdIndex"], &got["modifiedIndex"]), (&json!(1), &json!(2)));
    let listed = body(&ask(&api, "GET", "/routes", ""));
    assert_eq!((&listed["total"], &listed["list"][0]["key"]), (&json!(1), &json!("/apisix/routes/1")));
    assert_eq!(
        body(&ask(&api, "DELETE", "/routes/1", "")),
        json!({"deleted": "1", "key": "/apisix/routes/1"})
    );
    let missing = ask(&api, "DELETE", "/routes/1", "");
    assert_eq!((missing.status, body(&missing)), (404, json!({"message": "Key not found"})));
    assert_eq!(body(&ask(&api, "GET", "/routes/", "")), json!({"list": [], "total": 0}));
}

#[test]
fn post_makes_an_id() {
    let api = api();
    let created = ask(&api, "POST", "/routes", ROUTE);
    assert_eq!(created.status, 201);
    assert_eq!(body(&created)["value"]["id"], "00000000000000000001");
    assert_eq!(body(&created)["key"], "/apisix/routes/00000000000000000001");
}

#[test]
fn ids_and_times() {
    let api = api();
    let with = |extra: &str| ROUTE.replacen('{', &format!("{{{extra},"), 1);
    check(&api, "PUT", "/routes", ROUTE, 400, "missing route id");
    check(&api, "PUT", "/routes/1", &with("\"id\":2"), 400, "wrong route id");
    check(&api, "PUT", "/routes/2", &with("\"id\":2"), 201, "");
    check(&api, "PUT", "/routes", &with("\"id\":3"), 201, "");
    check(&api, "POST", "/routes/1", ROUTE, 400, "wrong route id, do not need it");
    check(
        &api,
        "PUT",
        "/routes/1",
        &with("\"create_time\":1"),
        400,
        "the property is forbidden:  create_time",
    );
    check(&api, "PUT", "/routes/1", "", 400, "missing configurations");
    check(&api, "DELETE", "/routes", "", 400, "missing route id");
    check(&api, "POST", "/consumers", "{}", 405, "not supported `POST` method for consumer");
    check(&api, "GET", "/routs", "", 404, "Unsupported resource type: routs");
    check(&api, "PUT", "/schema/route", "{}", 404, "not found");
    check(&api, "PUT", "/routes/1?ttl=abc", ROUTE, 400, "invalid argument ttl: should be a number");
    check(&api, "PUT", "/plugin_metadata", "{}", 400, "missing plugin name");
    check(
        &api,
        "PUT",
        "/routes/*invalid",
        ROUTE,
        400,
        "invalid configuration: property \"id\" validation failed: object matches none of the required",
    );
}

#[test]
fn patches() {
    let api = api();
    check(&api, "PATCH", "/routes/1", "{}", 404, "");
    put(&api, "/routes/1", ROUTE);
    let patched = body(&ask(&api, "PATCH", "/routes/1", r#"{"desc":"x","upstream":{"nodes":{"a:1":2}}}"#));
    assert_eq!(patched["value"]["upstream"]["nodes"], json!({"127.0.0.1:80": 1, "a:1": 2}));
    let patched = body(&ask(&api, "PATCH", "/routes/1/upstream/nodes", r#"{"b:1":1}"#));
    assert_eq!(patched["value"]["upstream"]["nodes"], json!({"b:1": 1}));
    let patched = body(&ask(&api, "PATCH", "/routes/1", r#"{"desc":null}"#));
    assert_eq!(patched["value"].get("desc"), None);
    check(&api, "PATCH", "/routes/1/uri/x", "1", 400, "invalid sub-path: /uri");
    check(&api, "PATCH", "/routes/1", "", 400, "missing new configuration");
    check(&api, "PATCH", "/routes/1", "1", 400, "invalid configuration");
}

#[test]
fn what_is_used_stays() {
    let api = api();
    let nodes = r#"{"nodes":{"a:1":1}}"#;
    put(&api, "/upstreams/1", nodes);
    put(&api, "/upstreams/2", nodes);
    put(&api, "/services/1", r#"{"upstream_id":1}"#);
    let split = r#"{"uri":"/a","service_id":"1","plugins":{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":2}]}]}}}"#;
    put(&api, "/routes/1", split);
    let used = "is still using it now";
    check(
        &api,
        "DELETE",
        "/upstreams/1",
        "",
        400,
        &format!("can not delete this upstream, service [1] {used}"),
    );
    check(
        &api,
        "DELETE",
        "/upstreams/2",
        "",
        400,
        &format!("can not delete this upstream, plugin in route [1] {used}"),
    );
    check(
        &api,
        "DELETE",
        "/services/1",
        "",
        400,
        &format!("can not delete this service directly, route [1] {used}"),
    );
    check(&api, "DELETE", "/services/1?force=true", "", 200, "");
}

#[test]
fn consumers_own_credentials() {
    let api = api();
    let key = r#"{"plugins":{"key-auth":{"key":"a"}}}"#;
    check(&api, "PUT", "/consumers/jack/credentials/c", key, 404, "consumer not found");
    put(&api, "/consumers", r#"{"username":"jack"}"#);
    check(&api, "GET", "/consumers/jack/credentials", "", 404, "");
    check(&api, "PUT", "/consumers/jack/credentials", key, 400, "missing credential id");
    let created = ask(&api, "PUT", "/consumers/jack/credentials/c", key);
    assert_eq!(body(&created)["key"], "/apisix/consumers/jack/credentials/c");
    let duplicate = r#"{"username":"bob","plugins":{"key-auth":{"key":"a"}}}"#;
    check(
        &api,
        "PUT",
        "/consumers/bob",
        duplicate,
        400,
        "duplicate key of plugin key-auth found with credential: c of consumer: jack",
    );
    assert_eq!(body(&ask(&api, "GET", "/consumers", ""))["total"], 1);
    assert_eq!(body(&ask(&api, "GET", "/consumers/jack/credentials", ""))["total"], 1);
    check(&api, "DELETE", "/consumers/jack", "", 200, "");
    check(&api, "GET", "/consumers/jack/credentials/c", "", 404, "");
}

#[test]
fn secrets_are_below_their_manager() {
    let api = api();
    let vault = r#"{"uri":"http://127.0.0.1:8200","prefix":"kv","token":"t"}"#;
    let created = ask(&api, "PUT", "/secrets/vault/test1", vault);
    assert_eq!((created.status, &body(&created)["key"]), (201, &json!("/apisix/secrets/vault/test1")));
    assert_eq!(body(&created)["value"]["id"], "vault/test1");
    check(&api, "PATCH", "/secrets/vault/test1/token", "\"u\"", 200, "");
    check(&api, "PATCH", "/secrets/vault", "{}", 400, "no secret id");
    check(&api, "PUT", "/secrets/nope/1", "{}", 400, "invalid secret manager: nope");
    assert_eq!(body(&ask(&api, "GET", "/secrets", ""))["total"], 1);
}

#[test]
fn decorations_belong_to_a_service() {
    let api = api();
    let decoration = r#"{"field_path":"Query.products"}"#;
    let path = "/services/s/graphql_cost_decorations";
    check(&api, "PUT", &format!("{path}/d1"), decoration, 404, "service not found");
    put(&api, "/services/s", "{}");
    put(&api, &format!("{path}/d1"), decoration);
    check(
        &api,
        "POST",
        path,
        decoration,
        400,
        "field_path Query.products is already decorated on this service by [d1]",
    );
    check(&api, "POST", path, r#"{"field_path":"Query.x"}"#, 201, "");
    check(
        &api,
        "PATCH",
        &format!("{path}/d1"),
        r#"{"service_id":"t"}"#,
        400,
        "service_id can not be patched",
    );
    assert_eq!(body(&ask(&api, "GET", "/services", ""))["total"], 1);
    check(&api, "DELETE", "/services/s", "", 200, "");
    check(&api, "GET", path, "", 404, "");
}

#[test]
fn lists_have_filters_and_pages() {
    let api = api();
    for number in 1..=11 {
        let conf = format!(
            r#"{{"uri":"/a{number}","name":"n{number}","labels":{{"l{number}":"x"}},"plugins":{{}}}}"#
        );
        put(&api, &format!("/routes/{number}"), &conf);
    }
    let count = |query: &str| {
        let listed = body(&ask(&api, "GET", &format!("/routes?{query}"), ""));
        (listed["total"].as_u64(), listed["list"].as_array().map(Vec::len))
    };
    assert_eq!(count("name=1"), (Some(3), Some(3)));
    assert_eq!(count("search=1"), (Some(3), Some(3)));
    assert_eq!(count("search=nothing"), (Some(0), Some(0)));
    assert_eq!(count("label=l1"), (Some(1), Some(1)));
    assert_eq!(count("uri=a2"), (Some(1), Some(1)));
    assert_eq!(count("page=1&page_size=10"), (Some(11), Some(10)));
    assert_eq!(count("page=2&page_size=10"), (Some(11), Some(1)));
    assert_eq!(count("page=-1&page_size=10"), (Some(11), Some(10)));
    assert_eq!(count("filter=service_id%3D1"), (Some(0), Some(0)));
    let refused = ask(&api, "GET", "/routes?page=1&page_size=2", "");
    assert_eq!((refused.status, refused.body.as_ref()), (400, &b"page_size must be between 10 and 500"[..]));
}

#[test]
fn keys_open() {
    let keys = [("admin", "a", Role::Admin), ("viewer", "v", Role::Viewer)];
    let keys = keys.into_iter().filter_map(|(name, key, role)| AdminKey::new(name, key, role));
    let access = Access::Keys(keys.collect());
    let api = AdminApi::new(parts(AdminSettings { access, ..AdminSettings::default() }));
    let refused = |method: &str, path: &str, header: Option<(&str, &str)>| {
        let mut request = request(method, path, ROUTE);
        request.head.headers.extend(header.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let response = finish(api.handle(request));
        body(&response)["description"].as_str().unwrap_or_default().to_owned()
    };
    let path = "/apisix/admin/routes/1";
    assert_eq!(refused("GET", path, None), "missing apikey");
    assert_eq!(refused("GET", path, Some(("x-api-key", "b"))), "wrong apikey");
    assert_eq!(refused("PUT", path, Some(("X-API-KEY", "v"))), "invalid method for role viewer");
    assert_eq!(refused("PUT", path, Some(("X-API-KEY", "a"))), "");
    assert_eq!(refused("GET", path, Some(("Cookie", "q=1; x_api_key=v"))), "");
    assert_eq!(refused("GET", "/apisix/admin/routes/1?api_key=v", None), "");
    assert_eq!(ask(&api, "HEAD", "", "").status, 200);
    assert_eq!(ask(&api, "OPTIONS", "/routes", "").status, 200);
}

#[test]
fn without_a_key_nothing_opens() {
    assert!(AdminKey::new("admin", "", Role::Admin).is_none());
    let api = AdminApi::new(parts(AdminSettings::default()));
    for token in [None, Some(""), Some("a")] {
        let mut request = request("PUT", "/apisix/admin/routes/1", ROUTE);
        request.head.headers.extend(token.map(|token| ("x-api-key".to_owned(), token.to_owned())));
        assert_eq!(finish(api.handle(request)).status, 401, "{token:?}");
    }
    let nobody = AdminSettings { allow: Some(Vec::new()), ..open() };
    assert_eq!(ask(&AdminApi::new(parts(nobody)), "GET", "/routes", "").status, 403);
}

#[test]
fn strangers_see_a_page() {
    let allow = vec!["10.0.0.0/8".parse().expect("network")];
    let api = AdminApi::new(parts(AdminSettings { allow: Some(allow), ..open() }));
    let refused = ask(&api, "GET", "/routes", "");
    assert_eq!(refused.status, 403);
    assert!(String::from_utf8_lossy(&refused.body).contains("<title>403 Forbidden</title>"));
}

#[test]
fn bodies_have_limits() {
    let api = api();
    let mut huge = request("PUT", "/apisix/admin/routes/1", "");
    huge.body = RequestBody::TooLarge(1_678_025);
    let response = finish(api.handle(huge));
    let message =
        "invalid request body: request size 1678025 is greater than the maximum size 1572864 allowed";
    assert_eq!((response.status, &body(&response)["error_msg"]), (400, &json!(message)));
    let broken = body(&ask(&api, "PUT", "/routes/1", "{invalid}"));
    assert_eq!(broken["req_body"], "{invalid}");
    let raw = "{\"content\":\"syntax = \\\"proto3\\\";\nmessage A {}\"}";
    assert_eq!(
        body(&ask(&api, "PUT", "/protos/1", raw))["value"]["content"],
        "syntax = \"proto3\";\nmessage A {}"
    );
}

#[test]
fn answers_to_writes_show_secrets_as_they_are_at_rest() {
    let keyring = Keyring::new(&["edd1c9f0985e76a2"]).expect("16 bytes");
    let settings = AdminSettings { keyring: Some(Arc::new(keyring)), ..open() };
    let api = AdminApi::new(parts(settings));
    let conf = r#"{"username":"jack","plugins":{"key-auth":{"key":"bar"}}}"#;
    let key = |answer: Value| answer["value"]["plugins"]["key-auth"]["key"].clone();
    assert_eq!(key(body(&ask(&api, "PUT", "/consumers/jack", conf))), "77+NmbYqNfN+oLm0aX5akg==");
    assert_eq!(key(body(&ask(&api, "GET", "/consumers/jack", ""))), "bar");
}

#[derive(Default)]
struct Document(Mutex<Option<Arc<Value>>>);

impl Standalone for Document {
    fn current(&self) -> Option<Arc<Value>> {
        self.0.lock().expect("unpoisoned").clone()
    }
    fn replace(&self, configuration: Value) -> BoxFuture<'_, Result<(), String>> {
        *self.0.lock().expect("unpoisoned") = Some(Arc::new(configuration));
        Box::pin(async { Ok(()) })
    }
}

#[test]
fn standalone_takes_whole_configurations() {
    let standalone: Option<Arc<dyn Standalone>> = Some(Arc::new(Document::default()));
    let api = AdminApi::new(Parts { standalone, ..parts(open()) });
    let put = |digest: &str, conf: &str| {
        let mut request = request("PUT", "/apisix/admin/configs", conf);
        request.head.headers.extend((!digest.is_empty()).then(|| ("x-digest".to_owned(), digest.to_owned())));
        let response = finish(api.handle(request));
        (response.status, body(&response)["error_msg"].as_str().unwrap_or_default().to_owned())
    };
    let empty = body(&ask(&api, "GET", "/configs", ""));
    assert_eq!(empty["routes_conf_version"], 0);
    let routes =
        r#"{"routes_conf_version":5,"routes":[{"id":"r1","uri":"/a","plugins":{},"modifiedIndex":1}]}"#;
    for (digest, conf, status, message) in [
        (
            "",
            routes,
            400,
            "missing digest header: send X-Digest, a value that differs between configurations",
        ),
        ("a", "", 400, "invalid request body: empty request body"),
        ("a", routes, 202, ""),
        ("a", routes, 204, ""),
        (
            "b",
            r#"{"routes_conf_version":4}"#,
            400,
            "routes_conf_version must be greater than or equal to (5)",
        ),
        ("b", r#"{"routes_conf_version":"x"}"#, 400, "routes_conf_version must be a number"),
        ("b", r#"{"routes_conf_version":5,"services":[{"id":1}]}"#, 202, ""),
    ] {
        assert_eq!(put(digest, conf), (status, message.to_owned()), "{digest} {conf}");
    }
    let shown = ask(&api, "GET", "/configs", "");
    assert!(shown.headers.contains(&("X-Digest", "b".into())));
    assert_eq!(
        (&body(&shown)["routes"][0]["id"], &body(&shown)["services_conf_version"]),
        (&json!("r1"), &json!(2))
    );
    for (method, path, status) in [
        ("GET", "/routes", 200),
        ("GET", "/plugins/list", 200),
        ("GET", "/schema/route", 200),
        ("PUT", "/routes/1", 404),
        ("DELETE", "/routes/r1", 404),
        ("GET", "/users", 404),
        ("GET", "/history", 404),
    ] {
        assert_eq!(ask(&api, method, path, r#"{"uri":"/a"}"#).status, status, "{method} {path}");
    }
}

#[test]
fn version_two_wraps_nodes() {
    let api = AdminApi::new(parts(AdminSettings { version: ApiVersion::V2, ..open() }));
    let created = body(&ask(&api, "PUT", "/routes/1", ROUTE));
    assert_eq!((&created["action"], &created["node"]["key"]), (&json!("set"), &json!("/apisix/routes/1")));
    let listed = body(&ask(&api, "GET", "/routes", ""));
    assert_eq!(
        (&listed["node"]["dir"], &listed["node"]["nodes"][0]["key"]),
        (&json!(true), &json!("/apisix/routes/1"))
    );
    let deleted = body(&ask(&api, "DELETE", "/routes/1", ""));
    assert_eq!((&deleted["action"], &deleted["deleted"]), (&json!("delete"), &json!("1")));
}

#[test]
fn schemas_and_plugins_are_shown() {
    let api = api();
    assert_eq!(
        body(&ask(&api, "GET", "/schema/route", ""))["properties"]["plugins"],
        json!({"type": "object"})
    );
    check(&api, "GET", "/schema/nope", "", 400, "not found schema: nope");
    assert_eq!(
        body(&ask(&api, "GET", "/plugins/list", "")),
        json!(["key-auth", "limit-count", "traffic-split"])
    );
    let shown = body(&ask(&api, "GET", "/schema/plugins/limit-count", ""));
    assert_eq!(shown["required"], json!(["count"]));
    assert!(shown["properties"]["_meta"].is_object());
    check(&api, "GET", "/plugins/nope", "", 404, "plugin not found in subsystem http");
    check(&api, "GET", "/plugins/limit-count?subsystem=x", "", 400, "unsupported subsystem: x");
    check(&api, "GET", "/plugins/limit-count?schema_type=consumer", "", 400, "not found schema");
    assert_eq!(body(&ask(&api, "GET", "/plugins?all=true", ""))["key-auth"]["type"], "auth");
    assert_eq!(ask(&api, "PUT", "/plugins/reload", "").body, "done");
    let message = "please use PUT method to reload the plugins, GET method is not allowed.";
    check(&api, "GET", "/plugins/reload", "", 405, message);
    check(&api, "POST", "/schema/validate/routes", ROUTE, 200, "");
    check(
        &api,
        "POST",
        "/schema/validate/routes",
        r#"{"uri":1}"#,
        400,
        "property \"uri\" validation failed: wrong type: expected string, got number",
    );
}

#[test]
fn whole_configurations_are_checked() {
    let api = api();
    let path = "/configs/validate";
    assert_eq!(
        ask(&api, "POST", path, r#"{"routes":[{"id":"1","uri":"/a","upstream_id":"9"}]}"#).status,
        200
    );
    let wrong =
        r#"{"routes":[{"id":"r","uri":"/a","plugins":{}},{"id":"r","uri":1}],"upstreams_conf_version":"x"}"#;
    let response = ask(&api, "POST", path, wrong);
    let expected = json!({"error_msg": "Configuration validation failed", "errors": [
        {"resource_type": "routes", "resource_id": "r", "index": 1, "error":
            "invalid configuration: property \"uri\" validation failed: wrong type: expected string, got number"},
        {"resource_type": "routes", "resource_id": "r", "index": 1, "error": "found duplicate id r in routes"},
        {"resource_type": "upstreams", "error": "upstreams_conf_version must be a number, got string"},
    ]});
    assert_eq!((response.status, body(&response)), (400, expected));
    check(&api, "POST", path, "", 400, "invalid request body: empty request body");
}
