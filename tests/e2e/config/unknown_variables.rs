//! A variable that no request has is reported wherever a configuration refers to one.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, binary};
use tidegate_testkit::{Client, Gateway, free_port};

use super::config_keys::embedded;

const WHAT: &str = "nosuch is not a variable";

/// Plugins with one field that refers to `nosuch`.
fn plugins() -> Vec<(&'static str, Value)> {
    let condition = || json!([["nosuch", "==", "1"]]);
    let nodes = json!({"127.0.0.1:1": 1});
    let cache = |field: &str| {
        let mut conf = json!({"cache_strategy": "memory", "cache_zone": "memory_cache"});
        conf[field] = json!(["$nosuch"]);
        conf
    };
    let lago = |field: &str| {
        let mut conf = json!({"endpoint_addrs": ["http://127.0.0.1:1"], "token": "t", "event_code": "c",
            "event_transaction_id": "$request_id", "event_subscription_id": "$host"});
        conf[field] = if field == "event_properties" { json!({"a": "$nosuch"}) } else { json!("$nosuch") };
        conf
    };
    let split = |upstream: Value| json!({"rules": [{"weighted_upstreams": [{"upstream": upstream}]}]});
    vec![
        ("proxy-rewrite", json!({"uri": "/$nosuch"})),
        ("proxy-rewrite", json!({"headers": {"set": {"X-A": "$nosuch"}}})),
        ("proxy-rewrite", json!({"headers": {"add": {"X-A": "$nosuch"}}})),
        ("proxy-rewrite", json!({"headers": {"X-A": "$nosuch"}})),
        ("response-rewrite", json!({"headers": {"set": {"X-A": "$nosuch"}}})),
        ("response-rewrite", json!({"headers": {"add": ["X-A: $nosuch"]}})),
        ("response-rewrite", json!({"body": "a", "vars": condition()})),
        ("redirect", json!({"uri": "/$nosuch"})),
        ("mocking", json!({"response_example": "$nosuch"})),
        ("mocking", json!({"response_example": "a", "response_headers": {"X-A": "$nosuch"}})),
        ("fault-injection", json!({"abort": {"http_status": 403, "body": "$nosuch"}})),
        ("fault-injection", json!({"abort": {"http_status": 403, "vars": [condition()]}})),
        ("fault-injection", json!({"delay": {"duration": 1, "vars": [condition()]}})),
        (
            "api-breaker",
            json!({"break_response_code": 502, "break_response_body": "a",
            "break_response_headers": [{"key": "X-A", "value": "$nosuch"}]}),
        ),
        ("forward-auth", json!({"uri": "http://127.0.0.1:1", "extra_headers": {"X-A": "$nosuch"}})),
        ("limit-count", json!({"count": 1, "time_window": 1, "key": "nosuch"})),
        (
            "limit-count",
            json!({"count": 1, "time_window": 1, "key": "$nosuch", "key_type": "var_combination"}),
        ),
        ("limit-count", json!({"rules": [{"count": 1, "time_window": 1, "key": "${nosuch}"}]})),
        ("limit-count", json!({"count": "${nosuch}", "time_window": 1})),
        ("limit-req", json!({"rate": 1, "burst": 1, "key": "nosuch"})),
        ("limit-conn", json!({"conn": 1, "burst": 1, "default_conn_delay": 1, "key": "nosuch"})),
        ("workflow", json!({"rules": [{"case": condition(), "actions": [["return", {"code": 403}]]}]})),
        (
            "workflow",
            json!({"rules": [{"actions": [["limit-count", {"count": 1, "time_window": 1, "key": "nosuch"}]]}]}),
        ),
        (
            "traffic-label",
            json!({"rules": [{"match": condition(), "actions": [{"set_headers": {"X-A": "1"}}]}]}),
        ),
        ("traffic-label", json!({"rules": [{"actions": [{"set_headers": {"X-A": "$nosuch"}}]}]})),
        (
            "traffic-split",
            json!({"rules": [{"match": [{"vars": condition()}], "weighted_upstreams": [{"weight": 1}]}]}),
        ),
        (
            "traffic-split",
            split(json!({"nodes": nodes, "type": "chash", "hash_on": "vars_combinations", "key": "$nosuch"})),
        ),
        ("proxy-cache", cache("cache_key")),
        ("proxy-cache", cache("cache_bypass")),
        ("proxy-cache", cache("no_cache")),
        ("real-ip", json!({"source": "nosuch"})),
        ("key-auth", json!({"_meta": {"filter": condition()}})),
        ("file-logger", json!({"path": "logs/a.log", "log_format": {"a": "$nosuch"}})),
        ("file-logger", json!({"path": "logs/a.log", "log_format_extra": {"a": "$nosuch"}})),
        ("file-logger", json!({"path": "logs/a.log", "match": [condition()]})),
        (
            "file-logger",
            json!({"path": "logs/a.log", "include_resp_body": true, "include_resp_body_expr": condition()}),
        ),
        (
            "http-logger",
            json!({"uri": "http://127.0.0.1:1", "include_req_body": true, "include_req_body_expr": condition()}),
        ),
        (
            "kafka-logger",
            json!({"brokers": [{"host": "127.0.0.1", "port": 1}], "kafka_topic": "t", "log_format": {"a": "$nosuch"}}),
        ),
        ("loki-logger", json!({"endpoint_addrs": ["http://127.0.0.1:1"], "log_labels": {"a": "$nosuch"}})),
        (
            "elasticsearch-logger",
            json!({"endpoint_addrs": ["http://127.0.0.1:1"], "field": {"index": "a-$nosuch"}}),
        ),
        ("lago", lago("event_transaction_id")),
        ("lago", lago("event_subscription_id")),
        ("lago", lago("event_properties")),
        ("syslog", json!({"host": "127.0.0.1", "port": 1, "log_format": {"a": "$nosuch"}})),
        ("chaitin-waf", json!({"match": [{"vars": condition()}]})),
        ("opentelemetry", json!({"sampler": {"name": "always_on"}, "additional_attributes": ["nosuch"]})),
    ]
}

#[test]
fn every_field_of_plugins_says_so() {
    let names: std::collections::BTreeSet<&str> = plugins().into_iter().map(|(name, _)| name).collect();
    let config = format!("{EMBEDDED}\nplugins: {}\n", json!(names));
    let gateway = Gateway::start(&config, None);
    let put = |path: &str, body: Value| {
        let body = body.to_string();
        let put = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
        assert!(matches!(answer.status(), 200 | 201), "{path} {body}: {}", answer.body_text());
        answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
    };
    let mut silent = Vec::new();
    for (name, conf) in plugins() {
        let said = put(
            "routes/1",
            json!({"uri": "/1", "plugins": {name: conf.clone()}, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
        );
        if !said.contains(WHAT) {
            silent.push(format!("{name} {conf}: {said:?}"));
        }
    }
    let said = put("plugin_metadata/file-logger", json!({"log_format": {"a": "$nosuch"}}));
    if !said.contains(WHAT) {
        silent.push(format!("metadata of file-logger: {said:?}"));
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The log masks texts that may be secrets, which names of variables are not.
#[test]
fn a_start_names_the_variable() {
    let routes = json!({
        "routes": [{"id": "1", "uri": "/1", "upstream": {"nodes": {"127.0.0.1:1": 1}},
            "plugins": {"file-logger": {"path": "logs/a.log", "match": [[["nosuch", "==", "1"]]]}}}],
        "plugin_metadata": [{"id": "http-logger", "log_format": {"a": "$nosuch", "b": "open-sesame"}}],
    });
    let gateway = Gateway::start(tidegate_testkit::gateway::YAML_PROVIDER, Some(&routes.to_string()));
    gateway.wait_for_log("routes/1: the condition nosuch == 1: $nosuch is not a variable");
    gateway.wait_for_log("plugin_metadata/http-logger: log_format: $nosuch is not a variable");
}

#[test]
fn labels_of_metrics_say_so() {
    let test = |variable: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let keys =
            [("plugin_attr.prometheus.metrics.http_status.extra_labels", json!([{"tenant": variable}]))];
        let ports = ["\"@HTTP@\"", "\"@ADMIN@\"", "\"@CONTROL@\"", "\"@METRICS@\"", "\"@TLS@\""];
        let config =
            ports.iter().fold(embedded(&keys), |text, port| text.replace(port, &free_port().to_string()));
        std::fs::create_dir(folder.path().join("conf")).expect("a folder");
        std::fs::write(folder.path().join("conf/config.yaml"), config).expect("a file");
        let output = Command::new(binary())
            .args(["test", "--prefix"])
            .arg(folder.path())
            .output()
            .expect("tidegate runs");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = test("$remte_addr");
    let wanted = "plugin_attr.prometheus.metrics.http_status.extra_labels[0].tenant: $remte_addr is not a variable of the \
                  gateway and is empty unless Lua sets it; did you mean remote_addr?";
    assert!(said.contains(wanted) && said.contains("conf/config.yaml:"), "{said}");
    for variable in ["$remote_addr", "$http_x_tenant", "$arg_tenant"] {
        assert!(!test(variable).contains("is not a variable"), "{variable}");
    }
}
