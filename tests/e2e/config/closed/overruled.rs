//! Options that have no effect beside others, or for no request: each write is taken, and warned of.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};

use super::accepted::{check, route};

#[test]
fn options_of_plugins() {
    let gateway = Gateway::start(EMBEDDED, None);
    let plugin = |name: &str, conf: Value| route(&json!({name: conf}));
    let split = |weights: Value| {
        let target = |weight: &Value| json!({"weight": weight, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        let targets: Value = weights.as_array().into_iter().flatten().map(target).collect();
        plugin("traffic-split", json!({"rules": [{"weighted_upstreams": targets}]}))
    };
    let rewrite = |conf: Value| plugin("response-rewrite", conf);
    check(
        &gateway,
        "routes/z",
        &[
            (plugin("redirect", json!({"http_to_https": false})), "it redirects nothing: set http_to_https"),
            (plugin("redirect", json!({"http_to_https": true, "ret_code": 307})), "ret_code has no effect"),
            (plugin("redirect", json!({"http_to_https": true})), ""),
            (split(json!([0, 0])), "rules[0].weighted_upstreams: every weight is 0"),
            (split(json!([0, 1])), ""),
            (plugin("redirect", json!({"uri": "/a", "ret_code": 301})), ""),
            (
                plugin("mocking", json!({"response_example": "a", "response_schema": {"type": "object"}})),
                "response_schema has no effect with response_example",
            ),
            (
                plugin(
                    "mocking",
                    json!({"response_example": "a", "response_headers": {"Content-Length": "1"}}),
                ),
                "response_headers: Content-Length has no effect",
            ),
            (plugin("mocking", json!({"response_example": "a", "response_headers": {"X-A": "1"}})), ""),
            (
                rewrite(json!({"headers": {"remove": ["content-length"]}})),
                "headers: Content-Length has no effect",
            ),
            (rewrite(json!({"headers": {"remove": ["x-a"]}})), ""),
            (
                rewrite(json!({"filters": [{"regex": "(a)", "replace": "$2"}]})),
                "filters[0].replace: $2 has $2, which is always empty: (a) has 1 groups",
            ),
            (rewrite(json!({"filters": [{"regex": "(a)", "replace": "$1"}]})), ""),
            (plugin("cors", json!({"allow_methods": "GET POST"})), "allow_methods: GET POST allows nothing"),
            (plugin("cors", json!({"expose_headers": "X A, B"})), "expose_headers: X A allows nothing"),
            (plugin("cors", json!({"allow_headers": "A, B", "allow_methods": "GET, POST"})), ""),
            (
                plugin("uri-blocker", json!({"block_rules": ["/admin*"]})),
                "block_rules: /admin* matches /admin with",
            ),
            (plugin("uri-blocker", json!({"block_rules": ["^/z.*"]})), ""),
            (
                plugin("ua-restriction", json!({"denylist": ["/curl/i"]})),
                "denylist: /curl/i matches the slashes",
            ),
            (plugin("ua-restriction", json!({"allowlist": ["curl/[0-9]*"]})), ""),
        ],
    );
}

#[test]
fn fields_of_objects() {
    let gateway = Gateway::start(EMBEDDED, None);
    let nodes = json!({"127.0.0.1:1": 1});
    check(
        &gateway,
        "upstreams/u",
        &[
            (
                json!({"nodes": nodes, "retries": 0, "retry_timeout": 3}),
                "retry_timeout has no effect with retries 0",
            ),
            (json!({"nodes": nodes, "retries": 1, "retry_timeout": 3}), ""),
            (
                json!({"nodes": nodes, "checks": {"active": {"http_path": "/s", "healthy": {"http_statuses": [200, 500]},
                   "unhealthy": {"http_statuses": [500]}}}}),
                "checks.active: 500 is in healthy.http_statuses and in unhealthy.http_statuses",
            ),
        ],
    );
    check(
        &gateway,
        "routes/z",
        &[
            (
                json!({"uri": "/z", "upstream": {"nodes": nodes}, "upstream_id": "u"}),
                "upstream has no effect with upstream_id",
            ),
            (json!({"uri": "/z", "upstream_id": "u"}), ""),
        ],
    );
    let signed = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let (certificate, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
    let ssl = |pattern: &str| {
        json!({"snis": ["a.test"], "cert": certificate, "key": key,
               "client": {"ca": certificate, "skip_mtls_uri_regex": [pattern]}})
    };
    check(
        &gateway,
        "ssls/s",
        &[
            (ssl("/free"), "client.skip_mtls_uri_regex: /free matches anywhere in a path"),
            (ssl("^/free"), ""),
        ],
    );
}
