//! Keys of consumers, and those that encrypt what is stored, are changed without a moment in which somebody is refused.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
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

const OLD: &str = "the-old-key-0000";
const NEW: &str = "the-new-key-0001";

/// Writes these keys into config.yaml.
fn set_keyring(gateway: &Gateway, keys: &[&str]) {
    let file = gateway.prefix().join("conf/config.yaml");
    let text = fs::read_to_string(&file).expect("config.yaml");
    let keyring = format!("  data_encryption: {{keyring: {}}}", json!(keys));
    let others = text.lines().filter(|line| !line.starts_with("  data_encryption"));
    let lines: Vec<&str> =
        others.flat_map(|line| [line].into_iter().chain((line == "apisix:").then_some(&*keyring))).collect();
    fs::write(&file, lines.join("\n")).expect("written");
}

/// Whoever takes a key of the keyring away too early is told, and nothing changes.
#[test]
fn a_key_that_objects_need_stays_in_use() {
    let with_old =
        EMBEDDED.replacen("apisix:\n", &format!("apisix:\n  data_encryption: {{keyring: [{OLD}]}}\n"), 1);
    let gateway = Gateway::start(&with_old, None);
    let route = json!({"uri": "/a", "plugins": {"key-auth": {}, "mocking": {"response_example": "in"}}});
    let consumer = json!({"username": "anna", "plugins": {"key-auth": {"key": "of-anna"}}});
    for (path, body) in [("routes/1", &route), ("consumers/anna", &consumer)] {
        let (status, answer) = put(&gateway, path, body);
        assert_eq!(status, 201, "{answer}");
    }
    let status = || {
        let text = "GET /a HTTP/1.1\r\nHost: a.test\r\napikey: of-anna\r\n\r\n";
        gateway.client().request(text).expect("an answer").status()
    };
    set_keyring(&gateway, &[NEW, OLD]);
    let (done, text) = gateway.verb("reload");
    assert!(done, "{text}");
    assert_eq!(status(), 200);
    let pid = gateway.pid();
    set_keyring(&gateway, &[NEW]);
    for verb in ["test", "doctor", "reload", "upgrade"] {
        let (done, text) = gateway.verb(verb);
        assert!(!done && text.contains("consumers/anna"), "{verb}: {text}");
        assert!(text.contains("put the old key back"), "{verb}: {text}");
        assert!(!text.contains(NEW) && !text.contains("of-anna"), "{verb}: {text}");
        assert_eq!((gateway.pid(), status()), (pid, 200), "{verb}: nothing changes");
    }
    let serving = pid.and_then(Pid::from_raw).expect("a pid");
    kill_process(serving, Signal::HUP).expect("signalled");
    gateway.wait_for_log("no key decrypts 1 object that can be used now: consumers/anna");
    let (_, text) = gateway.verb_with(&["reload", "--force"]);
    assert!(
        text.contains("that could be used before cannot be") && text.contains("consumers/anna"),
        "{text}"
    );
    assert!(status() >= 400 && gateway.pid() != pid);
    set_keyring(&gateway, &[NEW, OLD]);
    let (done, text) = gateway.verb("reload");
    assert!(done && status() == 200, "{text}");
    // Step 2 of the guide: written again, it needs the new key only.
    let (written, answer) = put(&gateway, "consumers/anna", &consumer);
    assert_eq!(written, 200, "{answer}");
    set_keyring(&gateway, &[NEW]);
    for verb in ["test", "reload"] {
        let (done, text) = gateway.verb(verb);
        assert!(done, "{verb}: {text}");
        assert_eq!(status(), 200, "{verb}");
    }
}
