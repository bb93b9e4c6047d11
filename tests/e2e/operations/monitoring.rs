//! deploy/prometheus and deploy/grafana: the rules do what their tests say, and what they ask for is on the page.

use std::{collections::BTreeSet, fs, process::Command};

use serde_json::Value;
use tidegate_testkit::Client;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, workspace_root};

/// Series that are there only with etcd, certificates, loggers or health checks; `tests/e2e` has tests of each.
const ELSEWHERE: [&str; 2] =
    ["apisix_ssl_certificate_expiry_timestamp_seconds", "apisix_log_entries_dropped_total"];

#[test]
fn the_rules_do_what_their_tests_say() {
    let folder = workspace_root().join("deploy/prometheus");
    for arguments in [["test", "rules", "rules.test.yaml"], ["check", "config", "prometheus.yml"]] {
        let output = match Command::new("promtool").args(arguments).current_dir(&folder).output() {
            Err(_) => {
                eprintln!("skipped: promtool is not installed (Debian's package prometheus)");
                return;
            }
            Ok(output) => output,
        };
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {text}");
    }
}

/// Names of metrics in a text of PromQL.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("apisix_")).map(str::to_owned).collect()
}

#[test]
fn what_rules_and_dashboard_ask_for_is_there() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = r#"{"uri": "/*", "plugins": {"prometheus": {}, "mocking": {"response_example": "x"}}}"#;
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", route).0, 201);
    assert_eq!(gateway.client().get("a.example", "/").expect("a response").status(), 200);
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/metrics").expect("a page").body_text();
    let known: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .chain(ELSEWHERE)
        .collect();
    for file in ["deploy/prometheus/rules.yaml", "deploy/grafana/tidegate.json"] {
        let text = fs::read_to_string(workspace_root().join(file)).expect("a file");
        let asked = metrics(&text);
        assert!(asked.len() > 10, "{file}: {asked:?}");
        let base = |name: &String| name.strip_suffix("_bucket").unwrap_or(name).to_owned();
        let missing: Vec<String> =
            asked.iter().map(base).filter(|name| !known.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}");
    }
}

#[test]
fn the_dashboard_is_one() {
    let text = fs::read_to_string(workspace_root().join("deploy/grafana/tidegate.json")).expect("a file");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["targets"].as_array().is_some_and(|targets| !targets.is_empty()), "{}", panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
    }
}
