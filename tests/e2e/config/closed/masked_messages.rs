//! Why an object is refused is said in the log and by the Control API without its values: a secret in the wrong field is one.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER, run_command};
use tidegate_testkit::{Client, Gateway, eventually};

use super::{admin, rejected};

const SECRET: &str = "0pen-Sesame";

/// Objects that are refused for the text that stands in them.
fn objects() -> Vec<(&'static str, Value)> {
    let route = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins});
    let plugins = [
        ("conf", json!({"key-auth": SECRET})),
        ("url", json!({"forward-auth": {"uri": SECRET}})),
        ("hook", json!({"forward-auth": {"uri": format!("ftp://h.example/{SECRET}")}})),
        ("header", json!({"key-auth": {"header": format!("{SECRET} {SECRET}")}})),
        ("count", json!({"limit-count": {"count": SECRET, "time_window": 1}})),
        (
            "host",
            json!({"limit-count": {"count": 1, "time_window": 1, "policy": "redis", "redis_host": format!("{SECRET}:x")}}),
        ),
        ("address", json!({"real-ip": {"source": SECRET, "trusted_addresses": [SECRET]}})),
        ("schema", json!({"request-validation": {"body_schema": {"type": SECRET}}})),
        (
            "nested",
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {"header": format!("{SECRET}?{SECRET}")}}, {"basic-auth": SECRET}]}}),
        ),
        ("action", json!({"workflow": {"rules": [{"actions": [[SECRET, {"code": 403}]]}]}})),
    ];
    let mut objects: Vec<(&str, Value)> =
        plugins.into_iter().map(|(id, plugins)| ("routes", route(id, plugins))).collect();
    objects.push(("routes", json!({"id": "port", "uri": "/port", "upstream": {"nodes": {format!("u:{SECRET}@h.example:80/x"): 1}}})));
    objects.push((
        "upstreams",
        json!({"id": "u", "nodes": [{"host": format!("{SECRET}?"), "port": 1, "weight": 1}]}),
    ));
    objects.push((
        "consumers",
        json!({"username": "c", "plugins": {"jwt-auth": {"key": "k", "algorithm": SECRET}}}),
    ));
    objects.push(("secrets", json!({"id": "vault/1", "uri": SECRET, "prefix": "p", "token": "t"})));
    objects.push((
        "ssls",
        json!({"id": "s", "snis": ["a.example"], "cert": SECRET.repeat(20), "key": SECRET.repeat(20)}),
    ));
    objects
}

fn file() -> String {
    let mut lists = json!({"routes": ["text", SECRET]});
    for (list, object) in objects() {
        if lists[list].is_null() {
            lists[list] = json!([]);
        }
        lists[list].as_array_mut().expect("a list").push(object);
    }
    lists.to_string()
}

#[test]
fn refused_values_are_not_repeated() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(&file()));
    // What has no effect is logged after the start.
    for (list, object) in objects() {
        let id = object["id"].as_str().or(object["username"].as_str()).expect("an id");
        let place = format!("[{list}] err:");
        eventually(format!("{list}/{id} in the log"), || {
            gateway.error_log().lines().any(|line| {
                line.contains(&place) && line.contains(&format!(",id: {id}"))
                    || line.contains(&format!("{list}/{id} cannot be used"))
                    || line.contains(&format!("{list}/{id}: "))
            })
        });
    }
    let (log, shown) = (gateway.error_log(), rejected(&gateway));
    assert!(!log.contains(SECRET), "{log}");
    assert!(!format!("{shown:?}").contains(SECRET), "{shown:?}");
    assert!(log.contains("it should be an object, not a string"), "{log}");
}

/// Who writes sees what does not fit, as with APISIX, and the log still does not.
#[test]
fn the_writer_sees_the_value() {
    let gateway = Gateway::start(EMBEDDED, None);
    let body = json!({"uri": "/z", "plugins": {"forward-auth": {"uri": SECRET}}});
    let answer = admin(&gateway, "PUT", "routes/z", "", &body.to_string());
    assert!(answer.status() == 400 && answer.body_text().contains(SECRET), "{}", answer.body_text());
    assert!(!gateway.error_log().contains(SECRET));
}

/// What a reference leads to is hidden from the writer, too.
#[test]
fn resolved_values_are_not_repeated() {
    let conf =
        "routes:\n- {id: z, uri: /z, plugins: {forward-auth: {uri: \"$env://TIDEGATE_SECRET_URI\"}}}\n";
    let mut gateway = Gateway::start_by(YAML_PROVIDER, Some(conf), |prefix| {
        let mut command = run_command(prefix);
        command.env("TIDEGATE_SECRET_URI", SECRET);
        command
    });
    gateway.process.wait_for_port(gateway.http);
    gateway.wait_for_log("routes/z cannot be used: plugin forward-auth: ");
    let (log, shown) = (gateway.error_log(), rejected(&gateway));
    assert!(!log.contains(SECRET) && !format!("{shown:?}").contains(SECRET), "{log} {shown:?}");
}

/// A misspelled secret is hidden from viewers wherever it is.
#[test]
fn misspelled_secrets_are_masked() {
    const VIEWER: &str = "test-viewer-key";
    let keys = format!("role: admin}}, {{name: guest, key: {VIEWER}, role: viewer}}]");
    let gateway = Gateway::start(&EMBEDDED.replace("role: admin}]", &keys), None);
    let inner = json!([{"hmac-auth": {"secretkey": SECRET}}, {"jwt-auth": {"secrt": [SECRET]}}]);
    let checks = json!({"active": {"http_path": "/", "reqheaders": {"deep": SECRET}}});
    let limit = json!({"count": 1, "time_window": 9, "redis_pasword": SECRET});
    for (path, object) in [
        ("routes/multi", json!({"uri": "/m", "plugins": {"multi-auth": {"auth_plugins": inner}}})),
        ("routes/checks", json!({"uri": "/k", "upstream": {"nodes": {"127.0.0.1:1": 1}, "checks": checks}})),
        (
            "routes/flow",
            json!({"uri": "/f", "plugins": {"workflow": {"rules": [{"actions": [["limit-count", limit]]}]}}}),
        ),
        (
            "consumers/c",
            json!({"username": "c", "plugins": {"hmac-auth": {"key_id": "k", "secret_key": "s", "secretkey": SECRET}}}),
        ),
        (
            "secrets/vault/1",
            json!({"uri": "http://127.0.0.1:1", "prefix": "p", "token": "t", "tokn": SECRET}),
        ),
    ] {
        let answer = admin(&gateway, "PUT", path, "", &object.to_string());
        assert!(answer.status() < 300, "{path}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(told.contains("unknown field"), "{path}: {told}");
        let mut client = Client::connect(gateway.admin).expect("connected");
        let asked = format!("GET /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {VIEWER}\r\n\r\n");
        let shown = client.request(&asked).expect("an answer").body_text();
        assert!(!shown.contains(SECRET) && shown.contains("***"), "{path}: {shown}");
    }
    let answer = admin(
        &gateway,
        "PUT",
        "consumers/c/credentials/x",
        "",
        &json!({"plugins": {"hmac-auth": {"key_id": "k2", "secretkey": SECRET}}}).to_string(),
    );
    assert!(
        answer.status() == 400 && answer.body_text().contains("did you mean secret_key?"),
        "{}",
        answer.body_text()
    );
}
