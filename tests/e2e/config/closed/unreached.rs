//! Guards behind a plugin that answers every request: the write says that they never run, and so does the log for a file.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};

use super::{admin, status};

/// What a write is warned of.
fn warning(gateway: &Gateway, path: &str, object: &Value) -> String {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

fn nobody() -> Value {
    json!({"whitelist": ["10.0.0.1"]})
}

#[test]
fn a_guard_behind_an_answer_is_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let mock = json!({"response_example": "open"});
    let abort = json!({"abort": {"http_status": 200}});
    for (plugins, guards, answers) in [
        (json!({"mocking": mock, "ip-restriction": nobody()}), "ip-restriction never runs", "mocking"),
        (
            json!({"mocking": mock, "csrf": {"key": "k"}, "limit-count": {"count": 1, "time_window": 60}}),
            "csrf, limit-count never run",
            "mocking",
        ),
        (
            json!({"redirect": {"uri": "/o"}, "ua-restriction": {"denylist": ["curl"]}}),
            "ua-restriction never runs",
            "redirect",
        ),
        (json!({"fault-injection": abort, "key-auth": {}}), "key-auth never runs", "fault-injection"),
    ] {
        let told = warning(&gateway, "routes/r", &json!({"uri": "/r", "plugins": plugins}));
        let wanted = format!("{guards}: {answers} answers every request before");
        assert!(told.contains(&wanted), "{plugins}: {told}");
    }
    // Those that have their turn, and answers that not every request gets.
    for plugins in [
        json!({"mocking": mock, "key-auth": {}}),
        json!({"mocking": mock, "ip-restriction": {"whitelist": ["10.0.0.1"], "_meta": {"priority": 20000}}}),
        json!({"mocking": {"response_example": "a", "_meta": {"filter": [["arg_a", "==", "b"]]}}, "ip-restriction": nobody()}),
        json!({"fault-injection": {"abort": {"http_status": 200, "percentage": 50}}, "ip-restriction": nobody()}),
        json!({"redirect": {"http_to_https": true}, "ua-restriction": {"denylist": ["curl"]}}),
        json!({"mocking": mock, "cors": {}, "http-logger": {"uri": "http://127.0.0.1:1/"}}),
    ] {
        let told = warning(&gateway, "routes/r", &json!({"uri": "/r", "plugins": plugins}));
        assert!(!told.contains("never run"), "{plugins}: {told}");
    }
    let route = json!({"uri": "/r", "plugins": {"mocking": mock, "ip-restriction": nobody()}});
    warning(&gateway, "routes/r", &route);
    assert_eq!(status(&gateway, "/r"), 200, "as it is in APISIX");
}

#[test]
fn the_chain_of_a_route_has_the_plugins_of_its_service() {
    let gateway = Gateway::start(EMBEDDED, None);
    let service = json!({"plugins": {"key-auth": {}, "ip-restriction": nobody()}});
    assert_eq!(warning(&gateway, "services/sg", &service), "");
    let route = json!({"uri": "/mf", "service_id": "sg", "plugins": {"fault-injection": {"abort": {"http_status": 200}}}});
    let told = warning(&gateway, "routes/mf", &route);
    let wanted = "key-auth of services/sg, ip-restriction of services/sg never run: fault-injection answers";
    assert!(told.contains(wanted), "{told}");
    for path in ["services/both", "plugin_configs/both", "global_rules/both"] {
        let both = json!({"plugins": {"mocking": {"response_example": "m"}, "csrf": {"key": "k"}}});
        let told = warning(&gateway, path, &both);
        assert!(told.contains("csrf never runs: mocking answers every request before"), "{path}: {told}");
    }
}

#[test]
fn a_file_is_told_with_the_place() {
    let routes = "routes:\n- id: r\n  uri: /r\n  plugins:\n    mocking: {response_example: a}\n    ip-restriction: {whitelist: [10.0.0.1]}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    let wanted = "routes/r: ip-restriction never runs: mocking answers every request before";
    gateway.wait_for_log(wanted);
    let (_, said) = gateway.verb("test");
    assert!(said.contains(wanted), "{said}");
}
