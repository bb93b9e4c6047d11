//! Secrets that lie encrypted in the store and that no key decrypts: their encrypted texts are not the secrets.

use std::fs;

use serde_json::json;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Etcd, Gateway, eventually};

use super::{OPEN, admin, ask, put, rejected};

const OLD: &str = "keyring: [edd1c9f0985e76a2]";
const OTHER: &str = "keyring: [qeddd145sfvddff3]";
const BOTH: &str = "keyring: [qeddd145sfvddff3, edd1c9f0985e76a2]";
const NONE: &str = "keyring: []";
/// "bar" with the key of [`OLD`].
const SEALED_BAR: &str = "77+NmbYqNfN+oLm0aX5akg==";
/// Looks like one block, and is a key in plain.
const PLAIN: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

fn config(text: &str, encryption: &str) -> String {
    text.replacen("apisix:\n", &format!("apisix:\n  data_encryption: {{{encryption}}}\n"), 1)
}

fn with_key(gateway: &Gateway, key: &str) -> u16 {
    ask(gateway, "/k", &format!("apikey: {key}\r\n")).status()
}

fn consumer(key: &str) -> String {
    json!({"username": "jack", "plugins": {"key-auth": {"key": key}}}).to_string()
}

fn guarded() -> String {
    format!(r#"{{"uri":"/k","plugins":{{"key-auth":{{}},{OPEN}}}}}"#)
}

/// Starts again with other settings of the encryption.
fn again(gateway: &mut Gateway, before: &str, after: &str) {
    gateway.process.stop();
    let file = gateway.prefix().join("conf/config.yaml");
    let text = fs::read_to_string(&file).expect("config.yaml");
    assert!(text.contains(before), "{text}");
    fs::write(&file, text.replace(before, after)).expect("written");
    gateway.restart();
}

#[test]
fn an_encrypted_text_is_not_the_secret() {
    let mut gateway = Gateway::start(&config(EMBEDDED, OLD), None);
    put(&gateway, "routes/k", &guarded());
    put(&gateway, "consumers/jack", &consumer("bar"));
    assert_eq!((with_key(&gateway, "bar"), with_key(&gateway, SEALED_BAR)), (200, 401));
    let off = "keyring: [qeddd145sfvddff3], enable_encrypt_fields: false";
    let mut before = OLD;
    for after in [OTHER, NONE, off] {
        again(&mut gateway, before, after);
        before = after;
        assert_eq!((with_key(&gateway, "bar"), with_key(&gateway, SEALED_BAR)), (401, 401), "{after}");
        let found = rejected(&gateway);
        let [(object, reason)] = found.as_slice() else { panic!("{after}: {found:?}") };
        assert_eq!(object, "consumers/jack");
        for word in ["key of plugin key-auth", "put the old key back", "apisix.data_encryption.keyring"] {
            assert!(reason.contains(word), "{after}: {reason}");
        }
        gateway.wait_for_log("consumers/jack cannot be used: key of plugin key-auth: looks encrypted");
    }
    // What a GET shows, sent back, would make the encrypted text the key.
    let (status, shown) = gateway.admin("GET", "/apisix/admin/consumers/jack", "");
    assert!(status == 200 && shown.contains(SEALED_BAR), "{status} {shown}");
    let (status, why) = gateway.admin("PUT", "/apisix/admin/consumers/jack", &consumer(SEALED_BAR));
    assert!(status == 400 && why.contains("is still encrypted"), "{status} {why}");
    let change = json!({"path": "/consumers/jack", "method": "PUT",
        "value": {"username": "jack", "desc": "x", "plugins": {"key-auth": {"key": SEALED_BAR}}}});
    let transaction = json!({"changes": [change]}).to_string();
    let answer = admin(&gateway, "POST", "transactions", "", &transaction);
    assert!(answer.body_text().contains("is still encrypted"), "{}", answer.body_text());
    // None of the starts has encrypted it once more.
    again(&mut gateway, before, BOTH);
    assert_eq!((with_key(&gateway, "bar"), with_key(&gateway, SEALED_BAR)), (200, 401));
    assert_eq!(rejected(&gateway), []);
}

/// The history holds it as it lies in the store: going back to it would make the encrypted text the key.
#[test]
fn no_rollback_to_what_nobody_can_decrypt() {
    let mut gateway = Gateway::start(&config(EMBEDDED, OLD), None);
    put(&gateway, "routes/k", &guarded());
    put(&gateway, "consumers/jack", &consumer("bar"));
    assert!(matches!(admin(&gateway, "PUT", "checkpoints/one", "", "").status(), 200 | 201));
    again(&mut gateway, OLD, OTHER);
    put(&gateway, "consumers/jack", &consumer("new"));
    let back = json!({"checkpoint": "one"}).to_string();
    let answer = admin(&gateway, "POST", "rollback", "", &back);
    let text = answer.body_text();
    assert!(answer.status() != 200 && text.contains("looks encrypted"), "{} {text}", answer.status());
    assert_eq!((with_key(&gateway, "new"), with_key(&gateway, SEALED_BAR)), (200, 401));
    again(&mut gateway, OTHER, BOTH);
    assert_eq!(admin(&gateway, "POST", "rollback", "", &back).status(), 200);
    assert_eq!((with_key(&gateway, "bar"), with_key(&gateway, "new")), (200, 401));
}

/// Imported elsewhere, the encrypted text would be a key.
#[test]
fn what_cannot_be_read_is_not_exported() {
    let mut gateway = Gateway::start(&config(EMBEDDED, OLD), None);
    put(&gateway, "consumers/jack", &consumer("bar"));
    again(&mut gateway, OLD, OTHER);
    let (status, text) = gateway.admin("GET", "/apisix/admin/export", "");
    assert_eq!(status, 409, "{text}");
    assert!(text.contains("consumers/jack: ") && text.contains("keyring"), "{text}");
    assert!(!text.contains(SEALED_BAR), "{text}");
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/consumers/jack", "").0, 200);
    assert_eq!(gateway.admin("GET", "/apisix/admin/export", "").0, 200);
}

/// Without encryption a key is stored as it is, whatever it looks like, and stays one.
#[test]
fn a_plain_key_that_looks_encrypted_stays_a_key() {
    let mut gateway = Gateway::start(&config(EMBEDDED, NONE), None);
    put(&gateway, "routes/k", &guarded());
    put(&gateway, "consumers/jack", &consumer(PLAIN));
    let mut before = NONE;
    for after in [NONE, OTHER, "keyring: [qeddd145sfvddff3], enable_encrypt_fields: false"] {
        again(&mut gateway, before, after);
        before = after;
        assert_eq!(with_key(&gateway, PLAIN), 200, "{after}");
        assert_eq!(rejected(&gateway), [], "{after}");
    }
}

/// In etcd texts may be plain, as in APISIX: what looks encrypted counts as it stands, and is warned of once.
#[test]
fn in_etcd_it_is_warned_of() {
    let etcd = Etcd::start();
    etcd.put("/apisix/consumers/jack", &consumer(PLAIN));
    etcd.put(
        "/apisix/routes/k",
        &json!({"uri": "/k", "plugins": {"key-auth": {},
        "mocking": {"response_example": "open"}}})
        .to_string(),
    );
    let gateway = Gateway::start(&crate::config::etcd::config(&etcd.url()), None);
    assert_eq!(with_key(&gateway, PLAIN), 200);
    let warning = "[/apisix/consumers/jack]: key of plugin key-auth looks encrypted";
    gateway.wait_for_log(warning);
    etcd.put(
        "/apisix/consumers/jill",
        &json!({"username": "jill", "plugins": {"key-auth": {"key": "j"}}}).to_string(),
    );
    eventually("the second consumer", || with_key(&gateway, "j") == 200);
    assert_eq!(gateway.error_log().matches(warning).count(), 1);
}

/// Encrypted once more, it would be a secret that the old key opens to its own encrypted text.
#[test]
fn in_etcd_it_is_not_encrypted_a_second_time() {
    let etcd = Etcd::start();
    etcd.put("/apisix/consumers/jack", &consumer(SEALED_BAR));
    etcd.put("/apisix/routes/k", &guarded());
    let mut gateway = Gateway::start(&crate::config::etcd::config(&etcd.url()).replace(OLD, OTHER), None);
    let copy = gateway.prefix().join("data/etcd.snapshot");
    eventually("the last good copy", || {
        fs::read_to_string(&copy).is_ok_and(|text| text.contains("consumers/jack"))
    });
    let text = fs::read_to_string(&copy).expect("a copy");
    assert!(text.contains(SEALED_BAR), "{text}");
    // A change of another field writes it back as it was.
    let change = json!({"username": "jack", "desc": "x", "plugins": {"key-auth": {"key": SEALED_BAR}}});
    put(&gateway, "consumers/jack", &change.to_string());
    let shown = etcd.get("/apisix/consumers/jack");
    assert!(shown.contains("\"x\"") && shown.contains(SEALED_BAR), "{shown}");
    again(&mut gateway, OTHER, BOTH);
    assert_eq!((with_key(&gateway, "bar"), with_key(&gateway, SEALED_BAR)), (200, 401));
}

/// A file is not decrypted at all, as in APISIX.
#[test]
fn in_files_it_is_warned_of() {
    let document = json!({
        "routes": [{"id": "k", "uri": "/k", "plugins": {"key-auth": {}, "mocking": {"response_example": "open"}}}],
        "consumers": [{"username": "jack", "plugins": {"key-auth": {"key": SEALED_BAR}}}],
    });
    let gateway = Gateway::start(YAML_PROVIDER, Some(&document.to_string()));
    assert_eq!(with_key(&gateway, SEALED_BAR), 200);
    gateway.wait_for_log("consumers/jack: key of plugin key-auth looks encrypted");
}
