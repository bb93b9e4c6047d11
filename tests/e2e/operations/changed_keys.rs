//! Keys of consumers are changed without a moment in which one of them is refused.

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, gateway::EMBEDDED};

fn put(gateway: &Gateway, path: &str, body: &Value) -> (u16, String) {
    gateway.admin("PUT", &format!("/apisix/admin/{path}?wait=applied"), &body.to_string())
}

#[test]
fn what_a_consumer_has_is_moved_into_a_credential() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({"uri": "/a", "plugins": {"key-auth": {}, "basic-auth": {"_meta": {"disable": true}},
        "mocking": {"response_example": "in"}}});
    let own =
        json!({"key-auth": {"key": "the-old-key"}, "basic-auth": {"username": "anna", "password": "a"}});
    for (path, body) in [
        ("routes/1", route),
        ("consumers/anna", json!({"username": "anna", "plugins": own})),
        ("consumers/bert", json!({"username": "bert", "plugins": {"key-auth": {"key": "of-bert"}}})),
    ] {
        let (status, answer) = put(&gateway, path, &body);
        assert_eq!(status, 201, "{answer}");
    }
    let is_let_in = |key: &str| {
        let text = format!("GET /a HTTP/1.1\r\nHost: a.test\r\napikey: {key}\r\n\r\n");
        gateway.client().request(&text).expect("an answer").status() == 200
    };
    // The key of another, and the name with another password, are still refused.
    for plugins in [
        json!({"key-auth": {"key": "of-bert"}}),
        json!({"basic-auth": {"username": "anna", "password": "b"}}),
    ] {
        let (status, answer) = put(&gateway, "consumers/anna/credentials/old", &json!({"plugins": plugins}));
        assert!(status == 400 && answer.contains("duplicate "), "{status} {answer}");
    }
    let (status, answer) = put(
        &gateway,
        "consumers/anna/credentials/old",
        &json!({"plugins": {"key-auth": {"key": "the-old-key"}}}),
    );
    assert_eq!(status, 201, "{answer}");
    let basic = json!({"plugins": {"basic-auth": {"username": "anna", "password": "a"}}});
    let (status, answer) = put(&gateway, "consumers/anna/credentials/basic", &basic);
    assert_eq!(status, 201, "{answer}");
    assert!(is_let_in("the-old-key"));
    let (status, answer) = put(&gateway, "consumers/anna", &json!({"username": "anna"}));
    assert_eq!(status, 200, "{answer}");
    assert!(is_let_in("the-old-key"), "the credential has it");
    let (status, rejected) = gateway.admin("GET", "/apisix/admin/rejected", "");
    assert!(status == 200 && !rejected.contains("anna"), "{rejected}");
    let (status, _) =
        gateway.admin("DELETE", "/apisix/admin/consumers/anna/credentials/old?wait=applied", "");
    assert_eq!(status, 200);
    assert!(!is_let_in("the-old-key"));
}
