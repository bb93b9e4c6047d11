//! `?wait=applied`, revisions and transactions: when a change takes effect, and that many are one.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, Message, Upstream};

/// Some take longer to compile than a write waits, in the test of that.
const PATTERNS: usize = 100;

/// Two workers, so that "all of them" says something.
fn start() -> Gateway {
    Gateway::start(&EMBEDDED.replace("worker_processes: 1", "worker_processes: 2"), None)
}

fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str, body: &Value) -> Message {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut client = Client::connect(gateway.admin).expect("the admin port");
    let length = body.len();
    client
        .request(&format!(
            "{method} /apisix/admin{path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\n{fields}\
             Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
        .expect("an answer")
}

fn json_of(message: &Message) -> Value {
    serde_json::from_str(&message.body_text()).unwrap_or_else(|error| panic!("{error}: {message:?}"))
}

fn revision(gateway: &Gateway) -> Value {
    json_of(&ask(gateway, "GET", "/revision", "", &Value::Null))
}

fn number(message: &Message) -> u64 {
    message.header("X-Tidegate-Revision").and_then(|text| text.parse().ok()).expect("a revision")
}

#[test]
fn a_write_that_waits_has_taken_effect_on_every_worker() {
    let upstream = Upstream::service(|_| (200, "hello".to_owned()));
    let gateway = start();
    let nodes = json!({ upstream.address.to_string(): 1 });
    for count in 1..=20 {
        let route = json!({"uri": format!("/r{count}"), "upstream": {"nodes": nodes}});
        let put = ask(&gateway, "PUT", &format!("/routes/{count}?wait=applied&wait_timeout=60"), "", &route);
        assert_eq!(put.status(), 201, "{}", put.body_text());
        let written = number(&put);
        let state = revision(&gateway);
        assert_eq!(state["stored"], json!(written));
        assert_eq!(state["compiled"], json!(written));
        assert_eq!(state["applied"], json!([written, written]), "after {count} writes");
        let got = gateway.client().get("h", &format!("/r{count}")).expect("an answer");
        assert_eq!(got.status(), 200);
    }
    let deleted = ask(&gateway, "DELETE", "/routes/1?wait=applied&wait_timeout=60", "", &Value::Null);
    assert_eq!(deleted.status(), 200);
    assert_eq!(revision(&gateway)["applied"], json!([number(&deleted), number(&deleted)]));
    // What writes nothing has no revision and does not wait.
    let missing = ask(&gateway, "DELETE", "/routes/1?wait=applied&wait_timeout=60", "", &Value::Null);
    assert_eq!((missing.status(), missing.header("X-Tidegate-Revision")), (404, None));
    for query in ["wait=stored", "wait=applied&wait_timeout=0", "wait=applied&wait_timeout=x"] {
        let refused = ask(&gateway, "DELETE", &format!("/routes/2?{query}"), "", &Value::Null);
        assert_eq!(refused.status(), 400, "{query}");
    }
    let kept = ask(&gateway, "GET", "/routes/2", "", &Value::Null);
    assert_eq!(kept.status(), 200, "a refused wait writes nothing");
}

/// The write stands, whatever the compiler is busy with: it is no failure, and the answer says what it is.
#[test]
fn a_write_that_is_not_compiled_in_time_says_so() {
    let limits = "  admin:\n    limits: {compile_timeout: 1}\n";
    let config = EMBEDDED.replacen("  admin:\n", limits, 1);
    assert!(config.contains("compile_timeout"), "{config}");
    let gateway = Gateway::start(&config, None);
    // Compiled once for the check of the write, and once more for requests.
    let slow: Vec<String> = (0..PATTERNS).map(|number| format!("(x{{1,100}}){{1,100}}{number}")).collect();
    let plugins = json!({"ua-restriction": {"denylist": slow, "bypass_missing": true}, "mocking": {"response_example": "served"}});
    let put = ask(&gateway, "PUT", "/routes/1", "", &json!({"uri": "/slow", "plugins": plugins}));
    assert_eq!(put.status(), 201, "{}", put.body_text());
    let written = number(&put);
    let warning = put.header("X-Tidegate-Warning").unwrap_or_default();
    assert!(warning.starts_with(&format!("revision {written} is stored but not compiled yet")), "{warning}");
    gateway
        .wait_for_log(&format!("revision {written} is stored and acknowledged, but not compiled after 1 s"));
    assert_eq!(ask(&gateway, "GET", "/routes/1", "", &Value::Null).status(), 200, "stored");
    let begun = std::time::Instant::now();
    while revision(&gateway)["compiled"].as_u64() < Some(written) {
        assert!(begun.elapsed() < tidegate_testkit::PATIENCE, "never compiled");
    }
    assert_eq!(gateway.client().get("h", "/slow").expect("an answer").body_text(), "served");
}

#[test]
fn a_transaction_is_checked_by_its_outcome_and_is_one_revision() {
    let upstream = Upstream::service(|_| (200, "hello".to_owned()));
    let gateway = start();
    let nodes = json!({ upstream.address.to_string(): 1 });
    // The route comes before the service that it names.
    let changes = json!([
        {"method": "PUT", "path": "/routes/1", "value": {"uri": "/a", "service_id": "s"}},
        {"method": "PUT", "path": "/services/s", "value": {"upstream_id": "u"}},
        {"method": "PUT", "path": "/apisix/admin/upstreams/u", "value": {"nodes": nodes}},
        {"method": "PATCH", "path": "/routes/1", "value": {"name": "named"}},
    ]);
    let before = revision(&gateway)["stored"].as_u64().expect("a number");
    let dry = ask(&gateway, "POST", "/transactions", "", &json!({"dry_run": true, "changes": changes}));
    assert_eq!(dry.status(), 200, "{}", dry.body_text());
    let entries = json_of(&dry)["changes"].as_array().cloned().unwrap_or_default();
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|entry| entry["action"] == "create"), "{entries:?}");
    assert_eq!(revision(&gateway)["stored"], json!(before), "a dry run writes nothing");
    assert_eq!(json_of(&dry)["warnings"], Value::Null);
    let misspelled = json!({"uri": "/m", "plugins": {"key-auth": {"hide_credentails": true}}, "upstream": {"nodes": nodes}});
    let misspelled =
        json!({"dry_run": true, "changes": [{"method": "PUT", "path": "/routes/m", "value": misspelled}]});
    let dry = json_of(&ask(&gateway, "POST", "/transactions", "", &misspelled));
    let warned = dry["warnings"][0].as_str().unwrap_or_default();
    assert!(warned.starts_with("routes/m: ") && warned.contains("did you mean hide_credentials?"), "{dry}");

    let done =
        ask(&gateway, "POST", "/transactions?wait=applied&wait_timeout=60", "", &json!({"changes": changes}));
    assert_eq!(done.status(), 200, "{}", done.body_text());
    assert_eq!(number(&done), before + 1);
    assert_eq!(revision(&gateway)["applied"], json!([before + 1, before + 1]));
    let route = json_of(&ask(&gateway, "GET", "/routes/1", "", &Value::Null));
    assert_eq!(route["value"]["name"], "named");
    for path in ["/services/s", "/upstreams/u"] {
        let object = json_of(&ask(&gateway, "GET", path, "", &Value::Null));
        assert_eq!(object["modifiedIndex"], route["modifiedIndex"], "{path}");
    }
    assert_eq!(gateway.client().get("h", "/a").expect("an answer").status(), 200);

    // A service goes with its route, in any order; without it, it does not.
    let alone = json!({"changes": [{"method": "DELETE", "path": "/services/s"}]});
    let refused = ask(&gateway, "POST", "/transactions", "", &alone);
    assert_eq!(refused.status(), 400);
    assert!(refused.body_text().contains("route [1] is still using it"), "{}", refused.body_text());
    let together = json!({"changes": [
        {"method": "DELETE", "path": "/services/s"},
        {"method": "DELETE", "path": "/routes/1"},
    ]});
    assert_eq!(ask(&gateway, "POST", "/transactions", "", &together).status(), 200);
    assert_eq!(gateway.client().get("h", "/a").expect("an answer").status(), 404);
}

#[test]
fn a_transaction_that_is_refused_changes_nothing_and_says_where_it_is_wrong() {
    let gateway = start();
    let nodes = json!({"127.0.0.1:1": 1});
    let bad = json!({"changes": [
        {"method": "PUT", "path": "/upstreams/u", "value": {"nodes": nodes}},
        {"method": "PUT", "path": "/routes/1", "value": {"uri": 5, "upstream_id": "u"}},
        {"method": "PUT", "path": "/routes/2", "value": {"uri": "/b", "service_id": "nobody"}},
    ]});
    let refused = ask(&gateway, "POST", "/transactions", "", &bad);
    assert_eq!(refused.status(), 400, "{}", refused.body_text());
    let errors = json_of(&refused)["errors"].clone();
    assert_eq!(errors[0]["index"], 1);
    assert_eq!((&errors[0]["path"], &errors[0]["field"]), (&json!("/routes/1"), &json!("uri")));
    assert_eq!(errors[1]["index"], 2);
    assert!(errors[1]["error"].as_str().is_some_and(|text| text.contains("nobody")), "{errors}");
    assert_eq!(ask(&gateway, "GET", "/upstreams/u", "", &Value::Null).status(), 404);
    for change in [
        json!({"method": "POST", "path": "/routes/1", "value": {}}),
        json!({"method": "PUT", "path": "/nothing/1", "value": {}}),
        json!({"method": "PUT", "path": "/routes", "value": {"uri": "/"}}),
        json!({"method": "DELETE", "path": "/routes/77"}),
        json!({"method": "PATCH", "path": "/routes/77", "value": {"uri": "/"}}),
        json!({"method": "PUT", "path": "/routes/1"}),
    ] {
        let refused = ask(&gateway, "POST", "/transactions", "", &json!({"changes": [change.clone()]}));
        assert_eq!(refused.status(), 400, "{change}");
        assert_eq!(json_of(&refused)["errors"][0]["index"], 0, "{change}");
    }
    assert_eq!(revision(&gateway)["stored"], 0);
}

#[test]
fn if_match_lets_one_of_two_writers_through() {
    let gateway = start();
    let change = |uri: &str| {
        json!({"changes": [{"method": "PUT", "path": "/routes/1",
            "value": {"uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}}}]})
    };
    let first = ask(&gateway, "POST", "/transactions", "If-Match: 0\r\n", &change("/first"));
    assert_eq!(first.status(), 200, "{}", first.body_text());
    let second = ask(&gateway, "POST", "/transactions", "If-Match: 0\r\n", &change("/second"));
    assert_eq!((second.status(), json_of(&second)["revision"].clone()), (412, json!(1)));
    let route = json_of(&ask(&gateway, "GET", "/routes/1", "", &Value::Null));
    assert_eq!(route["value"]["uri"], "/first");
    let quoted = ask(&gateway, "POST", "/transactions", "If-Match: \"1\"\r\n", &change("/second"));
    assert_eq!(quoted.status(), 200);
    let nonsense = ask(&gateway, "POST", "/transactions", "If-Match: abc\r\n", &change("/third"));
    assert_eq!(nonsense.status(), 400);
}

#[test]
fn a_diff_shows_what_changes_and_no_secret() {
    let gateway = start();
    let consumer = |key: &str, label: &str| json!({"username": "jack", "labels": {"team": label}, "plugins": {"key-auth": {"key": key}}});
    let put = ask(&gateway, "PUT", "/consumers/jack", "", &consumer("first-secret", "a"));
    assert_eq!(put.status(), 201, "{}", put.body_text());
    let change = json!({"dry_run": true, "changes": [
        {"method": "PUT", "path": "/consumers/jack", "value": consumer("second-secret", "b")},
    ]});
    let dry = ask(&gateway, "POST", "/transactions", "", &change);
    assert_eq!(dry.status(), 200, "{}", dry.body_text());
    assert!(!dry.body_text().contains("-secret"), "{}", dry.body_text());
    let diff = json_of(&dry)["changes"][0]["diff"].clone();
    let entry = |path: &str| {
        let entries = diff.as_array().into_iter().flatten();
        entries.clone().find(|entry| entry["path"] == path).cloned().unwrap_or_default()
    };
    assert_eq!(entry("/labels/team"), json!({"path": "/labels/team", "before": "a", "after": "b"}), "{diff}");
    assert_eq!(entry("/plugins/key-auth/key")["after"], "***", "{diff}");
    assert_eq!(diff.as_array().map(Vec::len), Some(2), "{diff}");
}

#[test]
fn transactions_survive_a_restart() {
    let mut gateway = start();
    let changes: Vec<Value> = (0..50)
        .map(|id| {
            json!({"method": "PUT", "path": format!("/routes/{id}"),
                "value": {"uri": format!("/{id}"), "upstream": {"nodes": {"127.0.0.1:1": 1}}}})
        })
        .collect();
    let done = ask(&gateway, "POST", "/transactions", "", &json!({ "changes": changes }));
    assert_eq!((done.status(), number(&done)), (200, 1), "{}", done.body_text());
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    gateway.restart();
    assert_eq!(json_of(&ask(&gateway, "GET", "/routes", "", &Value::Null))["total"], 50);
    assert_eq!(revision(&gateway)["stored"], 1);
}
