//! Names and values of header fields in configurations: a line break in one is refused when it is written, wherever it
//! stands. And names on a terminal: what would act on it is escaped.

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

/// Each plugin's configuration with `@` where a header's name, or its value, stands.
const PLUGINS: &[(&str, &str)] = &[
    ("proxy-rewrite", r#"{"headers": {"set": {"@": "v"}}}"#),
    ("proxy-rewrite", r#"{"headers": {"add": {"X-A": "@"}}}"#),
    ("proxy-rewrite", r#"{"headers": {"remove": ["@"]}}"#),
    ("proxy-rewrite", r#"{"headers": {"X-A": "@"}}"#),
    ("response-rewrite", r#"{"headers": {"set": {"@": "v"}}}"#),
    ("response-rewrite", r#"{"headers": {"set": {"X-A": "@"}}}"#),
    ("response-rewrite", r#"{"headers": {"add": ["X-A: @"]}}"#),
    ("response-rewrite", r#"{"headers": {"remove": ["@"]}}"#),
    ("cors", r#"{"allow_headers": "@"}"#),
    ("cors", r#"{"expose_headers": "@"}"#),
    ("cors", r#"{"allow_methods": "@"}"#),
    ("mocking", r#"{"response_example": "x", "response_headers": {"@": "v"}}"#),
    ("mocking", r#"{"response_example": "x", "response_headers": {"X-A": "@"}}"#),
    ("mocking", r#"{"response_example": "x", "content_type": "text/plain;@"}"#),
    ("fault-injection", r#"{"abort": {"http_status": 403, "headers": {"@": "v"}}}"#),
    ("fault-injection", r#"{"abort": {"http_status": 403, "headers": {"X-A": "@"}}}"#),
    ("forward-auth", r#"{"uri": "http://127.0.0.1/", "request_headers": ["@"]}"#),
    ("forward-auth", r#"{"uri": "http://127.0.0.1/", "upstream_headers": ["@"]}"#),
    ("forward-auth", r#"{"uri": "http://127.0.0.1/", "client_headers": ["@"]}"#),
    ("forward-auth", r#"{"uri": "http://127.0.0.1/", "extra_headers": {"@": "v"}}"#),
    ("forward-auth", r#"{"uri": "http://127.0.0.1/", "extra_headers": {"X-A": "@"}}"#),
    ("opa", r#"{"host": "http://127.0.0.1", "policy": "p", "send_headers_upstream": ["@"]}"#),
    ("http-logger", r#"{"uri": "http://127.0.0.1/", "auth_header": "@"}"#),
    ("splunk-hec-logging", r#"{"endpoint": {"uri": "http://127.0.0.1", "token": "@"}}"#),
    ("splunk-hec-logging", r#"{"endpoint": {"uri": "http://127.0.0.1", "token": "t", "channel": "@"}}"#),
    ("loggly", r#"{"customer_token": "t", "tags": ["a", "@"]}"#),
    ("loggly", r#"{"customer_token": "@"}"#),
    (
        "clickhouse-logger",
        r#"{"endpoint_addr": "http://127.0.0.1", "user": "@", "password": "", "database": "", "logtable": ""}"#,
    ),
    (
        "clickhouse-logger",
        r#"{"endpoint_addr": "http://127.0.0.1", "user": "", "password": "@", "database": "", "logtable": ""}"#,
    ),
    (
        "lago",
        r#"{"endpoint_addrs": ["http://127.0.0.1"], "token": "@", "event_transaction_id": "a", "event_subscription_id": "b", "event_code": "c"}"#,
    ),
    (
        "tencent-cloud-cls",
        r#"{"cls_host": "127.0.0.1", "cls_topic": "t", "secret_id": "@", "secret_key": "s"}"#,
    ),
    ("rocketmq-logger", r#"{"nameserver_list": ["127.0.0.1:1"], "topic": "t", "key": "@"}"#),
    ("rocketmq-logger", r#"{"nameserver_list": ["127.0.0.1:1"], "topic": "t", "tag": "@"}"#),
    ("loki-logger", r#"{"endpoint_addrs": ["http://127.0.0.1"], "headers": {"X-A": "@"}}"#),
    ("loki-logger", r#"{"endpoint_addrs": ["http://127.0.0.1"], "tenant_id": "@"}"#),
    (
        "elasticsearch-logger",
        r#"{"endpoint_addr": "http://127.0.0.1", "field": {"index": "i"}, "headers": {"X-A": "@"}}"#,
    ),
    ("redirect", r#"{"uri": "/a@"}"#),
    ("request-id", r#"{"header_name": "@"}"#),
    ("attach-consumer-label", r#"{"headers": {"@": "$role"}}"#),
    (
        "api-breaker",
        r#"{"break_response_code": 502, "break_response_headers": [{"key": "@", "value": "v"}]}"#,
    ),
    (
        "api-breaker",
        r#"{"break_response_code": 502, "break_response_headers": [{"key": "X-A", "value": "@"}]}"#,
    ),
    ("echo", r#"{"body": "x", "headers": {"@": "v"}}"#),
    ("echo", r#"{"body": "x", "headers": {"X-A": "@"}}"#),
    ("csrf", r#"{"key": "k", "name": "@"}"#),
    ("key-auth", r#"{"header": "@"}"#),
    ("key-auth", r#"{"realm": "@"}"#),
    ("basic-auth", r#"{"realm": "@"}"#),
    ("jwt-auth", r#"{"header": "@"}"#),
    ("hmac-auth", r#"{"signed_headers": ["@"]}"#),
    ("hmac-auth", r#"{"nonce_header": "@"}"#),
    ("app-key", r#"{"header": "@"}"#),
    ("grpc-web", r#"{"cors_allow_headers": "@"}"#),
    (
        "limit-count",
        r#"{"rejected_code": 429, "rules": [{"key": "remote_addr", "count": 1, "time_window": 1, "header_prefix": "@"}]}"#,
    ),
    (
        "sla",
        r#"{"levels": {"a": {"limits": [{"limit": 1, "interval": 1}], "request_headers": {"set": {"@": "v"}}}}, "consumers": {"c": "a"}}"#,
    ),
    (
        "workflow",
        r#"{"rules": [{"actions": [["limit-count", {"rules": [{"key": "remote_addr", "count": 1, "time_window": 1, "header_prefix": "@"}]}]]}]}"#,
    ),
];

#[test]
fn a_line_break_in_a_header_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |path: &str, body: &str| gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
    let mut wrong = Vec::new();
    for (plugin, conf) in PLUGINS {
        let route = |text: &str| {
            format!(r#"{{"uri": "/x", "plugins": {{"{plugin}": {}}}}}"#, conf.replace('@', text))
        };
        let (status, answer) = put("routes/1", &route("X-Good"));
        if status != 200 && status != 201 {
            wrong.push(format!("{plugin} {conf} is valid: {answer}"));
        }
        for text in [r"X-A\r\nX-Evil: 1", r"X-A\n", r"X-A\u0000"] {
            let (status, answer) = put("routes/1", &route(text));
            if status != 400 {
                wrong.push(format!("{plugin} {conf} {text}: {status} {answer}"));
            }
        }
    }
    for (path, body) in [
        (
            "upstreams/1",
            r#"{"type": "roundrobin", "nodes": {"127.0.0.1:80": 1},
                "checks": {"active": {"req_headers": ["X-A: b@"], "healthy": {}, "unhealthy": {}}}}"#,
        ),
        (
            "upstreams/1",
            r#"{"type": "roundrobin", "nodes": {"127.0.0.1:80": 1},
                "checks": {"active": {"http_path": "/@", "healthy": {}, "unhealthy": {}}}}"#,
        ),
        ("plugin_metadata/limit-count", r#"{"limit_header": "X-L@"}"#),
    ] {
        let (status, answer) = put(path, &body.replace('@', ""));
        assert!(status == 200 || status == 201, "{body}: {answer}");
        let (status, answer) = put(path, &body.replace('@', r"\r\nX-Evil: 1"));
        if status != 400 {
            wrong.push(format!("{path} {body}: {status} {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (_, answer) = put("routes/1", r#"{"uri": "/x", "plugins": {"echo": {"body": "x", "headers": {"X-A\r\nX-B": "1"}}}}"#
        .replace("\r\n", r"\r\n").as_str());
    assert!(answer.contains("headers") && answer.contains("invalid header name"), "{answer}");
}

#[test]
fn names_on_a_terminal_are_escaped() {
    let gateway = Gateway::start(EMBEDDED, None);
    let name = "\u{1b}]0;owned\u{7}\u{202e}lmth\u{9b}31m";
    let route = serde_json::json!({
        "name": name, "uri": "/a\u{202e}b", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:80": 1}},
    });
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string());
    assert_eq!(status, 201, "{answer}");
    let changed = serde_json::json!({"desc": name});
    gateway.admin("PATCH", "/apisix/admin/routes/1", &changed.to_string());
    for arguments in [
        &["routes"][..],
        &["explain", "GET", "/a\u{202e}b"],
        &["explain", "GET", "/a\u{202e}b", "--json"],
        &["config", "history"],
        &["config", "history", "--json"],
        &["config", "history", "2"],
    ] {
        let mut command = std::process::Command::new(tidegate_testkit::gateway::binary());
        let output = command.args(arguments).arg("--prefix").arg(gateway.prefix()).output().expect("runs");
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let raw: Vec<char> = printed
            .chars()
            .filter(|letter| (letter.is_control() && *letter != '\n') || *letter == '\u{202e}')
            .collect();
        assert!(raw.is_empty(), "{arguments:?}: {raw:?} in {printed:?}");
        assert!(!printed.is_empty(), "{arguments:?}");
    }
    let (_, table) = gateway.verb("routes");
    assert!(table.contains(r"\u001b]0;owned\u0007\u202elmth\u009b31m"), "{table}");
}
