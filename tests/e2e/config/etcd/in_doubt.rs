//! Values of which nobody can say what they mean: a key given twice, and what is no JSON at all.

use std::time::Duration;

use serde_json::Value;
use tidegate_testkit::{Client, Etcd, Gateway, eventually};

use super::{config, metric, mock, status};

/// What `GET /v1/rejected` says of one object: the reason and the effect.
fn rejected(gateway: &Gateway, kind: &str, id: &str) -> Option<(String, String)> {
    let mut client = Client::connect(gateway.control).expect("the control port accepts connections");
    let body = client.get("localhost", "/v1/rejected").expect("an answer").body_text();
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let list = body["list"].as_array().expect("a list");
    let found = list.iter().find(|object| object["kind"] == kind && object["id"] == id)?;
    let text = |name: &str| found[name].as_str().expect("a text").to_owned();
    Some((text("reason"), text("effect")))
}

fn statuses(gateway: &Gateway, paths: &[&str]) -> Vec<u16> {
    paths.iter().map(|path| status(gateway, path)).collect()
}

/// Of the two paths nobody knows which is guarded, so that both are, and the one of before.
#[test]
fn a_key_that_is_given_twice_shuts_every_place() {
    let mut etcd = Etcd::start();
    etcd.put("/apisix/routes/all", &mock("/*", 200));
    let guard = r#""plugins":{"key-auth":{},"mocking":{"response_example":"x"}}"#;
    etcd.put("/apisix/routes/1", &format!(r#"{{"uri":"/e/*",{guard}}}"#));
    etcd.put("/apisix/routes/2", &format!(r#"{{"uri":"/host","host":"other",{guard}}}"#));
    etcd.put("/apisix/services/s", &format!(r#"{{"hosts":["other"],{guard}}}"#));
    etcd.put("/apisix/routes/3", r#"{"uri":"/service","service_id":"s"}"#);
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    assert_eq!(statuses(&gateway, &["/e/a", "/host", "/service"]), [401, 200, 200]);

    etcd.put("/apisix/routes/1", &format!(r#"{{"uri":"/f/*","uri":"/g/*","uris":["/u"],{guard}}}"#));
    eventually("the last path is shut", || status(&gateway, "/g/a") == 503);
    assert_eq!(statuses(&gateway, &["/e/a", "/f/a", "/u", "/h/a"]), [503, 503, 503, 200]);
    let (reason, effect) = rejected(&gateway, "routes", "1").expect("it is listed");
    assert_eq!(
        (reason.as_str(), effect.as_str()),
        ("key \"uri\" is given twice", "its requests are answered 503")
    );
    // For which host it is nobody can say.
    etcd.put("/apisix/routes/2", &format!(r#"{{"uri":"/host","host":"h","host":"other",{guard}}}"#));
    eventually("it is for every host", || status(&gateway, "/host") == 503);
    etcd.put("/apisix/services/s", &format!(r#"{{"hosts":["h"],"hosts":["other"],{guard}}}"#));
    eventually("its routes are for every host", || status(&gateway, "/service") == 503);
    // Nothing can be merged into it.
    let (refused, body) = gateway.admin("PATCH", "/apisix/admin/routes/1", r#"{"desc":"x"}"#);
    assert!(refused == 400 && body.contains("PUT the whole object"), "{body}");

    // What the snapshot says of it, and what is read again.
    let shut = ["/e/a", "/f/a", "/g/a", "/u", "/host", "/service"];
    gateway.process.stop();
    gateway.restart();
    assert_eq!(statuses(&gateway, &shut), [503; 6], "etcd is there");
    gateway.process.stop();
    etcd.kill();
    gateway.restart();
    assert_eq!(statuses(&gateway, &shut), [503; 6], "etcd is away");
    assert_eq!(status(&gateway, "/h/a"), 200);
    etcd.restart();
    etcd.put("/apisix/routes/1", &format!(r#"{{"uri":"/f/*",{guard}}}"#));
    eventually("it is fixed", || status(&gateway, "/f/a") == 401);
    assert_eq!(statuses(&gateway, &["/e/a", "/g/a", "/u"]), [200; 3]);
    assert_eq!(rejected(&gateway, "routes", "1"), None);
}

/// As in APISIX the last version goes on, but not in silence.
#[test]
fn what_is_no_json_is_listed_while_the_last_version_serves() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/1", &mock("/x", 201));
    let gateway = Gateway::start(&config(&etcd.url()), None);
    let count = |kind: &str| metric(&gateway, &format!("apisix_rejected_objects{{kind=\"{kind}\"}}"));
    assert_eq!((status(&gateway, "/x"), count("routes").as_str()), (201, "0"));
    for (value, reason) in [
        ("notjson", "it should be JSON"),
        ("", "it should be JSON"),
        (r#"{"uri":"/x"} x"#, "it should be JSON"),
        ("[]", "it should be an object"),
    ] {
        etcd.put("/apisix/routes/1", value);
        eventually(value, || {
            rejected(&gateway, "routes", "1").is_some_and(|(told, _)| told.starts_with(reason))
        });
        let (told, effect) = rejected(&gateway, "routes", "1").expect("it is listed");
        assert!(told.ends_with("; the last valid version stays in use"), "{told}");
        assert_eq!(effect, "none: the last valid version stays in use");
        assert_eq!((status(&gateway, "/x"), count("routes").as_str()), (201, "1"), "{value}");
    }
    let (refused, body) = gateway.admin("PATCH", "/apisix/admin/routes/1", r#"{"desc":"x"}"#);
    assert!(refused == 400 && body.contains("PUT the whole object"), "{body}");
    let (written, body) = gateway.admin("PUT", "/apisix/admin/routes/1", &mock("/x", 202));
    assert_eq!((written, status(&gateway, "/x")), (200, 202), "{body}");
    assert_eq!((rejected(&gateway, "routes", "1"), count("routes").as_str()), (None, "0"));
}

/// Whoever starts has no earlier version.
#[test]
fn what_is_no_json_at_a_start_is_told_each_time() {
    let etcd = Etcd::start();
    etcd.put("/apisix/routes/all", &mock("/*", 200));
    etcd.put("/apisix/routes/1", "{half");
    etcd.put("/apisix/plugin_configs/p", "{half");
    etcd.put(
        "/apisix/routes/2",
        r#"{"uri":"/p","plugin_config_id":"p","plugins":{"mocking":{"response_example":"x"}}}"#,
    );
    etcd.put("/apisix/consumers/a", "{half");
    let key = r#"{"uri":"/key","plugins":{"key-auth":{},"mocking":{"response_example":"x"}}}"#;
    etcd.put("/apisix/routes/3", key);
    let mut gateway = Gateway::start(&config(&etcd.url()), None);
    let told = "[/apisix/routes/1] err:it should be JSON: key must be a string at line 1 column 2; there is no \
                earlier version: what it guards is not known and NOT refused";
    for start in 1..=2 {
        assert_eq!(statuses(&gateway, &["/x", "/p", "/key"]), [200, 503, 401]);
        let (_, effect) = rejected(&gateway, "routes", "1").expect("it is listed");
        assert_eq!(effect, "unknown: other routes may serve its requests");
        for (kind, id) in [("plugin_configs", "p"), ("consumers", "a")] {
            assert!(rejected(&gateway, kind, id).is_some(), "{kind}/{id}");
        }
        assert_eq!(metric(&gateway, "apisix_rejected_objects{kind=\"routes\"}"), "1");
        assert!(gateway.error_log().matches(told).count() >= start, "{}", gateway.error_log());
        gateway.process.stop();
        std::fs::remove_file(gateway.prefix().join("data/etcd.snapshot")).expect("a snapshot");
        gateway.restart();
    }
    etcd.put("/apisix/global_rules/1", "no");
    eventually("a rule of which nothing is known guards everything", || status(&gateway, "/x") == 503);
    // What cannot be read can be deleted.
    for path in ["global_rules/1", "routes/1", "plugin_configs/p?force=true"] {
        let (deleted, body) = gateway.admin("DELETE", &format!("/apisix/admin/{path}"), "");
        assert_eq!(deleted, 200, "{path}: {body}");
    }
    let patience = eventually("all is served", || status(&gateway, "/x") == 200);
    assert!(patience < Duration::from_secs(5));
    assert_eq!(rejected(&gateway, "routes", "1"), None);
}
