//! What keys without effect make the gateway say, and which keys keep it from starting.

use serde_json::{Value, json};
use tidegate_testkit::Client;
use tidegate_testkit::gateway::{EMBEDDED, Gateway};

use super::{embedded, standalone};

/// What a start prints, this among it.
fn said(keys: &[(&str, Value)], wanted: &str) -> String {
    let gateway = Gateway::start(&standalone(keys), Some("routes: []\n"));
    gateway.process.wait_for_output(wanted);
    gateway.process.output()
}

/// A start fails and prints this.
fn refuses(keys: &[(&str, Value)], cause: &str) {
    let mut gateway = Gateway::start_unready(&standalone(keys), Some("routes: []\n"));
    gateway.process.wait_for_output(cause);
    assert!(!gateway.process.wait_for_exit().success(), "{keys:?}");
}

#[test]
fn keys_without_effect_are_named_with_file_line_and_reason() {
    for (key, value, reason) in [
        ("apisix.enable_reuseport", json!(false), "listening socket of its own"),
        ("apisix.ssl.listen", json!([{"port": 9443, "enable_http3": true}]), "HTTP/3 is not served"),
        ("apisix.tracing", json!(true), "whole requests are traced"),
        ("nginx_config.user", json!("nobody"), "start the process as the user"),
        ("nginx_config.http_configuration_snippet", json!("gzip on;"), "there is no nginx to read it"),
        ("plugin_attr.inspect.delay", json!(9), "the plugin is not available"),
    ] {
        let said = said(&[(key, value)], reason);
        let line = said.lines().find(|line| line.contains(reason)).unwrap_or_default();
        assert!(line.contains("config.yaml:1:") && line.contains("no effect"), "{key}: {said}");
    }
}

#[test]
fn names_of_absent_plugins_are_one_line() {
    let plain = said(&[], "proxy");
    let said = said(
        &[("plugins", json!(["mocking", "ai-proxy", "mcp-bridge", "prometheus"]))],
        "ai-proxy, mcp-bridge",
    );
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("ai-proxy")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(
        lines[0].contains("2 of 4 are not available") && lines[0].contains("ai-proxy, mcp-bridge"),
        "{said}"
    );
    assert!(!plain.contains("not available"), "the built-in list names what is here");
    let with_reasons = self::said(&[("plugins", json!(["gm", "inspect"]))], "2 of 2 are not available");
    assert!(with_reasons.contains("gm (the TLS library has neither SM2 nor NTLS)"), "{with_reasons}");
}

#[test]
fn listeners_that_would_not_exist_keep_the_gateway_from_starting() {
    let only = [("apisix.stream_proxy.only", json!(true))];
    refuses(&only, "apisix.stream_proxy.only: true is refused: write apisix.proxy_mode: stream");
    // Without the mode the start names the ports that stay closed.
    for (key, value) in
        [("apisix.stream_proxy.tcp", json!([9100])), ("apisix.stream_proxy.udp", json!([9200]))]
    {
        let gateway = Gateway::start(&standalone(&[(key, value)]), Some("routes: []\n"));
        gateway.process.wait_for_output(&format!("{key} has no effect: apisix.proxy_mode is http"));
    }
    refuses(&[("discovery.tars", json!({"db_conf": {}}))], "discovery.tars is refused");
    let xds = [("deployment.role_data_plane.config_provider", json!("xds"))];
    refuses(&xds, "config_provider: xds is refused");
}

/// No session reaches a stream route of a port at which nothing listens.
#[test]
fn a_stream_route_of_another_port_is_told() {
    let port = tidegate_testkit::free_port();
    let streams = [
        ("apisix.proxy_mode", json!("http&stream")),
        ("apisix.stream_proxy.tcp", json!([format!("127.0.0.1:{port}")])),
    ];
    let gateway = Gateway::start(&embedded(&streams), None);
    for (number, expected) in
        [(port, ""), (1, "server_port 1 matches no session: the gateway listens for sessions on port")]
    {
        let body = json!({"server_port": number, "upstream": {"nodes": {"127.0.0.1:1": 1}}}).to_string();
        let put = format!(
            "PUT /apisix/admin/stream_routes/1 HTTP/1.1\r\nHost: h\r\nX-API-KEY: test-admin-key\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = Client::connect(gateway.admin).expect("connects").request(&put).expect("an answer");
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(matches!(answer.status(), 200 | 201), "{}", answer.body_text());
        assert!(
            if expected.is_empty() { told.is_empty() } else { told.contains(expected) },
            "{number}: {told}"
        );
    }
}

/// The system has the last word on open files.
#[test]
fn a_limit_that_the_system_does_not_allow_is_told() {
    let gateway = Gateway::start(
        &standalone(&[("nginx_config.worker_rlimit_nofile", json!(999_999_999))]),
        Some("routes: []\n"),
    );
    gateway.process.wait_for_output("nginx_config.worker_rlimit_nofile: the system allows ");
}

#[test]
fn stream_routes_are_refused_wherever_they_come_from() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = r#"{"server_port": 9100, "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}"#;
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/stream_routes/1", route);
    assert!(status == 400 && answer.contains("stream mode is disabled"), "{status} {answer}");

    let driven =
        Gateway::start(&embedded(&[("deployment.role_traditional.config_provider", json!("yaml"))]), None);
    let body = format!(r#"{{"stream_routes": [{{"id": "1", {}]}}"#, route.trim_start_matches('{'));
    let length = body.len();
    let mut client = Client::connect(driven.admin).expect("connects");
    let answer = client
        .request(&format!(
            "PUT /apisix/admin/configs HTTP/1.1\r\nHost: h\r\nX-API-KEY: test-admin-key\r\nX-Digest: 1\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
        .expect("an answer");
    assert_eq!(answer.status(), 400, "{}", answer.body_text());
    assert!(answer.body_text().contains("stream mode is disabled"), "{}", answer.body_text());

    let routes = format!("stream_routes:\n- {{\"id\": 1, {}\n", route.trim_start_matches('{'));
    let file = Gateway::start(&standalone(&[]), Some(&routes));
    file.wait_for_log(
        "stream_routes/1 has no effect: TCP and UDP are proxied where apisix.proxy_mode has stream",
    );
}

#[test]
fn fields_of_objects_without_effect_are_named_once() {
    let routes = r#"routes:
- {id: 1, uri: /a, script_id: 7, plugins: {mocking: {response_example: a}}}
- {id: 2, uri: /b, script_id: 7, plugins: {mocking: {response_example: a}}}
upstreams:
- {id: u, type: roundrobin, scheme: udp, nodes: {"127.0.0.1:1": 1}}
"#;
    let gateway = Gateway::start(&standalone(&[]), Some(routes));
    gateway.wait_for_log("script_id of routes/1 (and in 1 more) has no effect");
    gateway.wait_for_log("scheme of upstreams/u has no effect");

    let gateway = Gateway::start(EMBEDDED, None);
    let service = r#"{"script": "return { access = function() end }", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}"#;
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/services/1", service);
    assert_eq!(status, 201, "{answer}");
    let line = "script of services/1 has no effect";
    gateway.wait_for_log(line);
    let log = gateway.error_log();
    assert_eq!(log.matches(line).count(), 1, "{log}");
}
