//! What was taken without a word and does not do what it says: names that nobody has, keys that do not fit, options that
//! another one overrules, hosts without a scheme.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};

use super::{admin, refused};

pub(super) fn route(plugins: &Value) -> Value {
    json!({"uri": "/z", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

/// Each object is taken, with a warning that has this text, or with none at all.
pub(super) fn check(gateway: &Gateway, path: &str, cases: &[(Value, &str)]) {
    for (object, wanted) in cases {
        let answer = admin(gateway, "PUT", path, "", &object.to_string());
        assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        let is_told = if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) };
        assert!(is_told, "{object}: {told:?}");
    }
}

#[test]
fn names_that_nobody_can_have() {
    let gateway = Gateway::start(EMBEDDED, None);
    let consumer = |name: &str| json!({"username": name, "plugins": {}});
    for name in ["jack ", " jack", "ja ck", "jack\t"] {
        refused(&gateway, "PUT", "consumers/jack", &consumer(name).to_string());
    }
    let restriction = |conf: Value| route(&json!({"key-auth": {}, "consumer-restriction": conf}));
    let multi = |name: &str| {
        let plugins = json!([{"basic-auth": {}}, {"key-auth": {"anonymous_consumer": name}}]);
        route(&json!({"multi-auth": {"auth_plugins": plugins}}))
    };
    check(
        &gateway,
        "routes/z",
        &[
            (
                route(&json!({"key-auth": {"anonymous_consumer": "any one"}})),
                "plugins.key-auth.anonymous_consumer: invalid consumer name \"any one\"",
            ),
            (multi("anyone "), ".key-auth.anonymous_consumer: invalid consumer name \"anyone \""),
            (restriction(json!({"whitelist": ["jack "]})), "whitelist: invalid consumer name \"jack \""),
            (restriction(json!({"blacklist": ["ja ck"]})), "blacklist: invalid consumer name \"ja ck\""),
            (
                restriction(json!({"type": "consumer_group_id", "blacklist": ["a b"]})),
                "blacklist: invalid object name \"a b\"",
            ),
            (restriction(json!({"whitelist": ["jack"]})), "whitelist: consumer jack does not exist"),
            (
                route(&json!({"key-auth": {}, "limit-count": {"count": 1, "time_window": 9,
                      "_meta": {"filter": [["consumer_name", "==", "ja ck"]]}}})),
                "consumer_name == ja ck never holds",
            ),
        ],
    );
    let basic = |name: &str| json!({"username": "jack", "plugins": {"basic-auth": {"username": name, "password": "p"}}});
    check(
        &gateway,
        "consumers/jack",
        &[
            (
                basic("jack smith"),
                "no client can send the username \"jack smith\": whitespace is removed from it",
            ),
            (basic("jack "), "no client can send the username \"jack \""),
            (basic("jack"), ""),
        ],
    );
}

#[test]
fn hosts_and_paths_that_match_nothing() {
    let gateway = Gateway::start(EMBEDDED, None);
    let hosts = |host: &str| json!({"uri": "/z", "hosts": [host], "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let uri = |uri: &str| json!({"uri": uri, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    check(
        &gateway,
        "routes/z",
        &[
            (
                hosts(".bad.example"),
                "host .bad.example matches no request: write bad.example and *.bad.example",
            ),
            (
                uri("/o1/{id}"),
                "uri /o1/{id} matches {id} literally: set apisix.router.http to radixtree_uri_with_parameter and write :id",
            ),
            (uri("/o1/<id>/x"), "uri /o1/<id>/x matches <id> literally"),
            (uri("/o1/(.*)"), "uri /o1/(.*) matches (.*) literally: paths are not regular expressions"),
            (uri("/odata/Products(1)/$metadata"), ""),
        ],
    );
    let split = json!({"uri": "/z", "hosts": [".bad.example", "good.example"],
                       "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    check(&gateway, "routes/z", &[(split, "host .bad.example matches no request")]);
    check(
        &gateway,
        "services/s",
        &[(json!({"hosts": [".bad.example"]}), "host .bad.example matches no request")],
    );
    check(&gateway, "global_rules/1", &[(json!({"plugins": {}}), "it has no plugins and no effect")]);
    check(&gateway, "plugin_configs/1", &[(json!({"plugins": {}}), "it has no plugins and no effect")]);
    gateway.wait_for_log("global_rules/1: it has no plugins and no effect");
}

const ED25519: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA9PdGVALrrBX4oX5t9DKb5JHYx7XRb0RXU42r0FVO2sA=\n-----END PUBLIC KEY-----";

/// PEM of a fresh key's public and private part.
fn key(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
    let pair = rcgen::KeyPair::generate_for(algorithm).expect("a key");
    (pair.public_key_pem(), pair.serialize_pem())
}

/// A key of another kind verifies nothing: its tokens were refused, and nobody was told why.
#[test]
fn keys_of_another_kind() {
    let gateway = Gateway::start(EMBEDDED, None);
    let (p256, private) = key(&rcgen::PKCS_ECDSA_P256_SHA256);
    let (p384, _) = key(&rcgen::PKCS_ECDSA_P384_SHA384);
    let jwt = |algorithm: &str, key: &str| json!({"username": "v", "plugins": {"jwt-auth": {"key": "v", "algorithm": algorithm, "public_key": key}}});
    for (algorithm, key, wanted) in [
        ("RS256", &*p256, "public key does not fit RS256: it is a key of curve P-256"),
        ("ES256", &p384, "public key does not fit ES256: it is a key of curve P-384"),
        ("ES384", &p256, "public key does not fit ES384: it is a key of curve P-256"),
        ("PS512", ED25519, "public key does not fit PS512: it is an Ed25519 key"),
        ("EdDSA", &p256, "public key does not fit EdDSA"),
    ] {
        let why = refused(&gateway, "PUT", "consumers/v", &jwt(algorithm, key).to_string());
        assert!(why.contains(wanted), "{algorithm}: {why}");
        let credential = json!({"plugins": jwt(algorithm, key)["plugins"]});
        super::put(&gateway, "consumers/w", r#"{"username":"w"}"#);
        let why = refused(&gateway, "PUT", "consumers/w/credentials/c", &credential.to_string());
        assert!(why.contains(wanted), "{algorithm}: {why}");
    }
    check(
        &gateway,
        "consumers/v",
        &[(jwt("ES256", &p256), ""), (jwt("ES384", &p384), ""), (jwt("EdDSA", ED25519), "")],
    );
    let oidc = |more: Value| {
        let mut conf = json!({"client_id": "c", "client_secret": "s", "discovery": "http://127.0.0.1:1/d"});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        route(&json!({ "openid-connect": conf }))
    };
    for (conf, wanted) in [
        (
            json!({"bearer_only": true, "public_key": p256, "token_signing_alg_values_expected": "RS256"}),
            "does not fit RS256",
        ),
        (
            json!({"session": {"secret": "0123456789abcdef"}, "token_endpoint_auth_method": "private_key_jwt",
                   "client_rsa_private_key": private}),
            "does not fit \\\"client_rsa_private_key\\\"",
        ),
    ] {
        let why = refused(&gateway, "PUT", "routes/z", &oidc(conf).to_string());
        assert!(why.contains(wanted), "{why}");
    }
    let fits = json!({"bearer_only": true, "public_key": p256, "token_signing_alg_values_expected": "ES256"});
    check(&gateway, "routes/z", &[(oidc(fits), "")]);
}

#[test]
fn origins_that_overrule_each_other() {
    let gateway = Gateway::start(EMBEDDED, None);
    let cors = |conf: Value| route(&json!({ "cors": conf }));
    check(
        &gateway,
        "routes/z",
        &[
            (
                cors(json!({"allow_origins": "http://a.example", "allow_origins_by_regex": ["^http://b$"]})),
                "plugin cors: allow_origins has no effect with allow_origins_by_regex",
            ),
            (
                cors(json!({"allow_origins_by_metadata": ["k"], "allow_origins_by_regex": ["^http://b$"]})),
                "allow_origins_by_regex has no effect with allow_origins_by_metadata while allow_origins is *",
            ),
            (
                cors(json!({"allow_origins": "**", "allow_methods": "**", "allow_headers": "**",
                            "allow_credential": true})),
                "allow_origins ** with allow_credential: every site",
            ),
            (cors(json!({"allow_origins": "http://a.example"})), ""),
            (cors(json!({"allow_origins_by_regex": ["^http://b$"]})), ""),
            (cors(json!({})), ""),
        ],
    );
}

#[test]
fn secrets_of_blanks() {
    let gateway = Gateway::start(EMBEDDED, None);
    let oidc = |more: Value| {
        let mut conf = json!({"client_id": "c", "client_secret": "s", "discovery": "http://127.0.0.1:1/d",
                              "session": {"secret": "0123456789abcdef"}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        json!({ "openid-connect": conf })
    };
    for (plugins, field) in [
        (json!({"csrf": {"key": "  "}}), "key"),
        (json!({"csrf": {"key": "\t"}}), "key"),
        (oidc(json!({"client_secret": "  "})), "client_secret"),
        (oidc(json!({"session": {"secret": " ".repeat(16)}})), "session.secret"),
        (
            json!({"limit-count": {"count": 1, "time_window": 9, "policy": "redis", "redis_host": "127.0.0.1",
                   "redis_password": "  "}}),
            "redis_password",
        ),
    ] {
        let why = refused(&gateway, "PUT", "routes/z", &route(&plugins).to_string());
        assert!(why.contains(&format!("property \\\"{field}\\\" should not be blank")), "{plugins}: {why}");
    }
    check(
        &gateway,
        "routes/z",
        &[(route(&json!({"csrf": {"key": "a key"}})), ""), (route(&oidc(json!({}))), "")],
    );
}

/// Where no URL stands, every request was refused at its time.
#[test]
fn hosts_without_a_scheme() {
    let gateway = Gateway::start(EMBEDDED, None);
    let oidc = |more: Value| {
        let mut conf = json!({"client_id": "c", "client_secret": "s", "discovery": "http://127.0.0.1:1/d",
                              "bearer_only": true});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        json!({ "openid-connect": conf })
    };
    let remedy = "missing scheme; write http:// or https:// first";
    for plugins in [
        json!({"opa": {"host": "127.0.0.1:8181", "policy": "p"}}),
        json!({"forward-auth": {"uri": "127.0.0.1:9/auth"}}),
        oidc(json!({"discovery": "idp.example/.well-known/openid-configuration"})),
        oidc(json!({"introspection_endpoint": "idp.example/introspect"})),
        json!({"zipkin": {"endpoint": "127.0.0.1:9411/api", "sample_ratio": 1}}),
        json!({"elasticsearch-logger": {"endpoint_addrs": ["127.0.0.1:9200"], "field": {"index": "i"}}}),
    ] {
        let why = refused(&gateway, "PUT", "routes/z", &route(&plugins).to_string());
        assert!(why.contains(remedy), "{plugins}: {why}");
    }
    for plugins in [
        json!({"http-logger": {"uri": "127.0.0.1:9"}}),
        json!({"loki-logger": {"endpoint_addrs": ["127.0.0.1:3100"]}}),
        json!({"proxy-mirror": {"host": "127.0.0.1:9"}}),
    ] {
        refused(&gateway, "PUT", "routes/z", &route(&plugins).to_string());
    }
    for plugins in [
        json!({"opa": {"host": "http://127.0.0.1:8181", "policy": "p"}}),
        json!({"opa": {"host": "$env://OPA_HOST_THAT_COMES_LATER", "policy": "p"}}),
    ] {
        super::put(&gateway, "routes/z", &route(&plugins).to_string());
    }
}

/// What APISIX's schemas have and the gateway has no use for is named, where it is not the default.
#[test]
fn fields_without_effect() {
    let gateway = Gateway::start(EMBEDDED, None);
    let kafka = |more: Value| {
        let mut conf = json!({"brokers": [{"host": "127.0.0.1", "port": 1}], "kafka_topic": "t"});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        route(&json!({"kafka-logger": conf}))
    };
    let limit = |name: &str, more: Value| {
        let mut conf = match name {
            "limit-count" => json!({"count": 1, "time_window": 9}),
            "limit-req" => json!({"rate": 1, "burst": 0, "key": "remote_addr"}),
            _ => json!({"conn": 1, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"}),
        };
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        route(&json!({name: conf}))
    };
    let split = |kind: &str| {
        let checks = json!({"active": {}, "passive": {"type": kind}});
        let targets = json!([{}, {"upstream": {"nodes": {"127.0.0.1:1": 1}, "checks": checks}}]);
        route(&json!({"traffic-split": {"rules": [{"weighted_upstreams": targets}]}}))
    };
    let redis =
        |pool: u32| json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_keepalive_pool": pool});
    check(
        &gateway,
        "routes/z",
        &[
            (kafka(json!({"producer_type": "async", "producer_batch_num": 200, "api_version": 1})), ""),
            (
                kafka(json!({"producer_type": "sync"})),
                "plugin kafka-logger: producer_type has no effect: a batch is one",
            ),
            (kafka(json!({"producer_batch_num": 2})), "producer_batch_num has no effect"),
            (kafka(json!({"producer_batch_size": 2})), "producer_batch_size has no effect"),
            (kafka(json!({"producer_max_buffering": 2})), "producer_max_buffering has no effect"),
            (kafka(json!({"producer_time_linger": 2})), "producer_time_linger has no effect"),
            (kafka(json!({"cluster_name": 2})), "cluster_name has no effect: each configuration"),
            (kafka(json!({"api_version": 2})), "api_version has no effect: messages are record batches"),
            (
                limit("limit-conn", json!({"only_use_default_delay": true})),
                "only_use_default_delay has no effect",
            ),
            (limit("limit-conn", json!({"only_use_default_delay": false})), ""),
            (limit("limit-conn", redis(7)), "redis_keepalive_pool has no effect: each worker"),
            (limit("limit-req", redis(7)), "redis_keepalive_pool has no effect: each worker"),
            (limit("limit-count", redis(7)), "redis_keepalive_pool has no effect: each worker"),
            (limit("limit-count", redis(100)), ""),
            (
                split("tcp"),
                "plugin traffic-split: rules[0].weighted_upstreams[1].upstream.checks.passive.type has no effect",
            ),
            (split("http"), ""),
        ],
    );
}
