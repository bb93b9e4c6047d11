//! What names something that is not there, or not there yet: told to whoever writes it, and in the log with its place.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};

use super::{admin, put};
use crate::protocols::certs::Authority;

fn told(gateway: &Gateway, path: &str, object: &Value) -> String {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

fn behind(plugins: &Value) -> Value {
    let mut plugins = plugins.clone();
    // Behind the guards: before them it would keep them from running, which is told as well.
    plugins["mocking"] = json!({"response_example": "x", "_meta": {"priority": -1}});
    json!({"uri": "/guarded", "plugins": plugins})
}

/// Plugins, and what is said of them while nobody has the names.
fn naming() -> Vec<(Value, &'static str)> {
    let restriction =
        |kind: &str, list: Value| json!({"consumer-restriction": {"type": kind, "whitelist": list}});
    let inner = json!([{"basic-auth": {}}, {"key-auth": {"anonymous_consumer": "guest"}}]);
    vec![
        (
            json!({"key-auth": {"anonymous_consumer": "guest"}}),
            "anonymous_consumer: consumer guest does not exist",
        ),
        (
            json!({"multi-auth": {"auth_plugins": inner}}),
            "plugins.multi-auth.auth_plugins[1].key-auth.anonymous_consumer: consumer guest does not exist",
        ),
        (
            restriction("consumer_name", json!(["guest", "nobody"])),
            "whitelist: consumers guest, nobody do not exist",
        ),
        (restriction("consumer_group_id", json!(["team"])), "whitelist: consumer group team does not exist"),
        (restriction("route_id", json!(["there"])), "whitelist: route there does not exist"),
        (restriction("service_id", json!(["sold"])), "whitelist: service sold does not exist"),
        (
            json!({"consumer-restriction": {"allowed_by_methods": [{"user": "guest", "methods": ["GET"]}]}}),
            "allowed_by_methods: consumer guest does not exist",
        ),
        (
            json!({"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream_id": "new-version", "weight": 1}, {"weight": 9}]}]}}),
            "plugins.traffic-split.rules: upstream new-version does not exist",
        ),
        (
            json!({"grpc-transcode": {"proto_id": "orders", "service": "a.B", "method": "C"}}),
            "plugins.grpc-transcode.proto_id: proto orders does not exist",
        ),
        (
            json!({"cors": {"allow_origins_by_metadata": ["partners"]}}),
            "allow_origins_by_metadata: partners not in allow_origins of plugin_metadata/cors",
        ),
    ]
}

#[test]
fn names_of_nobody_are_told_at_the_write() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (plugins, wanted) in naming() {
        let said = told(&gateway, "routes/r", &behind(&plugins));
        assert!(said.contains(wanted), "{plugins}: {said}");
    }
    gateway.wait_for_log("routes/r: plugins.cors.allow_origins_by_metadata: partners not in");
    for (path, object) in [
        ("consumer_groups/team", json!({"plugins": {"cors": {}}})),
        ("consumers/guest", json!({"username": "guest"})),
        ("consumers/nobody", json!({"username": "nobody"})),
        ("services/sold", json!({})),
        ("routes/there", json!({"uri": "/there", "plugins": {}})),
        ("upstreams/new-version", json!({"nodes": {"127.0.0.1:1": 1}})),
        (
            "protos/orders",
            json!({"content": "syntax = \"proto3\"; package a; service B { rpc C(M) returns (M); } message M {}"}),
        ),
        ("plugin_metadata/cors", json!({"allow_origins": {"partners": "https://partner.example"}})),
    ] {
        put(&gateway, path, &object.to_string());
    }
    for (plugins, _) in naming() {
        assert_eq!(told(&gateway, "routes/r", &behind(&plugins)), "", "{plugins}");
    }
}

#[test]
fn names_of_nobody_are_told_with_their_place() {
    let routes = "consumers:\n- {username: guest}\nroutes:\n\
                  - {id: fine, uri: /fine, plugins: {key-auth: {anonymous_consumer: guest}}}\n\
                  - {id: odd, uri: /odd, plugins: {key-auth: {anonymous_consumer: gest}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    let wanted = "routes/odd: plugins.key-auth.anonymous_consumer: consumer gest does not exist";
    gateway.wait_for_log(wanted);
    let log = gateway.error_log();
    let line = log.lines().find(|line| line.contains(wanted)).unwrap_or_default();
    assert!(line.contains("apisix.yaml:5:"), "{line}");
    assert!(!log.contains("consumer guest does not exist"), "{log}");
}

/// The match sets the parameters of a path, so that no route can be chosen by them.
#[test]
fn conditions_on_what_the_match_sets_are_told() {
    let router = "apisix:\n  router: {http: radixtree_uri_with_parameter}\n";
    let gateway = Gateway::start(&EMBEDDED.replace("apisix:\n", router), None);
    for name in ["uri_param_id", "matched_uri"] {
        let mut route = behind(&json!({"key-auth": {}}));
        route["vars"] = json!([[name, "==", "1"]]);
        let said = told(&gateway, "routes/v", &route);
        assert!(said.contains(&format!("vars: {name} is empty while routes are matched")), "{said}");
    }
    let filter = json!({"key-auth": {"_meta": {"filter": [["uri_param_id", "==", "1"]]}}});
    assert_eq!(told(&gateway, "routes/v", &behind(&filter)), "", "plugins know them");
    let other = Gateway::start(EMBEDDED, None);
    let said = told(&other, "routes/v", &behind(&filter));
    assert!(said.contains("uri_param_id is always empty; set apisix.router.http to"), "{said}");
    let routes =
        "routes:\n- id: v\n  uri: /v/:id\n  vars: [[uri_param_id, ==, '1']]\n  plugins: {key-auth: {}}\n";
    let gateway = Gateway::start(&YAML_PROVIDER.replace("apisix:\n", router), Some(routes));
    gateway.wait_for_log("apisix.yaml:4:3: routes/v: vars: uri_param_id is empty while");
}

#[test]
fn a_certificate_that_is_off_asks_nobody() {
    let gateway = Gateway::start(EMBEDDED, None);
    let authority = Authority::new();
    let pair = authority.issue("a.example");
    let mut ssl =
        json!({"snis": ["a.example"], "cert": pair.cert, "key": pair.key, "client": {"ca": authority.cert}});
    assert_eq!(told(&gateway, "ssls/s", &ssl), "");
    ssl["status"] = 0.into();
    let said = told(&gateway, "ssls/s", &ssl);
    assert!(said.contains("client has no effect with status 0"), "{said}");
    gateway.wait_for_log("ssls/s: client has no effect with status 0");
}
