//! Routes whose place or guard depends on another field: `status`, `script`, plugins that are not listed.

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Message};

use super::{ask, is_rejected, put, refused, status};

#[test]
fn only_status_0_switches_a_route_off() {
    let guards = [
        ("two", "status: 2, plugins: {key-auth: {}}", 503),
        ("text", "status: \"0\", plugins: {key-auth: {}}", 503),
        ("none", "status: , plugins: {key-auth: {}}", 503),
        ("minus", "status: -1, plugins: {key-auth: {}}", 503),
        ("half", "status: 0.5, plugins: {key-auth: {}}", 503),
        ("off", "status: 0, plugins: {key-auth: {}}", 200),
        ("offbad", "status: 0, plugins: {no-such-guard: {}}", 200),
    ];
    let mut routes =
        "routes:\n- {id: open, uri: /*, plugins: {mocking: {response_example: open}}}\n".to_owned();
    for (id, more, _) in guards {
        routes += &format!("- {{id: {id}, uri: /{id}, {more}}}\n");
    }
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for (id, _, expected) in guards {
        assert_eq!(status(&gateway, &format!("/{id}")), expected, "{id}");
        assert_eq!(is_rejected(&gateway, &format!("routes/{id}")), id != "off", "{id}");
        let effect = if expected == 503 { "its requests are answered 503" } else { "none: it is disabled" };
        assert!(id == "off" || told(&gateway, id).contains(effect), "{id}");
    }
}

/// The effect that the Control API tells of a rejected route.
fn told(gateway: &Gateway, id: &str) -> String {
    let mut client = Client::connect(gateway.control).expect("the control port accepts connections");
    let body: serde_json::Value =
        serde_json::from_str(&client.get("localhost", "/v1/rejected").expect("an answer").body_text())
            .expect("JSON");
    let list = body["list"].as_array().expect("a list").clone();
    let found = list.iter().find(|object| object["id"] == id).expect("is in the list");
    found["effect"].as_str().expect("a text").to_owned()
}

const SCRIPT: &str = r#"local _M = {} function _M.access(api_ctx) ngx.exit(200) end return _M"#;

#[test]
fn a_script_does_not_switch_plugins_off() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "services/guard", r#"{"plugins":{"key-auth":{}}}"#);
    put(&gateway, "services/bare", r#"{"plugins":{"key-auth":{"_meta":{"disable":true}}}}"#);
    let route = |service: &str| format!(r#"{{"uri":"/s","service_id":"{service}","script":"{SCRIPT}"}}"#);
    let reason = refused(&gateway, "PUT", "routes/1", &route("guard"));
    assert!(reason.contains("in place of the plugins of the service"), "{reason}");
    put(&gateway, "routes/1", &route("bare"));
    assert_eq!(status(&gateway, "/s"), 200);
    // Nor does the service take plugins on behind the script's back.
    let reason = refused(&gateway, "PUT", "services/bare", r#"{"plugins":{"key-auth":{}}}"#);
    assert!(reason.contains("routes/1"), "{reason}");
}

#[test]
fn a_script_beside_plugins_in_a_file_is_shut() {
    let routes = format!(
        "services:\n- {{id: s, plugins: {{key-auth: {{}}}}}}\nroutes:\n- {{id: r, uri: /s, service_id: s, script: '{SCRIPT}'}}\n\
         - {{id: o, uri: /*, plugins: {{mocking: {{response_example: open}}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    assert_eq!((status(&gateway, "/s"), status(&gateway, "/x")), (503, 200));
    assert!(is_rejected(&gateway, "routes/r"));
}

/// Plugins that answer in the upstream's place, or take from its answers.
pub(super) const ANSWERING: [(&str, &str); 12] = [
    ("redirect", "{http_to_https: true}"),
    ("mocking", "{response_example: mine}"),
    ("public-api", "{uri: /apisix/status}"),
    ("static-files", "{root: /tmp}"),
    ("body-transformer", "{response: {template: mine}}"),
    ("response-rewrite", "{body: mine}"),
    ("traffic-split", "{rules: [{weighted_upstreams: [{weight: 1}]}]}"),
    ("echo", "{body: mine}"),
    ("fault-injection", "{abort: {http_status: 403}}"),
    ("http-dubbo", "{service_name: a, method: b}"),
    ("dubbo-proxy", "{service_name: a, service_version: 1.0.0}"),
    ("ext-plugin-post-resp", "{}"),
];

#[test]
fn plugins_that_answer_are_missed() {
    let upstream = tidegate_testkit::Upstream::start();
    let node = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    let mut routes = format!("routes:\n- {{id: gzip, uri: /gzip, plugins: {{gzip: {{}}}}, {node}}}\n");
    for (name, conf) in ANSWERING {
        routes += &format!("- {{id: {name}, uri: /{name}, plugins: {{{name}: {conf}}}, {node}}}\n");
    }
    let gateway = Gateway::start(&format!("{YAML_PROVIDER}plugins: [key-auth]\n"), Some(&routes));
    for (name, _) in ANSWERING {
        let answer: Message = ask(&gateway, &format!("/{name}"), "");
        assert_eq!(answer.status(), 503, "{name}");
        assert!(is_rejected(&gateway, &format!("routes/{name}")), "{name}");
    }
    assert_eq!(status(&gateway, "/gzip"), 200, "nobody misses it");
}
