//! Configurations of plugins that do nothing, and fields that count only beside another one: taken with a warning.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};

use super::admin;

fn route(plugins: &Value) -> Value {
    json!({"uri": "/z", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

/// Each object is taken, with a warning that has this text, or with none at all.
fn check(gateway: &Gateway, path: &str, cases: &[(Value, &str)]) {
    for (object, wanted) in cases {
        let answer = admin(gateway, "PUT", path, "", &object.to_string());
        assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        let is_told = if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) };
        assert!(is_told, "{object}: {told:?}");
    }
}

#[test]
fn plugins_that_do_nothing_as_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let one = |name: &str, conf: Value| route(&json!({name: conf}));
    let split = |rules: Value| one("traffic-split", json!({"rules": rules}));
    let to = json!([{"upstream": {"nodes": {"127.0.0.1:1": 1}}, "weight": 1}, {"weight": 1}]);
    let request = |schema: Value| one("request-validation", schema);
    let format = |name: &str| request(json!({"body_schema": {"properties": {"a": {"format": name}}}}));
    let template = |text: &str| one("body-transformer", json!({"request": {"template": text}}));
    let limit = |more: Value| {
        let mut conf = json!({"count": 1, "time_window": 9});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        one("limit-count", conf)
    };
    let logger = |more: Value| {
        let mut conf = json!({"uri": "http://127.0.0.1:1/"});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        one("http-logger", conf)
    };
    let body = json!([["arg_a", "==", "1"]]);
    check(
        &gateway,
        "routes/z",
        &[
            (one("response-rewrite", json!({})), "response-rewrite: it has no effect without status_code"),
            (
                one("response-rewrite", json!({"headers": ["X-Zed: b"]})),
                "headers is a list and has no effect",
            ),
            (one("response-rewrite", json!({"headers": {"remove": ["X-*"]}})), "X-* is taken literally"),
            (one("response-rewrite", json!({"body": ""})), ""),
            (one("proxy-rewrite", json!({})), "proxy-rewrite: it has no effect without uri"),
            (one("proxy-rewrite", json!({"headers": {"remove": ["X-*"]}})), "X-* is taken literally"),
            (one("data-mask", json!({"request": []})), "data-mask: it has no effect without request"),
            (split(json!([])), "traffic-split: it has no effect without rules"),
            (split(json!([{}])), "rules[0] has no effect"),
            (
                split(json!([{"weighted_upstreams": to}, {"weighted_upstreams": to}])),
                "the rules behind rules[0] are never reached",
            ),
            (split(json!([{"weighted_upstreams": to}])), ""),
            (request(json!({"header_schema": {}})), "header_schema checks nothing"),
            (format("emial"), "format \"emial\" checks nothing; did you mean email?"),
            (format("email"), ""),
            (limit(json!({"sync_interval": 1})), "sync_interval has no effect without policy redis"),
            (
                limit(json!({"allow_degradation": true})),
                "allow_degradation has no effect without policy redis",
            ),
            (limit(json!({})), ""),
            (
                one("request-id", json!({"range_id": {"length": 8}})),
                "range_id has no effect without algorithm",
            ),
            (one("request-id", json!({})), ""),
            (one("real-ip", json!({"source": "remote_addr"})), "source remote_addr is the address"),
            (
                one("proxy-mirror", json!({"host": "http://127.0.0.1:1", "path_concat_mode": "prefix"})),
                "path_concat_mode has no effect without path",
            ),
            (logger(json!({"include_req_body_expr": body})), "include_req_body_expr has no effect without"),
            (logger(json!({"include_resp_body_expr": body})), "include_resp_body_expr has no effect without"),
            (logger(json!({"include_req_body_expr": body, "include_req_body": true})), ""),
            (
                one("tcp-logger", json!({"host": "127.0.0.1", "port": 1, "tls_options": "x"})),
                "tls_options has no effect without tls",
            ),
            (template("{{a"), "request.template: {{ is not closed by }}"),
            (template("{{a}}"), ""),
        ],
    );
}

#[test]
fn parts_of_objects_that_do_nothing() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = |more: Value| {
        let mut upstream = json!({"nodes": {"127.0.0.1:1": 1}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| upstream[name] = value.clone());
        json!({"uri": "/m", "upstream": upstream})
    };
    check(
        &gateway,
        "routes/m",
        &[
            (
                upstream(json!({"discovery_type": "dns"})),
                "upstream.discovery_type has no effect without service_name",
            ),
            (upstream(json!({"nodes": {"*.a.b:80": 1}})), "*.a.b:80 has no address"),
            (upstream(json!({"nodes": {"::1:80": 1}})), "write [::1]:80"),
            (upstream(json!({"nodes": {"[::1]:80": 1}})), ""),
        ],
    );
    let jwt = json!({"key": "a", "secret": "a-secret-of-thirty-two-bytes-long", "public_key": "x"});
    let consumer = json!({"username": "anna", "plugins": {"jwt-auth": jwt}});
    check(&gateway, "consumers/anna", &[(consumer, "public_key has no effect with algorithm HS256")]);
    check(&gateway, "consumers/anna/credentials/1", &[(json!({}), "it has no plugins and no effect")]);
}

#[test]
fn keys_too_small_to_check_a_signature_are_warned_of() {
    const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAMb02Pt3P0F5GAXbzdgyhJgjGC4FbwFF
y3e1UVuOBnTbRO5quw0CSQXSJSJAk8HTza8bLYcAaEkTe2EJuKTA2osCAwEAAQ==
-----END PUBLIC KEY-----
";
    let gateway = Gateway::start(EMBEDDED, None);
    let consumer = |algorithm: &str| json!({"username": "anna", "plugins": {"jwt-auth": {"key": "a", "algorithm": algorithm, "public_key": KEY}}});
    check(
        &gateway,
        "consumers/anna",
        &[
            (
                consumer("RS256"),
                "public_key is an RSA key of 512 bits, and signatures of RS256 are checked with 1024",
            ),
            (consumer("PS256"), "signatures of PS256 are checked with 2048 to 8192 bits only"),
        ],
    );
    let openid = json!({"client_id": "a", "client_secret": "b", "discovery": "https://127.0.0.1:1/", "bearer_only": true,
        "public_key": KEY});
    let route = json!({"uri": "/o", "plugins": {"openid-connect": openid}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    check(
        &gateway,
        "routes/o",
        &[(route, "public_key is an RSA key of 512 bits, and signatures are checked with 1024")],
    );
}

#[test]
fn authentication_behind_an_anonymous_consumer_is_warned_of() {
    let gateway = Gateway::start(EMBEDDED, None);
    let multi = |entries: Value| route(&json!({"multi-auth": {"auth_plugins": entries}}));
    let open = json!({"key-auth": {"anonymous_consumer": "a"}});
    let basic = json!({"basic-auth": {}});
    check(&gateway, "consumers/a", &[(json!({"username": "a"}), "")]);
    check(
        &gateway,
        "routes/z",
        &[
            (
                multi(json!([open, basic])),
                "basic-auth has no effect: key-auth with anonymous_consumer passes",
            ),
            (multi(json!([basic, open])), ""),
        ],
    );
}
