//! Starts without etcd: from the last good configuration on disk, or not at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tidegate_testkit::{Etcd, Gateway, eventually};

use super::{check_refused, config, mock, status};

#[test]
fn the_last_good_configuration_serves_until_etcd_is_back() {
    let mut etcd = Etcd::start();
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    let put = |gateway: &Gateway, id: &str, status: u16| {
        gateway.admin("PUT", &format!("/apisix/admin/routes/{id}"), &mock(&format!("/{id}"), status)).0
    };
    assert_eq!(put(&gateway, "one", 201), 201);
    let (code, answer) = gateway.admin(
        "PUT",
        "/apisix/admin/consumers",
        r#"{"username":"jack","plugins":{"key-auth":{"key":"very-secret"}}}"#,
    );
    assert_eq!(code, 201, "{answer}");
    let file = gateway.prefix().join("data/etcd.snapshot");
    // Not asked to stop: what is on disk then is what was written after changes settled.
    eventually("the snapshot has the newest object", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("consumers/jack"))
    });
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    let text = fs::read_to_string(&file).expect("a snapshot");
    assert!(!text.contains("very-secret"), "secrets are encrypted as in etcd: {text}");
    assert_eq!(fs::metadata(&file).expect("a snapshot").permissions().mode() & 0o777, 0o600);

    etcd.kill();
    gateway.restart();
    assert_eq!(status(&gateway, "/one"), 201);
    assert!(gateway.error_log().contains("etcd cannot be used"), "{}", gateway.error_log());
    assert_eq!(put(&gateway, "two", 201), 503);
    assert_eq!(gateway.admin("GET", "/apisix/admin/routes/one", "").0, 200);
    assert_eq!(status(&gateway, "/two"), 404);

    etcd.restart();
    etcd.put("/apisix/routes/three", &mock("/three", 203));
    let took = eventually("the gateway catches up", || status(&gateway, "/three") == 203);
    println!("after a start without etcd: caught up within {took:?}");
    eventually("writes work again", || put(&gateway, "two", 202) == 201);
    assert_eq!(status(&gateway, "/two"), 202);

    // Asked to stop, it leaves the newest state behind at once.
    assert_eq!(put(&gateway, "four", 204), 201);
    gateway.process.stop();
    assert!(fs::read_to_string(&file).expect("a snapshot").contains("routes/four"));
}

#[test]
fn a_damaged_snapshot_is_named_and_not_used() {
    let mut etcd = Etcd::start();
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/one", 201)).0, 201);
    gateway.process.stop();
    let file = gateway.prefix().join("data/etcd.snapshot");
    let text = fs::read_to_string(&file).expect("a snapshot");
    let damages = [
        text.replace("/one", "/two"),
        text[..text.len() / 2].to_owned(),
        String::new(),
        text.replace("configuration 1", "configuration 9"),
    ];
    for damaged in &damages {
        fs::write(&file, damaged).expect("written");
        gateway.restart();
        assert_eq!(status(&gateway, "/one"), 201, "etcd is there, so the file does not matter");
        gateway.process.stop();
    }
    let complaints = gateway.error_log().matches("etcd.snapshot is not used").count();
    assert_eq!(complaints, damages.len(), "{}", gateway.error_log());

    // Without etcd and without a good file there is nothing to serve: better not to listen than to answer 404.
    etcd.kill();
    fs::write(&file, &damages[0]).expect("written");
    gateway.restart_unready();
    check_refused(gateway, "etcd cannot be used");
}

#[test]
fn other_keys_read_etcd_and_not_the_snapshot() {
    let etcd = Etcd::start();
    let with_keys = |keys: &str| config(&etcd.url()).replace("edd1c9f0985e76a2", keys);
    let mut gateway = Gateway::start(&with_keys("edd1c9f0985e76a2"), None);
    let body = r#"{"username":"jack","plugins":{"key-auth":{"key":"jacks"}}}"#;
    assert_eq!(gateway.admin("PUT", "/apisix/admin/consumers", body).0, 201);
    let restart = |gateway: &mut Gateway, from: &str, to: &str| {
        gateway.process.stop();
        let file = gateway.prefix().join("conf/config.yaml");
        let text = fs::read_to_string(&file).expect("config.yaml");
        fs::write(&file, text.replace(from, to)).expect("config.yaml");
        gateway.restart();
        gateway.admin("GET", "/apisix/admin/consumers/jack", "").1
    };
    // The snapshot of this run is encrypted with the new key, etcd's value still with the old one.
    let shown = restart(&mut gateway, "[edd1c9f0985e76a2]", "[qeddd145sfvddff3, edd1c9f0985e76a2]");
    assert!(shown.contains(r#""key":"jacks""#), "{shown}");
    let touched = gateway.prefix().join("data/etcd.snapshot");
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/one", 201)).0, 201);
    eventually("the snapshot is new", || {
        fs::read_to_string(&touched).is_ok_and(|text| text.contains("routes/1"))
    });
    let shown = restart(&mut gateway, "[qeddd145sfvddff3, edd1c9f0985e76a2]", "[edd1c9f0985e76a2]");
    assert!(shown.contains(r#""key":"jacks""#), "{shown}");
}
