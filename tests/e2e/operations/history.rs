//! Who changed what, the way back, and the whole configuration as one file.

mod bytes;
mod documents;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, Message};

const VIEWER_KEY: &str = "test-viewer-key";

fn start() -> Gateway {
    start_with("")
}

/// With these lines at the end of config.yaml, and a second key that may only read.
fn start_with(more: &str) -> Gateway {
    let keys = format!("role: admin}}, {{name: guest, key: {VIEWER_KEY}, role: viewer}}]");
    Gateway::start(&format!("{}{more}", EMBEDDED.replace("role: admin}]", &keys)), None)
}

fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str, body: &str) -> Message {
    let key =
        if fields.contains("X-API-KEY") { String::new() } else { format!("X-API-KEY: {ADMIN_KEY}\r\n") };
    let mut client = Client::connect(gateway.admin).expect("the admin port");
    let length = body.len();
    client
        .request(&format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: admin\r\n{key}{fields}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
        .expect("an answer")
}

/// An answer's body, which has to have this status.
fn checked(gateway: &Gateway, method: &str, path: &str, body: &Value, status: u16) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = ask(gateway, method, path, "", &body);
    let text = answer.body_text();
    assert_eq!(answer.status(), status, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn get(gateway: &Gateway, path: &str) -> Value {
    checked(gateway, "GET", path, &Value::Null, 200)
}

fn route(uri: &str) -> Value {
    json!({"uri": uri, "plugins": {"mocking": {"response_status": 201, "response_example": "x"}}})
}

fn status(gateway: &Gateway, path: &str) -> u16 {
    gateway.client().get("h", path).expect("an answer").status()
}

#[test]
fn every_acknowledged_change_is_in_the_history_after_a_kill() {
    let mut gateway = start();
    let consumer = |key: &str| json!({"username": "jack", "plugins": {"key-auth": {"key": key}}});
    checked(&gateway, "PUT", "/routes/1", &route("/a"), 201);
    checked(&gateway, "PUT", "/consumers/jack", &consumer("first-secret"), 201);
    checked(&gateway, "PUT", "/consumers/jack", &consumer("second-secret"), 200);
    checked(&gateway, "PATCH", "/routes/1", &json!({"uri": "/b"}), 200);
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    gateway.restart();

    let list = get(&gateway, "/history");
    assert_eq!((&list["total"], &list["oldest"]), (&json!(4), &json!(0)), "{list}");
    let newest = &list["list"][0];
    assert_eq!(newest["revision"], 4);
    assert_eq!(newest["who"], json!({"name": "admin", "role": "admin", "address": "127.0.0.1"}));
    assert_eq!(newest["request"], "PATCH /apisix/admin/routes/1");
    assert_eq!(newest["objects"], json!([{"resource": "routes/1", "action": "update"}]));
    assert!(
        newest["time"].as_str().is_some_and(|time| time.ends_with('Z') && time.starts_with("20")),
        "{newest}"
    );

    let one = get(&gateway, "/history/4");
    assert_eq!(one["changes"][0]["diff"], json!([{"path": "/uri", "before": "/a", "after": "/b"}]), "{one}");
    let secret = get(&gateway, "/history/3");
    let expected = json!([{"path": "/plugins/key-auth/key", "before": "***", "after": "***"}]);
    assert_eq!(secret["changes"][0]["diff"], expected);
    assert!(!get(&gateway, "/history/2").to_string().contains("first-secret"));

    let revisions = |path: &str| -> Vec<u64> {
        let list = get(&gateway, path)["list"].as_array().cloned().unwrap_or_default();
        list.iter().filter_map(|entry| entry["revision"].as_u64()).collect()
    };
    assert_eq!(revisions("/history?key=/consumers/jack"), [3, 2]);
    assert_eq!(revisions("/history?since=2"), [4, 3]);
    assert_eq!(revisions("/history?page=2&page_size=3"), [1]);
    for (path, status) in [("/history/9", 404), ("/history/x", 400), ("/history?key=/nothing", 400)] {
        checked(&gateway, "GET", path, &Value::Null, status);
    }
    // In the file they are encrypted, as among the objects.
    let bytes = std::fs::read(gateway.prefix().join("data/tidegate.redb")).expect("the database");
    let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(holds("/apisix/admin/consumers/jack") && !holds("first-secret") && !holds("second-secret"));
}

#[test]
fn private_keys_and_secrets_are_never_shown() {
    let gateway = start();
    let [first, second] = ["test.com", "test.org"].map(crate::protocols::certs::self_signed);
    let ssl = |pair: &crate::protocols::certs::Pair| json!({"cert": pair.cert, "key": pair.key, "certs": [pair.cert], "keys": [pair.key], "snis": ["test.com"]});
    let vault = json!({"uri": "http://127.0.0.1:1", "prefix": "kv/apisix", "token": "plain-token"});
    checked(&gateway, "PUT", "/ssls/1", &ssl(&first), 201);
    checked(&gateway, "PUT", "/ssls/1", &ssl(&second), 200);
    checked(&gateway, "PUT", "/secrets/vault/1", &vault, 201);
    checked(&gateway, "DELETE", "/ssls/1", &Value::Null, 200);
    checked(&gateway, "DELETE", "/secrets/vault/1", &Value::Null, 200);
    for revision in 1..=5 {
        let shown = get(&gateway, &format!("/history/{revision}")).to_string();
        assert!(shown.contains("***"), "{shown}");
        assert!(!shown.contains("PRIVATE KEY") && !shown.contains("plain-token"), "{shown}");
    }
    let dry =
        checked(&gateway, "POST", "/rollback", &json!({"revision": 3, "dry_run": true}), 200).to_string();
    assert!(dry.contains("***") && !dry.contains("PRIVATE KEY") && !dry.contains("plain-token"), "{dry}");
    // What comes back is the key itself.
    checked(&gateway, "POST", "/rollback", &json!({"revision": 3}), 200);
    let export = ask(&gateway, "GET", "/export", "", "").body_text();
    let middle = second.key.lines().nth(1).expect("a line of the key");
    assert!(export.contains(middle), "the key is as it was");
}

#[test]
fn a_rollback_is_one_transaction_that_can_be_undone() {
    let gateway = start();
    let nodes = json!({"127.0.0.1:1": 1});
    checked(&gateway, "PUT", "/upstreams/u", &json!({"nodes": nodes}), 201);
    checked(&gateway, "PUT", "/routes/1", &route("/a"), 201);
    checked(&gateway, "PUT", "/routes/1", &route("/b"), 200);
    checked(&gateway, "PUT", "/routes/2", &json!({"uri": "/c", "upstream_id": "u"}), 201);
    checked(&gateway, "DELETE", "/routes/2", &Value::Null, 200);
    checked(&gateway, "DELETE", "/upstreams/u", &Value::Null, 200);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/b")), (404, 201));

    let dry = checked(&gateway, "POST", "/rollback", &json!({"revision": 4, "dry_run": true}), 200);
    assert_eq!(dry["changes"].as_array().map(Vec::len), Some(2), "{dry}");
    assert_eq!(get(&gateway, "/revision")["stored"], 6);

    // A route and the upstream that it names come back together.
    let done =
        checked(&gateway, "POST", "/rollback?wait=applied&wait_timeout=60", &json!({"revision": 4}), 200);
    assert_eq!(done["revision"], 7, "{done}");
    assert_eq!(get(&gateway, "/routes/2")["value"]["upstream_id"], "u");
    let done = checked(&gateway, "POST", "/rollback", &json!({"revision": 2}), 200);
    assert_eq!(done["revision"], 8);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/b")), (201, 404));
    checked(&gateway, "GET", "/routes/2", &Value::Null, 404);
    let entry = get(&gateway, "/history/8");
    assert_eq!((&entry["note"], &entry["who"]["name"]), (&json!("rollback to revision 2"), &json!("admin")));
    // Undone by going back to before it.
    checked(&gateway, "POST", "/rollback", &json!({"revision": 7}), 200);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/b")), (404, 201));
    assert_eq!(get(&gateway, "/routes/2")["value"]["upstream_id"], "u");

    let stale = ask(&gateway, "POST", "/rollback", "If-Match: 5\r\n", &json!({"revision": 1}).to_string());
    assert_eq!(stale.status(), 412, "{}", stale.body_text());
    for (body, status) in [
        (json!({"revision": 99}), 404),
        (json!({"checkpoint": "none"}), 404),
        (json!({"revision": 1, "checkpoint": "none"}), 400),
        (json!({"to": 1}), 400),
    ] {
        checked(&gateway, "POST", "/rollback", &body, status);
    }
    assert_eq!(get(&gateway, "/revision")["stored"], 9);
}

#[test]
fn one_object_goes_back_and_the_others_stay() {
    let gateway = start();
    checked(&gateway, "PUT", "/routes/1", &route("/a"), 201);
    checked(&gateway, "PUT", "/consumers/jack", &json!({"username": "jack", "desc": "first"}), 201);
    checked(
        &gateway,
        "PUT",
        "/consumers/jack/credentials/c",
        &json!({"plugins": {"key-auth": {"key": "k-1"}}}),
        201,
    );
    checked(&gateway, "PUT", "/routes/1", &route("/b"), 200);
    checked(&gateway, "PUT", "/routes/2", &route("/c"), 201);
    checked(&gateway, "DELETE", "/consumers/jack", &Value::Null, 200);
    let back = json!({"revision": 3, "key": "/routes/1", "dry_run": true});
    let dry = checked(&gateway, "POST", "/rollback", &back, 200);
    let changes = dry["changes"].as_array().expect("changes");
    assert_eq!((changes.len(), &changes[0]["resource"]), (1, &json!("routes/1")), "{dry}");
    assert!(dry.to_string().contains("/a") && dry.to_string().contains("/b"), "{dry}");
    checked(&gateway, "POST", "/rollback", &json!({"revision": 3, "key": "/routes/1"}), 200);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/b"), status(&gateway, "/c")), (201, 404, 201));
    checked(&gateway, "GET", "/consumers/jack", &Value::Null, 404);
    let entry = get(&gateway, "/history/7");
    assert_eq!((&entry["note"], &entry["total"]), (&json!("rollback of routes/1 to revision 3"), &json!(1)));
    // What goes with an object comes back with it.
    let (ok, said) = gateway.verb_with(&["config", "rollback", "5", "--key", "/consumers/jack"]);
    assert!(ok && said.contains("create consumers/jack") && said.contains("2 objects changed"), "{said}");
    assert_eq!(get(&gateway, "/consumers/jack")["value"]["desc"], "first");
    checked(&gateway, "GET", "/consumers/jack/credentials/c", &Value::Null, 200);
    // An object that was not there yet goes.
    checked(&gateway, "POST", "/rollback", &json!({"revision": 4, "key": "/routes/2"}), 200);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/c")), (201, 404));
    // One that refers to what is gone does not come back alone.
    checked(&gateway, "PUT", "/upstreams/u", &json!({"nodes": {"127.0.0.1:1": 1}}), 201);
    checked(&gateway, "PUT", "/routes/3", &json!({"uri": "/d", "upstream_id": "u"}), 201);
    let revision = get(&gateway, "/revision")["stored"].as_u64().expect("a revision");
    checked(&gateway, "DELETE", "/routes/3", &Value::Null, 200);
    checked(&gateway, "DELETE", "/upstreams/u", &Value::Null, 200);
    let refused =
        checked(&gateway, "POST", "/rollback", &json!({"revision": revision, "key": "/routes/3"}), 400);
    assert!(refused.to_string().contains("upstream"), "{refused}");
    for key in [json!("routes"), json!("/nothing/1"), json!(1), json!("/routes")] {
        checked(&gateway, "POST", "/rollback", &json!({"revision": 1, "key": key}), 400);
    }
    let unchanged = checked(
        &gateway,
        "POST",
        "/rollback",
        &json!({"revision": 8, "key": "/routes/none", "dry_run": true}),
        200,
    );
    assert_eq!(unchanged["changes"], json!([]), "{unchanged}");
}

#[test]
fn a_checkpoint_outlives_its_history() {
    let gateway = start_with("history: {max_entries: 3}\n");
    checked(&gateway, "PUT", "/routes/1", &route("/good"), 201);
    checked(
        &gateway,
        "PUT",
        "/consumers/jack",
        &json!({"username": "jack", "plugins": {"key-auth": {"key": "k"}}}),
        201,
    );
    let made = checked(&gateway, "PUT", "/checkpoints/good", &Value::Null, 201);
    assert_eq!((&made["revision"], &made["objects"]), (&json!(2), &json!(2)), "{made}");
    for number in 0..10 {
        checked(
            &gateway,
            "PUT",
            "/routes/2",
            &route(&format!("/{number}")),
            if number == 0 { 201 } else { 200 },
        );
    }
    checked(&gateway, "PUT", "/routes/1", &route("/bad"), 200);
    checked(&gateway, "DELETE", "/consumers/jack", &Value::Null, 200);
    let list = get(&gateway, "/history");
    assert_eq!((&list["total"], &list["oldest"]), (&json!(3), &json!(11)), "{list}");
    let refused = checked(&gateway, "POST", "/rollback", &json!({"revision": 2}), 410);
    assert!(
        refused["error_msg"].as_str().is_some_and(|text| text.contains("begins at revision 11")),
        "{refused}"
    );

    let list = get(&gateway, "/checkpoints");
    assert_eq!((&list["total"], &list["list"][0]["name"]), (&json!(1), &json!("good")), "{list}");
    let done = checked(&gateway, "POST", "/rollback", &json!({"checkpoint": "good"}), 200);
    assert_eq!(done["changes"].as_array().map(Vec::len), Some(3), "{done}");
    assert_eq!((status(&gateway, "/good"), status(&gateway, "/9")), (201, 404));
    assert_eq!(get(&gateway, "/consumers/jack")["value"]["plugins"]["key-auth"]["key"], "k");
    checked(&gateway, "DELETE", "/checkpoints/good", &Value::Null, 200);
    checked(&gateway, "DELETE", "/checkpoints/good", &Value::Null, 404);
    for name in ["5", "with%20blank"] {
        checked(&gateway, "PUT", &format!("/checkpoints/{name}"), &Value::Null, 400);
    }
    let viewer = format!("X-API-KEY: {VIEWER_KEY}\r\n");
    assert_eq!(ask(&gateway, "PUT", "/checkpoints/mine", &viewer, "").status(), 401);
    assert_eq!(ask(&gateway, "GET", "/history", &viewer, "").status(), 200);
}
