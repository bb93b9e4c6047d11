//! Objects that something beside them leaves without effect: an upstream, a consumer, a port. Each is told where it is written.

use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, free_port};

use super::idle_keys::{warning, with};

/// Writes each object, and looks for a text in its warning; empty: no warning.
fn check(gateway: &Gateway, cases: &[(&str, Value, &str)]) {
    for (path, object, wanted) in cases {
        let told = warning(gateway, path, object);
        let fits = if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) };
        assert!(fits, "{path} {object}: {told:?}, not {wanted:?}");
    }
}

fn route(plugins: &Value, scheme: &str) -> Value {
    json!({"uri": "/a/*", "plugins": plugins, "upstream": {"scheme": scheme, "nodes": {"127.0.0.1:1": 1}}})
}

#[test]
fn keys_of_consumers_that_nobody_finds_are_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let counted = "key consumer_name is empty, so the client's address is counted: no plugin here says";
    let limit = |key: &str| json!({"limit-count": {"count": 1, "time_window": 60, "key": key}});
    let both =
        json!({"limit-count": {"count": 1, "time_window": 60, "key": "consumer_name"}, "key-auth": {}});
    let conn = json!({"limit-conn": {"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "$consumer_name", "key_type": "var_combination"}});
    let req = json!({"limit-req": {"rate": 1, "burst": 0, "key": "consumer_name"}});
    let nested = json!({"workflow": {"rules": [{"actions": [["limit-count", {"count": 1, "time_window": 60, "key": "consumer_name"}]]}]}});
    check(
        &gateway,
        &[
            ("routes/1", route(&limit("consumer_name"), "http"), counted),
            ("routes/1", route(&limit("remote_addr"), "http"), ""),
            (
                "routes/1",
                route(&limit("request_id"), "http"),
                "key: each request has a request_id of its own",
            ),
            (
                "routes/1",
                route(&limit("remote_port"), "http"),
                "key: each connection has a remote_port of its own",
            ),
            ("routes/1", route(&both, "http"), ""),
            (
                "routes/1",
                route(&conn, "http"),
                "plugin limit-conn: key $consumer_name is empty, so the client's address",
            ),
            ("routes/1", route(&req, "http"), "plugin limit-req: key consumer_name is empty"),
            (
                "routes/1",
                route(&nested, "http"),
                "plugin workflow: rules[0].actions[0][1]: key consumer_name is empty",
            ),
            ("services/1", json!({"plugins": limit("consumer_name")}), ""),
            (
                "routes/2",
                json!({"uri": "/b", "service_id": "1", "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
                counted,
            ),
            ("services/1", json!({"plugins": both}), ""),
            (
                "routes/2",
                json!({"uri": "/b", "service_id": "1", "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
                "",
            ),
            ("consumer_groups/1", json!({"plugins": limit("consumer_name")}), ""),
            ("global_rules/1", json!({"plugins": limit("consumer_name")}), "global rules run before"),
            ("global_rules/2", json!({"plugins": {"key-auth": {}}}), ""),
            ("routes/1", route(&limit("consumer_name"), "http"), ""),
        ],
    );
}

#[test]
fn calls_to_upstreams_of_another_scheme_are_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let web = json!({"grpc-web": {}});
    let wrong = "plugin grpc-web needs an upstream with scheme grpc or grpcs, and this one has http";
    let by_id = json!({"uri": "/a/*", "plugins": web, "upstream_id": "1"});
    check(
        &gateway,
        &[
            ("routes/1", route(&web, "http"), wrong),
            (
                "routes/1",
                json!({"uri": "/a/*", "plugins": web, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
                wrong,
            ),
            ("routes/1", route(&web, "grpc"), ""),
            ("upstreams/1", json!({"nodes": {"127.0.0.1:1": 1}}), ""),
            ("routes/1", by_id.clone(), wrong),
            ("upstreams/1", json!({"scheme": "grpcs", "nodes": {"127.0.0.1:1": 1}}), ""),
            ("routes/1", by_id, ""),
        ],
    );
}

#[test]
fn sessions_that_are_always_closed_are_told() {
    let (tcp, udp) = (free_port(), free_port());
    let ports = format!("{{tcp: [\"127.0.0.1:{tcp}\"], udp: [\"127.0.0.1:{udp}\"]}}");
    let keys = format!("  proxy_mode: http&stream\n  stream_proxy: {ports}\n");
    let gateway = Gateway::start(&with("apisix", &keys), None);
    let session = |port: u16, scheme: &str, plugins: Value| json!({"server_port": port, "plugins": plugins, "upstream": {"scheme": scheme, "nodes": {"127.0.0.1:1": 1}}});
    let mqtt = |fields: Value| json!({"mqtt-proxy": fields});
    let closed = format!("sessions at port {udp}, which is one of UDP, are closed: ");
    check(
        &gateway,
        &[
            ("stream_routes/1", session(udp, "tls", json!({})), &format!("{closed}scheme tls")),
            (
                "stream_routes/1",
                session(udp, "udp", mqtt(json!({"protocol_level": 4}))),
                &format!("{closed}plugin mqtt-proxy is for TCP"),
            ),
            ("stream_routes/1", session(udp, "udp", json!({})), ""),
            ("stream_routes/1", session(tcp, "tls", mqtt(json!({"protocol_level": 5}))), ""),
            (
                "stream_routes/1",
                session(tcp, "tcp", mqtt(json!({"protocol_level": 3}))),
                "no client sends protocol_name MQTT with protocol_level 3",
            ),
            (
                "stream_routes/1",
                session(tcp, "tcp", mqtt(json!({"protocol_level": 4, "protocol_name": "mqtt"}))),
                "no client sends protocol_name mqtt",
            ),
            (
                "stream_routes/1",
                session(tcp, "tcp", mqtt(json!({"protocol_level": 3, "protocol_name": "MQIsdp"}))),
                "",
            ),
            (
                "stream_routes/1",
                json!({"server_port": tcp, "upstream": {"nodes": {"127.0.0.1": 1}}}),
                "its node 127.0.0.1 has no port, so sessions go to port 80; write 127.0.0.1:PORT",
            ),
        ],
    );
}

#[test]
fn logs_and_traces_that_nothing_gets_are_told() {
    let config = EMBEDDED.to_owned()
        + "plugins: [file-logger, http-logger, loki-logger, google-cloud-logging, opentelemetry, error-log-logger, chaitin-waf]\n";
    let gateway = Gateway::start(&config, None);
    let plugin = |name: &str, conf: Value| route(&json!({name: conf}), "http");
    let ratio = |options: Value| {
        plugin("opentelemetry", json!({"sampler": {"name": "parent_base", "options": options}}))
    };
    let loki = |labels: Value| {
        plugin("loki-logger", json!({"endpoint_addrs": ["http://127.0.0.1:1"], "log_labels": labels}))
    };
    let lines = |level: &str| json!({"level": level, "tcp": {"host": "127.0.0.1", "port": 1}});
    check(
        &gateway,
        &[
            (
                "routes/1",
                plugin("file-logger", json!({"path": "logs/a.log", "match": []})),
                "match is empty, so that nothing is logged",
            ),
            (
                "routes/1",
                plugin("http-logger", json!({"uri": "http://127.0.0.1:1", "max_req_body_bytes": 5})),
                "max_req_body_bytes has no effect without include_req_body: true",
            ),
            ("routes/1", loki(json!({"a b": "c"})), "Loki refuses the label \"a b\""),
            ("routes/1", loki(json!({})), "log_labels is empty"),
            ("routes/1", loki(json!({"job": "c"})), ""),
            (
                "routes/1",
                plugin("google-cloud-logging", json!({"auth_file": "/nonexistent.json"})),
                "auth_file /nonexistent.json: No such file",
            ),
            (
                "routes/1",
                plugin("opentelemetry", json!({"sampler": {"name": "trace_id_ratio"}})),
                "sampler trace_id_ratio samples nothing",
            ),
            ("routes/1", plugin("opentelemetry", json!({})), "sampler is always_off unless it is set"),
            ("routes/1", plugin("opentelemetry", json!({"sampler": {"name": "always_off"}})), ""),
            (
                "routes/1",
                ratio(json!({"root": {"name": "trace_id_ratio"}})),
                "samples no trace that begins here",
            ),
            (
                "routes/1",
                ratio(json!({"root": {"name": "trace_id_ratio", "options": {"fraction": 0.5}}})),
                "",
            ),
            ("routes/1", plugin("error-log-logger", json!({})), "it has no effect here"),
            (
                "routes/1",
                plugin("chaitin-waf", json!({"mode": "block", "match": [{}]})),
                "no request is judged",
            ),
            ("plugin_metadata/error-log-logger", lines("STDERR"), "no line has level STDERR"),
            (
                "plugin_metadata/error-log-logger",
                lines("DEBUG"),
                "level DEBUG: the error log has no lines of it",
            ),
            ("plugin_metadata/error-log-logger", lines("ERROR"), ""),
        ],
    );
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let ssl = json!({"snis": ["a.test"], "cert": pair.cert.pem(), "key": pair.signing_key.serialize_pem(), "ssl_protocols": ["TLSv1.1", "TLSv1.2"]});
    check(&gateway, &[("ssls/1", ssl, "TLSv1.1 is not supported")]);
}
