//! A misspelled field of a guard: taken, as by APISIX, and told.

use serde_json::{Value, json};
use tidegate_testkit::{
    Client, Gateway,
    gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER},
};

fn put(gateway: &Gateway, path: &str, body: &Value) -> (u16, String) {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let body = body.to_string();
    let answer = client.request(&format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    let answer = answer.expect("an answer");
    (answer.status(), answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned())
}

fn route(plugins: &Value) -> Value {
    json!({"uri": "/z/*", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

#[test]
fn misspelled_fields_are_named() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    for (plugins, wanted) in [
        (
            json!({"jwt-auth": {"claims_to_verfy": ["exp"]}}),
            "unknown field plugins.jwt-auth.claims_to_verfy has no effect; did you mean claims_to_verify?",
        ),
        (
            json!({"request-validation": {"body_schema": {"type": "object"}, "header_shema": {"type": "object"}}}),
            "did you mean header_schema?",
        ),
        (
            json!({"key-auth": {}, "consumer-restriction": {"blacklist": ["x"], "whitlist": ["bob"]}}),
            "did you mean whitelist?",
        ),
        (
            json!({"key-auth": {}, "acl": {"allow_labels": {"team": ["a"]}, "deny_label": {"team": ["a"]}}}),
            "did you mean deny_labels?",
        ),
        (json!({"client-control": {"max_bdy_size": 1}}), "did you mean max_body_size?"),
        (json!({"jwt-auth": {"header": " Authorization"}}), "no request has a header \" Authorization\""),
        (json!({"hmac-auth": {"signed_headers": ["date", "x "]}}), "no request has a header \"x \""),
        (
            json!({"request-validation": {"header_schema": {"type": "object", "properties": {"x-tok ": {"enum": ["a"]}}}}}),
            "no request has a header \"x-tok \"",
        ),
        (
            json!({"uri-blocker": {"block_rules": ["/z/sec"], "case_insensitve": true}}),
            "did you mean case_insensitive?",
        ),
        (
            json!({"forward-auth": {"uri": "http://127.0.0.1:1/", "upstream_header": ["X-User"]}}),
            "did you mean upstream_headers?",
        ),
        (json!({"hmac-auth": {"validate_request_bdy": true}}), "did you mean validate_request_body?"),
        (
            json!({"proxy-rewrite": {"headers": {"set": {"a": "b"}}, "scheme": "https"}}),
            "unknown field plugins.proxy-rewrite.scheme has no effect",
        ),
        (
            json!({"limit-count": {"count": 1, "time_window": 1, "disable": true}}),
            "unknown field plugins.limit-count.disable has no effect",
        ),
    ] {
        let (status, warning) = put(&gateway, "routes/z", &route(&plugins));
        assert!(status < 300 && warning.contains(wanted), "{plugins}: {status} {warning}");
    }
    let checks = json!({"active": {"http_path": "/", "helthy": {"interval": 1}}});
    let nodes = json!({"uri": "/z/*", "upstream": {"nodes": {"127.0.0.1:1": 1}, "checks": checks}});
    let (status, warning) = put(&gateway, "routes/z", &nodes);
    assert!(status < 300, "{status}");
    assert!(warning.contains("unknown field upstream.checks.active.helthy has no effect"), "{warning}");
    gateway.wait_for_log("routes/z: unknown field plugins.client-control.max_bdy_size has no effect");
}

#[test]
fn plugins_within_plugins_are_looked_at() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let limit = json!({"count": 1, "time_window": 9, "rejcted_code": 429});
    for (plugins, wanted) in [
        (
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {"jwt-auth": {"claims_to_verfy": ["exp"]}}]}}),
            "unknown field plugins.multi-auth.auth_plugins[1].jwt-auth.claims_to_verfy has no effect; did you mean",
        ),
        (
            json!({"workflow": {"rules": [{"actions": [["limit-count", limit]]}]}}),
            "unknown field plugins.workflow.rules[0].actions[0][1].rejcted_code has no effect",
        ),
        (
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {"ldap-auth": {"base_dn": "", "ldap_uri": "a"}}]}}),
            "auth_plugins[1].ldap-auth: base_dn is empty",
        ),
        (
            json!({"openid-connect": {"client_id": "a", "client_secret": "b", "discovery": "http://127.0.0.1:1/d",
                "session": {"secret": "0123456789abcdef"}, "bearer_onyl": true}}),
            "did you mean bearer_only?",
        ),
    ] {
        let (status, warning) = put(&gateway, "routes/z", &route(&plugins));
        assert!(status < 300 && warning.contains(wanted), "{plugins}: {status} {warning}");
    }
}

/// However many others there are, a field that looks like a guard is named, and the rest is counted.
#[test]
fn unknown_fields_do_not_hide_each_other() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let mut conf = json!({"claims_to_verfy": ["exp"]});
    (0..100).for_each(|number| conf[format!("aaa{number:03}")] = 1.into());
    let (status, warning) = put(&gateway, "routes/z", &route(&json!({ "jwt-auth": conf })));
    assert!(status < 300 && warning.contains("did you mean claims_to_verify?"), "{status} {warning}");
    assert!(warning.contains("93 more unknown fields have no effect"), "{warning}");
}

#[test]
fn a_whole_configuration_is_told_of_them() {
    let mut gateway =
        Gateway::start_unready(&EMBEDDED.replace("config_provider: embedded", "config_provider: yaml"), None);
    gateway.process.wait_for_port(gateway.admin);
    let body = json!({"routes": [{"id": "z", "uri": "/z", "plugins": {"key-auth": {"hide_credental": true}},
        "upstream": {"nodes": {"127.0.0.1:1": 1}}}]})
    .to_string();
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let answer = client.request(&format!(
        "PUT /apisix/admin/configs HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nX-Digest: 1\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    ));
    let answer = answer.expect("an answer");
    let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
    assert!(
        answer.status() == 202 && warning.contains("routes/z: unknown field plugins.key-auth.hide_credental"),
        "{} {warning}",
        answer.status()
    );
}

#[test]
fn known_fields_are_not_warned_of() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let redis = json!({"count": 1, "time_window": 9, "policy": "redis", "redis_host": "127.0.0.1", "redis_port": 1,
        "redis_password": "p", "redis_database": 1, "redis_timeout": 9, "redis_ssl": true, "key_type": "var", "key": "remote_addr"});
    for plugins in [
        json!({"limit-count": redis, "_unused": null}),
        json!({"limit-count": redis}),
        json!({"workflow": {"rules": [{"case": [["uri", "==", "/"]], "actions": [["limit-count", redis]]}]}}),
        json!({"multi-auth": {"auth_plugins": [{"key-auth": {"header": "x"}}, {"basic-auth": {}}]}}),
        json!({"traffic-split": {"rules": [{"match": [{"vars": [["uri", "==", "/"]]}], "weighted_upstreams": [
            {"upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}, "timeout": {"connect": 1, "send": 1, "read": 1}}, "weight": 1}]}]}}),
        json!({"fault-injection": {"abort": {"http_status": 403, "body": "x", "headers": {"X-Any": "1"}, "vars": [[["arg_a", "==", "1"]]]}}}),
        json!({"response-rewrite": {"headers": {"set": {"X-Any": "1"}, "add": ["a: b"], "remove": ["c"]}, "status_code": 200, "vars": []}}),
        json!({"proxy-rewrite": {"headers": {"X-Own": "1"}}}),
        json!({"proxy-rewrite": {"regex_uri": ["^/a", "/b"], "headers": {"set": {"X-Own": "1"}}}}),
        json!({"cors": {"allow_origins": "*", "max_age": 5}, "_meta": null}),
        json!({"key-auth": {"hide_credentials": true, "_meta": {"priority": 1, "disable": false}}}),
        json!({"http-logger": {"uri": "http://127.0.0.1:1", "log_format": {"any": "$host"}, "batch_max_size": 1, "inactive_timeout": 1, "name": "n"}}),
        json!({"request-validation": {"body_schema": {"type": "object", "properties": {"own": {"type": "string"}}}}}),
        json!({"openid-connect": {"client_id": "a", "client_secret": "b", "discovery": "http://127.0.0.1:1/d", "bearer_only": true,
            "claim_validator": {"audience": {"claim": "aud"}}, "session": {"secret": "0123456789abcdef"}}}),
        json!({"mocking": {"response_schema": {"type": "object", "properties": {"a": {"type": "string", "example": "x"}}}}}),
        json!({"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_key": ["$uri"]}}),
        json!({"jwt-auth": {"claims_to_verify": ["exp"], "key_claim_name": "key", "store_in_ctx": true}}),
    ] {
        let mut plugins = plugins;
        if let Some(fields) = plugins.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let (status, warning) = put(&gateway, "routes/z", &route(&plugins));
        if status < 300 {
            assert!(!warning.contains("unknown field"), "{plugins}: {warning}");
        } else {
            panic!("{plugins}: {status}");
        }
    }
    let whole = json!({"uri": "/z/*", "labels": {"own": "1"}, "upstream": {"type": "chash", "key": "remote_addr", "hash_on": "vars",
        "nodes": [{"host": "127.0.0.1", "port": 1, "weight": 1, "priority": 0, "metadata": {"own": 1}}], "labels": {"own": "2"},
        "checks": {"active": {"http_path": "/", "healthy": {"interval": 1, "successes": 1}, "unhealthy": {"interval": 1, "http_failures": 1}}},
        "keepalive_pool": {"size": 1, "idle_timeout": 1, "requests": 1}, "timeout": {"connect": 1, "send": 1, "read": 1}, "retries": 1}});
    let (status, warning) = put(&gateway, "routes/z", &whole);
    assert!(status < 300 && !warning.contains("unknown field"), "{status} {warning}");
    let consumer = json!({"username": "u", "plugins": {"jwt-auth": {"key": "k", "secret": "0123456789012345678901234567890123", "algorithm": "HS256"}, "key-auth": {"key": "k"}}});
    let (status, warning) = put(&gateway, "consumers", &consumer);
    assert!(status < 300 && !warning.contains("unknown field"), "{status} {warning}");
}

#[test]
fn files_are_told_of_them() {
    let routes = "routes:\n- {id: 1, uri: /, plugins: {key-auth: {hide_credental: true}}, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    gateway.wait_for_log("apisix.yaml:2:40: routes/1: unknown field plugins.key-auth.hide_credental has no effect; did you mean hide_credentials?");
}
