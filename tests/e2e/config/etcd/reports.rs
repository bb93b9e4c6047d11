//! What a gateway says of itself in etcd: plugin server-info.

use serde_json::{Value, json};
use tidegate_testkit::{Client, Etcd, Gateway, eventually};

use super::config;

const KEY: &str = "/apisix/data_plane/server_info/123456";

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn shown(gateway: &Gateway) -> Value {
    let mut control = Client::connect(gateway.control).expect("connects");
    let answer = control.get("localhost", "/v1/server_info").expect("an answer");
    assert_eq!(answer.status(), 200);
    parse(&answer.body_text())
}

#[test]
fn a_report_stays_as_long_as_its_gateway() {
    let etcd = Etcd::start();
    let config = config(&etcd.url()).replace("apisix:\n", "apisix:\n  id: 123456\n");
    let config = config.replace("plugin_attr:\n", "plugin_attr:\n  server-info: {report_ttl: 3}\n");
    let on = format!("{config}plugins: [server-info]\n");
    let gateway = Gateway::start(&on, None);
    eventually("the report is there", || !etcd.get(KEY).is_empty());
    let report = parse(&etcd.get(KEY));
    assert_eq!(report["id"], "123456");
    assert_eq!(report["version"], "3.18.0");
    assert!(report["boot_time"].is_u64() && report["hostname"].is_string(), "{report}");
    let version = report["etcd_version"].as_str().expect("a text");
    assert!(version.starts_with(char::is_numeric), "{report}");
    assert_eq!(shown(&gateway), report);
    // A lease keeps it: what was taken away comes back, and what nobody renews goes.
    etcd.control(&["del", KEY]);
    eventually("the report is back", || parse(&etcd.get(KEY)) == report);
    let lease = || etcd.control(&["lease", "list"]);
    assert!(lease().contains("found"), "{}", lease());
    drop(gateway);
    eventually("the report is gone", || etcd.get(KEY).is_empty());
}

#[test]
fn without_the_plugin_or_on_a_data_plane_there_is_none() {
    let etcd = Etcd::start();
    let gateway = Gateway::start(&config(&etcd.url()), None);
    let mut control = Client::connect(gateway.control).expect("connects");
    assert_eq!(control.get("localhost", "/v1/server_info").expect("an answer").status(), 404);
    assert!(
        !etcd.control(&["get", "--prefix", "/apisix/data_plane/", "--keys-only"]).contains("server_info")
    );
}

#[test]
fn plugins_answer_paths_of_the_control_api() {
    let gateway = Gateway::start(tidegate_testkit::gateway::YAML_PROVIDER, Some("routes: []\n"));
    let mut control = Client::connect(gateway.control).expect("connects");
    let mut ask = |query: &str| {
        let path = format!("/v1/plugin/example-plugin/hello{query}");
        let answer = control.get("localhost", &path).expect("an answer");
        (answer.header("Content-Type").unwrap_or_default().to_owned(), answer.body_text())
    };
    assert_eq!(ask("").1, "world\n");
    let (kind, body) = ask("?json");
    assert_eq!((kind.as_str(), parse(&body)), ("application/json", json!({"msg": "world"})));
}
