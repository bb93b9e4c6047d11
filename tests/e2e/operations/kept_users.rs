//! Users survive what a store goes through: backups, restores, a damaged file.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tidegate_testkit::eventually;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, binary};

fn put(gateway: &Gateway, name: &str) {
    let user = r#"{"role":"viewer","password":"correct horse battery"}"#;
    let (code, answer) = gateway.admin("PUT", &format!("/apisix/admin/users/{name}"), user);
    assert_eq!(code, 201, "{answer}");
}

fn users(gateway: &Gateway) -> Vec<String> {
    let (code, answer) = gateway.admin("GET", "/apisix/admin/users", "");
    assert_eq!(code, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let list = answer["list"].as_array().expect("a list");
    list.iter().map(|user| user["name"].as_str().expect("a name").to_owned()).collect()
}

fn config(prefix: &Path, words: &[&str]) -> String {
    let mut command = Command::new(binary());
    let output =
        command.arg("config").args(words).arg("--prefix").arg(prefix).output().expect("tidegate runs");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    said
}

#[test]
fn a_backup_has_the_users_and_a_restore_brings_no_deleted_one_back() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    ["ann", "bob"].iter().for_each(|name| put(&gateway, name));
    let backup = gateway.prefix().join("backup");
    let file = backup.to_str().expect("a path");
    let said = config(gateway.prefix(), &["backup", file]);
    assert!(said.contains(" and 2 users"), "{said}");
    let (code, _) = gateway.admin("DELETE", "/apisix/admin/users/bob", "");
    assert_eq!(code, 200);
    put(&gateway, "cid");
    gateway.process.stop();
    let said = config(gateway.prefix(), &["restore", file]);
    assert!(said.contains("users of the replaced store, which stay: 2"), "{said}");
    gateway.restart();
    assert_eq!(users(&gateway), ["ann", "cid"]);
    gateway.process.stop();
    let stopped = config(gateway.prefix(), &["backup", file]);
    assert!(stopped.contains(" and 2 users"), "{stopped}");
    // A new machine has no store.
    let mut other = Gateway::start(EMBEDDED, None);
    other.process.stop();
    fs::remove_dir_all(other.prefix().join("data")).expect("removed");
    let said = config(other.prefix(), &["restore", file]);
    assert!(said.contains("users from the backup: 2"), "{said}");
    other.restart();
    assert_eq!(users(&other), ["ann", "cid"]);
}

#[test]
fn a_repair_brings_the_users_along() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "ann");
    let copy = gateway.prefix().join("data/tidegate.last-good");
    let has =
        |name: &str| fs::read_to_string(&copy).is_ok_and(|text| text.contains(&format!("user\t\"{name}\"")));
    eventually("the copy has the user", || has("ann"));
    put(&gateway, "bob");
    let (code, _) = gateway.admin("DELETE", "/apisix/admin/users/ann", "");
    assert_eq!(code, 200);
    eventually("the copy follows", || has("bob") && !has("ann"));
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    let store = gateway.prefix().join("data/tidegate.redb");
    let file = fs::File::options().write(true).open(&store).expect("a store");
    file.set_len(4096).expect("truncated");
    let said = config(gateway.prefix(), &["repair"]);
    assert!(said.contains("with 0 objects and 1 user;"), "{said}");
    gateway.restart();
    assert_eq!(users(&gateway), ["bob"]);
}
