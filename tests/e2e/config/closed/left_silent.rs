//! What was taken without a word: misspelled secrets and references, keywords of schemas, and settings that others leave
//! without effect.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};

use super::{admin, refused};

/// The warning of a write that is taken.
fn warning(gateway: &Gateway, path: &str, object: &Value) -> String {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

fn route(plugins: &Value) -> Value {
    json!({"uri": "/z", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

/// Each object is taken, with a warning that has this text, or with none at all.
fn check(gateway: &Gateway, path: &str, cases: &[(Value, &str)]) {
    for (object, wanted) in cases {
        let told = warning(gateway, path, object);
        assert!(
            if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) },
            "{object}: {told:?}"
        );
    }
}

#[test]
fn fields_of_secret_managers() {
    let gateway = Gateway::start(EMBEDDED, None);
    let vault = |more: Value| {
        let mut object = json!({"uri": "http://127.0.0.1:1", "prefix": "p", "token": "t"});
        more.as_object().into_iter().flatten().for_each(|(name, value)| object[name] = value.clone());
        object
    };
    check(
        &gateway,
        "secrets/vault/1",
        &[
            (vault(json!({"namespce": "n"})), "namespce has no effect; did you mean namespace?"),
            (vault(json!({"ssl_verify": false})), "ssl_verify has no effect"),
            (vault(json!({"namespace": "n"})), ""),
        ],
    );
    let gcp = json!({"auth_config": {"client_email": "e", "private_key": "k", "project_id": "p", "token_url": "u"}});
    check(&gateway, "secrets/gcp/1", &[(gcp, "auth_config.token_url has no effect")]);
    gateway.wait_for_log("secrets/vault/1: unknown field namespce");
}

#[test]
fn references_that_are_none() {
    let gateway = Gateway::start(EMBEDDED, None);
    let consumer = |key: &str| json!({"username": "v", "plugins": {"key-auth": {"key": key}}});
    for key in [
        "$Secret://vault/1/a/b",
        "secret://vault/1/a/b",
        "$secrets://vault/1/a/b",
        "$vault://1/a/b",
        "env://KEY",
        " $env://KEY",
        "{{KEY}}",
        "${KEY}",
        "$HOME",
    ] {
        let told = warning(&gateway, "consumers/v", &consumer(key));
        assert!(told.contains("plugins.key-auth.key is used literally: "), "{key}: {told:?}");
    }
    let credential = json!({"plugins": {"basic-auth": {"username": "u", "password": "$vault://1/a"}}});
    check(
        &gateway,
        "consumers/v/credentials/c",
        &[(credential, "plugins.basic-auth.password is used literally")],
    );
    // These are references: what they lead to is not there.
    for key in ["$ENV://TIDEGATE_UNSET", "$env://TIDEGATE_UNSET"] {
        let told = warning(&gateway, "consumers/v", &consumer(key));
        assert!(told.contains("failed to resolve") && !told.contains("literally"), "{key}: {told:?}");
    }
    let set = |value: &str| route(&json!({"proxy-rewrite": {"headers": {"set": {"Authorization": value}}}}));
    let oidc = |secret: &str| {
        let inner = json!({"client_id": "c", "client_secret": secret, "discovery": "http://127.0.0.1:1/d", "bearer_only": true});
        route(&json!({"openid-connect": inner}))
    };
    check(
        &gateway,
        "routes/z",
        &[
            (set("Bearer $env://TOKEN"), "a reference is resolved only where it is the whole string"),
            (set("$vault://1/token"), "plugins.proxy-rewrite.headers.set.Authorization is used literally"),
            (oidc("${CLIENT_SECRET}"), "plugins.openid-connect.client_secret is used literally"),
            (set("$remote_addr"), ""),
            (route(&json!({"response-rewrite": {"body": "{{X}} ${Y} $HOME"}})), ""),
            (route(&json!({"body-transformer": {"request": {"template": "{{name}}"}}})), ""),
            (
                route(
                    &json!({"http-logger": {"uri": "http://127.0.0.1:1/", "log_format": {"h": "$host", "E": "$HOME"}}}),
                ),
                "log_format.E: $HOME is not a variable",
            ),
            (
                route(
                    &json!({"limit-count": {"count": 1, "time_window": 9, "key": "$remote_addr ${http_x}", "key_type": "var_combination"}}),
                ),
                "",
            ),
            (route(&json!({"redirect": {"uri": "${scheme}://$host/env:/x", "ret_code": 301}})), ""),
        ],
    );
    let manager = json!({"uri": "http://127.0.0.1:1", "prefix": "p", "token": "$VAULT_TOKEN"});
    check(&gateway, "secrets/vault/2", &[(manager, "token is used literally")]);
}

#[test]
fn labels_that_decide_nothing() {
    let gateway = Gateway::start(EMBEDDED, None);
    let acl = |conf: Value| route(&json!({"key-auth": {}, "acl": conf}));
    let anna = json!({"username": "anna", "labels": {"team": "a", "rank": "a"}, "plugins": {"key-auth": {"key": "k"}}});
    super::put(&gateway, "consumers/anna", &anna.to_string());
    check(
        &gateway,
        "routes/z",
        &[
            (
                acl(json!({"allow_labels": {"team": ["a"]}, "deny_labels": {"team": ["b", "a"]}})),
                "deny_labels has all of allow_labels, so every consumer is refused",
            ),
            (
                acl(json!({"allow_labels": {"team": ["a", "b"]}, "deny_labels": {"team": ["b"]}})),
                "allow_labels: team b has no effect: deny_labels has it too",
            ),
            (
                acl(json!({"allow_labels": {"team": ["a"]}, "external_user_label_field_separator": ","})),
                "external_user_label_field_separator has no effect without",
            ),
            (acl(json!({"allow_labels": {"team": ["a"]}, "deny_labels": {"rank": ["a"]}})), ""),
        ],
    );
    for conf in [
        json!({"allow_labels": {"team": []}}),
        json!({"allow_labels": {}}),
        json!({"deny_labels": {"team": "a"}}),
        json!({"deny_labels": {"team": [1]}}),
    ] {
        refused(&gateway, "PUT", "routes/z", &acl(conf).to_string());
    }
}

#[test]
fn keywords_of_schemas() {
    let gateway = Gateway::start(EMBEDDED, None);
    let body = |schema: Value| route(&json!({"request-validation": {"body_schema": schema}}));
    check(
        &gateway,
        "routes/z",
        &[
            (
                body(json!({"type": "object", "requried": ["a"]})),
                "body_schema at #: \"requried\" is not a keyword of JSON Schema and checks nothing; did you mean required?",
            ),
            (
                body(json!({"type": "object", "properties": {"a": {"items": {"propertys": {}}}}})),
                "body_schema at #/properties/a/items: \"propertys\" is not a keyword",
            ),
            (
                route(
                    &json!({"request-validation": {"header_schema": {"type": "object", "Required": ["a"]}}}),
                ),
                "did you mean required?",
            ),
            (
                body(json!({"type": "object", "title": "t", "x-own": 1, "example": {}, "$comment": "c",
                    "properties": {"requried": {"type": "string", "description": "d", "default": "x"}}})),
                "",
            ),
        ],
    );
    let claims = json!({"client_id": "c", "client_secret": "s", "discovery": "http://127.0.0.1:1/d", "bearer_only": true,
        "claim_schema": {"type": "object", "requird": ["sub"]}});
    check(
        &gateway,
        "routes/z",
        &[(route(&json!({"openid-connect": claims})), "claim_schema at #: \"requird\"")],
    );
}

#[test]
fn settings_that_others_leave_without_effect() {
    let gateway = Gateway::start(EMBEDDED, None);
    let limit = |more: Value| {
        let mut conf = json!({"count": 1, "time_window": 9});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        conf
    };
    let actions =
        |conf: Value| json!({"rules": [{"case": [["uri", "==", "/"]], "actions": [["limit-count", conf]]}]});
    let local = "plugins.limit-count.redis_host has no effect with policy local";
    let nested = "plugins.workflow.rules[0].actions[0][1].redis_host has no effect with policy local";
    check(
        &gateway,
        "routes/z",
        &[
            (
                route(&json!({"limit-count": limit(json!({"policy": "local", "redis_host": "h.example"}))})),
                local,
            ),
            (route(&json!({"limit-count": limit(json!({"redis_host": "h.example"}))})), local),
            (route(&json!({"workflow": actions(limit(json!({"redis_host": "h.example"})))})), nested),
            (
                route(
                    &json!({"limit-req": {"rate": 1, "burst": 1, "key": "remote_addr", "redis_password": "p"}}),
                ),
                "plugins.limit-req.redis_password has no effect with policy local",
            ),
            // As APISIX stores what it has filled in.
            (route(&json!({"limit-count": limit(json!({"policy": "local", "redis_timeout": 1000}))})), ""),
        ],
    );
    let upstream = |more: Value| {
        let mut object = json!({"nodes": {"127.0.0.1:1": 1}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| object[name] = value.clone());
        object
    };
    for (more, wanted) in [
        (json!({"tls": {"verify": true}}), "tls.verify has no effect with scheme http"),
        (json!({"upstream_host": "h.example"}), "upstream_host has no effect with pass_host pass"),
        (json!({"hash_on": "header", "key": "X-A"}), "hash_on has no effect with type roundrobin"),
        (json!({"type": "ewma", "key": "uri"}), "key has no effect with type ewma"),
        (
            json!({"type": "roundrobin", "hash_on": "vars", "scheme": "http", "pass_host": "pass", "tls": {"verify": false}}),
            "",
        ),
        (json!({"type": "chash", "hash_on": "header", "key": "X-A"}), ""),
        (
            json!({"scheme": "https", "tls": {"verify": true}, "pass_host": "rewrite", "upstream_host": "h"}),
            "",
        ),
    ] {
        check(&gateway, "upstreams/u", &[(upstream(more.clone()), wanted)]);
        let inline = if wanted.is_empty() { String::new() } else { format!("upstream.{wanted}") };
        check(&gateway, "routes/z", &[(json!({"uri": "/z", "upstream": upstream(more.clone())}), &inline)]);
        let split = json!({"rules": [{"weighted_upstreams": [{"upstream": upstream(more)}]}]});
        check(&gateway, "routes/z", &[(route(&json!({"traffic-split": split})), &inline)]);
    }
    // Enum values are not secrets.
    gateway.wait_for_log("routes/z: upstream.key has no effect with type ewma");
}

#[test]
fn nodes_that_are_no_addresses() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (node, wanted) in [
        ("http://h.example:80", "write h.example:80 and scheme http"),
        ("https://h.example:443/api", "and set the path with plugin proxy-rewrite"),
        ("h.example:80/api", "write h.example:80"),
        ("h.example:8O", "invalid port 8O"),
        ("u:secret@h.example:80", "***@h.example:80\\\" is not an address: write h.example:80; credentials"),
    ] {
        let upstream = json!({"nodes": {node: 1}});
        let why = refused(&gateway, "PUT", "upstreams/u", &upstream.to_string());
        assert!(why.contains(wanted), "{node}: {why}");
        let split = json!({"rules": [{"weighted_upstreams": [{"upstream": upstream}]}]});
        for object in [json!({"uri": "/z", "upstream": upstream}), route(&json!({"traffic-split": split}))] {
            let why = refused(&gateway, "PUT", "routes/z", &object.to_string());
            assert!(why.contains(wanted), "{node}: {why}");
        }
    }
    let routes = "routes:\n- id: z\n  uri: /z\n  upstream: {nodes: {\"http://h.example:80\": 1}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    assert_eq!(super::status(&gateway, "/z"), 503);
    gateway.wait_for_log("write h.example:80 and scheme http");
}

#[test]
fn conditions_that_hold_for_no_request() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (condition, wanted) in [
        (json!(["remote_adr", "==", "127.0.0.1"]), "$remote_adr is not a variable of the gateway"),
        (json!(["arg.x", "==", "1"]), "$arg.x is not a variable of the gateway"),
        (json!(["uri", "==", "/a//b"]), "write /a/b"),
        (json!(["host", "==", "h:80"]), "names are compared without their port"),
        (json!(["status", "==", "200"]), "key-auth: _meta.filter: status is empty before the plugin has run"),
    ] {
        let filtered = route(&json!({"key-auth": {"_meta": {"filter": [condition]}}}));
        let said = warning(&gateway, "routes/f", &filtered);
        assert!(said.contains(wanted), "{condition}: {said}");
    }
    let late = json!({"uri": "/v", "vars": [["consumer_name", "==", "jack"]], "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let said = warning(&gateway, "routes/v", &late);
    assert!(said.contains("consumer_name is empty when routes are matched"), "{said}");
    let literal = json!({"uri": "/s", "vars": [["http_x_token", "==", "$env://GOODKEY"]],
        "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let said = warning(&gateway, "routes/s", &literal);
    assert!(said.contains("http_x_token is compared with the text of the reference"), "{said}");
    let limit =
        json!({"rejected_code": 429, "rules": [{"count": 1, "time_window": 60, "key": "remote_addr"}]});
    let said = warning(&gateway, "routes/l", &route(&json!({"limit-count": limit})));
    assert!(said.contains("rules[0].key: remote_addr has no variable"), "{said}");
}

/// Whatever is said of an object of a file begins with its place there.
#[test]
fn places_in_files() {
    let text = "plugins: {cors: true}\nroutes:\n- id: a\n  uri: /a\n  script_id: 1\n  upstream:\n    nodes: {\"127.0.0.1:1\": 1}\n    \
                upstream_host: h\n- id: b\n  uri: /b\n  upstream_id: none\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(text));
    gateway.wait_for_log("apisix.yaml:1:1: [plugins] is ignored");
    gateway.wait_for_log("apisix.yaml:5:3: script_id of routes/a has no effect");
    gateway.wait_for_log("apisix.yaml:8:5: routes/a: upstream.upstream_host has no effect");
    gateway.wait_for_log("apisix.yaml:9:3: routes/b cannot be used: upstream none does not exist");
}

#[test]
fn places_that_no_request_has() {
    let gateway = Gateway::start(EMBEDDED, None);
    let guarded = |uri: &str| json!({"uri": uri, "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let opened = |uri: &str, conf: Value| json!({"uri": uri, "plugins": {"public-api": conf}});
    let slash = "write /adm/x, or set apisix.match_uri_encoded_slash";
    let batch = "no enabled plugin answers /apisix/batch-requests, so that it is 404";
    check(
        &gateway,
        "routes/1",
        &[
            (guarded("/adm%2fx"), slash),
            (guarded("/adm%2Fx"), slash),
            (guarded("/adm%2Fx/*"), "write /adm/x/*, or set"),
            (guarded("/adm/x"), ""),
            (
                json!({"uri": "/a", "vars": [["uri", "==", "/adm%2fx"]], "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
                "write /adm/x",
            ),
            (opened("/nothing", json!({})), "no enabled plugin answers /nothing"),
            (opened("/m", json!({"uri": "/nothing"})), "no enabled plugin answers /nothing"),
            (opened("/apisix/prometheus/metrics", json!({})), ""),
            (opened("/apisix/*", json!({})), ""),
            (opened("/m", json!({"uri": "/apisix/prometheus/metrics"})), ""),
            (opened("/nothing", json!({"_meta": {"disable": true}})), "it has no upstream"),
        ],
    );
    // With `%2F` left as it is, it is written in capitals.
    let config = EMBEDDED.replace("apisix:\n", "apisix:\n  match_uri_encoded_slash: true\n")
        + "plugins: [public-api, key-auth]\n";
    let gateway = Gateway::start(&config, None);
    check(
        &gateway,
        "routes/1",
        &[
            (guarded("/adm%2Fx"), ""),
            (guarded("/adm%2fx"), "write /adm%2Fx"),
            (opened("/apisix/batch-requests", json!({})), &format!("{batch}: add batch-requests to plugins")),
        ],
    );
}

/// On a consumer as on a route.
#[test]
fn defaults_hold_on_consumers() {
    let gateway = Gateway::start(EMBEDDED, None);
    let consumer = |plugins: Value| json!({"username": "a", "plugins": plugins});
    check(&gateway, "consumers/a", &[(consumer(json!({"mocking": {"response_example": "x"}})), "")]);
    let (stored, _) = gateway.admin("GET", "/apisix/admin/consumers/a", "");
    assert_eq!(stored, 200);
    let wrong = consumer(json!({"limit-count": {"count": "many", "time_window": 1}}));
    refused(&gateway, "PUT", "consumers/a", &wrong.to_string());
}
