//! deploy/prometheus and deploy/grafana: the rules do what their tests say, and what they ask for is on the page.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
    fs,
    process::Command,
    time::Instant,
};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, workspace_root};
use tidegate_testkit::{Client, PATIENCE};

use crate::{protocols::certs, tidy::reference::is_current};

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

/// The metrics page of a gateway that has what some families need: a certificate, a logger, a request.
fn page() -> String {
    let gateway = Gateway::start(EMBEDDED, None);
    let pair = certs::self_signed("a.example");
    let ssl = json!({"snis": ["a.example"], "cert": pair.cert, "key": pair.key});
    assert_eq!(gateway.admin("PUT", "/apisix/admin/ssls/1", &ssl.to_string()).0, 201);
    let plugins = json!({
        "prometheus": {},
        "mocking": {"response_example": "x"},
        "http-logger": {"uri": "http://127.0.0.1:1/"},
    });
    let route = json!({"uri": "/*", "plugins": plugins});
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string()).0, 201);
    assert_eq!(gateway.client().get("a.example", "/").expect("a response").status(), 200);
    let mut page = String::new();
    // A request is counted once its response has been sent, and some families come with the first entry of theirs.
    let begun = Instant::now();
    let is_whole = |page: &str| chinese().keys().all(|name| page.contains(&format!("# TYPE apisix_{name} ")));
    while !is_whole(&page) && begun.elapsed() < PATIENCE {
        let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
        page = client.get("metrics", "/metrics").expect("a page").body_text();
    }
    page
}

/// What each metric is, by its name without the prefix.
fn chinese() -> HashMap<&'static str, &'static str> {
    include_str!("metrics.zh-CN.tsv").lines().filter_map(|line| line.split_once('\t')).collect()
}

const METRICS: &str = "# Metrics\n\n[中文](metrics.zh-CN.md)\n\nMade from the metrics page by the tests; do not edit. `apisix_` is \
`plugin_attr.prometheus.metric_prefix`. What the labels mean: [prometheus](../plugins/prometheus.md); what to alert on: \
[monitoring](../guide/monitoring.md).\n\nNames and labels stay over minor versions; labels may be added. HELP texts may change. In OpenMetrics \
counters without `_total` are of type unknown.\n\n| metric | type | what |\n|---|---|---|\n";
const METRICS_ZH: &str = "# 指标\n\n[English](metrics.md)\n\n由测试根据指标页面生成，请勿手工修改。`apisix_` 即 `plugin_attr.prometheus.metric_prefix`。\
标签的含义见 [prometheus](../plugins/prometheus.zh-CN.md)；对什么告警见[监控](../guide/monitoring.zh-CN.md)。\n\n名称和标签在次版本之间保持不变；可能增加标签。HELP \
文本可能改变。在 OpenMetrics 中，不以 `_total` 结尾的计数器类型为 unknown。\n\n| 指标 | 类型 | 内容 |\n|---|---|---|\n";

#[test]
fn the_reference_has_every_metric() {
    let (chinese, page) = (chinese(), page());
    let (mut english_page, mut chinese_page) = (METRICS.to_owned(), METRICS_ZH.to_owned());
    let (mut help, mut seen) = ("", 0);
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        seen += 1;
        let short = name.strip_prefix("apisix_").unwrap_or(name);
        let translated = chinese.get(short).unwrap_or_else(|| panic!("metrics.zh-CN.tsv has no {short}"));
        let _ = writeln!(english_page, "| `{name}` | {kind} | {help} |");
        let _ = writeln!(chinese_page, "| `{name}` | {kind} | {translated} |");
    }
    assert_eq!(seen, chinese.len(), "metrics.zh-CN.tsv has what the page does not have");
    is_current("metrics.md", &english_page);
    is_current("metrics.zh-CN.md", &chinese_page);
}

/// Names of metrics in a text of PromQL.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("apisix_")).map(str::to_owned).collect()
}

#[test]
fn what_rules_and_dashboard_ask_for_is_there() {
    let page = page();
    let known: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
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
