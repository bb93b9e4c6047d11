//! One verdict whichever way an object comes: a write of its own, an import, a whole configuration, a file.

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tidegate_testkit::eventually;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};

use super::{OPEN, admin, api_driven, ask, configure, is_rejected, put, refused, rejected, status};

fn consumers(list: &[(&str, &str)]) -> String {
    let one = |(name, key): &(&str, &str)| json!({"username": name, "plugins": {"key-auth": {"key": key}}});
    json!({"consumers": list.iter().map(one).collect::<Vec<Value>>()}).to_string()
}

/// A file of such lists and a route that asks for a key.
fn with_route(lists: &str) -> String {
    let route = format!(r#""routes":[{{"id":1,"uri":"/x","plugins":{{"key-auth":{{}},{OPEN}}}}}]"#);
    format!("{},{route}}}\n", lists.trim_end_matches('}'))
}

fn asked_with(gateway: &Gateway, key: &str) -> u16 {
    ask(gateway, "/x", &format!("apikey: {key}\r\n")).status()
}

#[test]
fn a_key_of_two_consumers_identifies_nobody() {
    let two = with_route(&consumers(&[("a", "k"), ("b", "k"), ("c", "other")]));
    let gateway = Gateway::start(YAML_PROVIDER, Some(&two));
    assert_eq!((asked_with(&gateway, "k"), asked_with(&gateway, "other")), (401, 200));
    let told = rejected(&gateway);
    for (object, other) in [("consumers/a", "consumers/b"), ("consumers/b", "consumers/a")] {
        let reason = format!("plugin key-auth: {other} has the same key, so the key identifies no consumer");
        assert!(told.contains(&(object.to_owned(), reason)), "{told:?}");
    }
    let (good, said) = gateway.verb("test");
    assert!(!good && said.contains("consumers/a cannot be used: plugin key-auth"), "{said}");
    gateway.write_routes(&with_route(&consumers(&[("b", "k"), ("c", "other")])));
    eventually("it is b's alone", || asked_with(&gateway, "k") == 200);
    assert_eq!(rejected(&gateway), []);
}

#[test]
fn whole_configurations_are_compared_within() {
    let gateway = api_driven();
    let send = |digest: &str, list: &[(&str, &str)]| configure(&gateway, digest, &consumers(list));
    assert_eq!(send("1", &[("a", "1"), ("b", "2")]).status(), 202);
    // Against what was there before, each of these would be a duplicate.
    for (digest, list) in [("2", [("a", "2"), ("b", "1")]), ("3", [("c", "1"), ("d", "2")])] {
        let answer = send(digest, &list);
        assert_eq!(answer.status(), 202, "{}", answer.body_text());
    }
    for (body, message) in [
        (consumers(&[("a", "k"), ("b", "k")]), "duplicate key of plugin key-auth found with consumer: a"),
        (
            r#"{"consumers":[{"id":"z/credentials/1","plugins":{"key-auth":{"key":"k"}}}]}"#.to_owned(),
            "consumer z not found",
        ),
        (
            r#"{"global_rules":[{"id":1,"plugins":{"prometheus":{}}},{"id":2,"plugins":{"prometheus":{}}}]}"#
                .to_owned(),
            "plugin 'prometheus' already exists in global rule with id '1'",
        ),
    ] {
        let answer = configure(&gateway, "bad", &body);
        assert!(answer.status() == 400 && answer.body_text().contains(message), "{}", answer.body_text());
    }
}

#[test]
fn rules_with_the_same_plugin_and_lost_credentials_in_a_file() {
    let lists = r#"{"global_rules":[{"id":1,"plugins":{"key-auth":{}}},
        {"id":2,"plugins":{"key-auth":{"header":"other"}}}],
        "consumers":[{"id":"z/credentials/1","plugins":{"key-auth":{"key":"k"}}}]}"#;
    let gateway = Gateway::start(YAML_PROVIDER, Some(&with_route(lists)));
    let told = "plugin 'key-auth' already exists in global rule with id '1'; both run";
    assert!(gateway.error_log().contains(&format!("apisix.yaml:2:9: {told}")), "{}", gateway.error_log());
    assert_eq!(asked_with(&gateway, "k"), 401);
    let wanted = ("consumers/z/credentials/1".to_owned(), "consumer z does not exist".to_owned());
    assert_eq!(rejected(&gateway), [wanted]);
}

/// Sends one object in every way; each refuses it, and a file shuts its place.
fn check_refused(list: &str, id: &str, object: &Value, word: &str) {
    let whole = json!({ list: [object] }).to_string();
    let gateway = Gateway::start(EMBEDDED, None);
    let why = refused(&gateway, "PUT", &format!("{list}/{id}"), &object.to_string());
    assert!(why.contains(word), "{why}");
    let answer = admin(&gateway, "PUT", "import", "Content-Type: application/json\r\n", &whole);
    assert_eq!(answer.status(), 400, "import {whole}: {}", answer.body_text());
    let answer = configure(&api_driven(), "1", &whole);
    assert_eq!(answer.status(), 400, "configs {whole}: {}", answer.body_text());
    let gateway = Gateway::start(YAML_PROVIDER, Some(&format!("{whole}\n")));
    assert!(is_rejected(&gateway, &format!("{list}/{id}")), "{whole}: {:?}", rejected(&gateway));
}

#[test]
fn a_number_with_a_fraction_is_no_id() {
    let route = json!({"id": 1.5, "uri": "/x", "plugins": {"mocking": {"response_example": "x"}}});
    check_refused("routes", "1.5", &route, "its id should be text or a whole number");
}

#[test]
fn a_key_of_another_certificate() {
    let pem = || {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        (params.self_signed(&key).expect("a certificate").pem(), key.serialize_pem())
    };
    let ((cert, _), (_, key)) = (pem(), pem());
    for kind in ["server", "client"] {
        let ssl = json!({"id": "1", "type": kind, "snis": ["a.test"], "cert": cert, "key": key});
        check_refused("ssls", "1", &ssl, "the key does not match the certificate");
    }
}

#[test]
fn empty_credentials() {
    for (plugin, conf, field) in [
        ("key-auth", json!({"key": ""}), "key"),
        ("app-key", json!({"key": ""}), "key"),
        ("basic-auth", json!({"username": "", "password": "p"}), "username"),
        ("basic-auth", json!({"username": "a", "password": ""}), "password"),
        ("jwt-auth", json!({"key": "", "secret": "s"}), "key"),
        ("jwt-auth", json!({"key": "k", "secret": ""}), "secret"),
        ("hmac-auth", json!({"key_id": "", "secret_key": "s"}), "key_id"),
        ("hmac-auth", json!({"key_id": "k", "secret_key": ""}), "secret_key"),
        ("ldap-auth", json!({"user_dn": ""}), "user_dn"),
        ("ldap-auth-advanced", json!({"user_dn": " "}), "user_dn"),
        ("jwe-decrypt", json!({"key": "", "secret": "0123456789abcdef0123456789abcdef"}), "key"),
        ("jwe-decrypt", json!({"key": "k", "secret": " ".repeat(32)}), "secret"),
        ("wolf-rbac", json!({"appid": ""}), "appid"),
    ] {
        let gateway = Gateway::start(EMBEDDED, None);
        let body = json!({"username": "a", "plugins": {plugin: conf}}).to_string();
        let why = refused(&gateway, "PUT", "consumers/a", &body);
        assert!(why.contains(field), "{plugin}: {why}");
        put(&gateway, "consumers/a", r#"{"username":"a"}"#);
        refused(
            &gateway,
            "PUT",
            "consumers/a/credentials/1",
            &json!({"plugins": {plugin: conf}}).to_string(),
        );
    }
    let gateway =
        Gateway::start(YAML_PROVIDER, Some(&with_route(&consumers(&[("a", ""), ("b", "$env://TG_EMPTY")]))));
    assert_eq!(asked_with(&gateway, ""), 401);
    assert!(is_rejected(&gateway, "consumers/a"));
}

#[test]
fn what_goes_on_after_an_id_is_not_passed_over() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = r#"{"uri":"/a","plugins":{"key-auth":{}}}"#;
    put(&gateway, "routes/a", route);
    put(&gateway, "consumers/c", r#"{"username":"c"}"#);
    put(&gateway, "consumers/c/credentials/1", r#"{"plugins":{"key-auth":{"key":"k"}}}"#);
    for (method, path) in [
        ("DELETE", "routes/a/plugins/key-auth"),
        ("PUT", "routes/a/plugins"),
        ("GET", "routes/a/plugins"),
        ("DELETE", "routes/a%2Fplugins"),
        ("DELETE", "routes/a%2fb"),
        ("DELETE", "consumers/c/credentials/1/plugins"),
        ("DELETE", "consumers/c/plugins"),
    ] {
        let body = if method == "PUT" { route } else { "" };
        let answer = admin(&gateway, method, path, "", body);
        assert_eq!(answer.status(), 400, "{method} {path}: {}", answer.body_text());
    }
    for path in ["routes/a", "consumers/c", "consumers/c/credentials/1"] {
        assert_eq!(admin(&gateway, "GET", path, "", "").status(), 200, "{path}");
    }
    assert_eq!(admin(&gateway, "PATCH", "routes/a/uri", "", r#""/b""#).status(), 200);
    assert_eq!((status(&gateway, "/a"), status(&gateway, "/b")), (404, 401));
    for ttl in ["0", "-1", "-0.5", "NaN"] {
        let answer = admin(&gateway, "PUT", &format!("routes/t?ttl={ttl}"), "", route);
        assert_eq!(answer.status(), 400, "{ttl}: {}", answer.body_text());
    }
}

#[test]
fn places_that_no_request_has_are_warned_of() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (id, route, warning) in [
        ("1", r#"{"uri":"a"}"#, Some("uri a matches no request: paths begin with /")),
        ("2", r#"{"uris":["/ok","/a?b=1"]}"#, Some("uri /a?b=1 matches no request: ? is not part of a path")),
        ("3", r#"{"uri":"/","host":"a.com:80"}"#, Some("host a.com:80 matches no request")),
        ("4", r#"{"uri":"*","host":"a.com"}"#, None),
    ] {
        let route = route.replacen('{', &format!(r#"{{"plugins":{{{OPEN}}},"#), 1);
        let answer = admin(&gateway, "PUT", &format!("routes/{id}"), "", &route);
        assert_eq!(answer.status(), 201, "{route}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning");
        assert_eq!(told.is_some(), warning.is_some(), "{route}: {told:?}");
        if let (Some(told), Some(warning)) = (told, warning) {
            assert!(told.starts_with(warning), "{told}");
            gateway.wait_for_log(&format!("routes/{id}: {warning}"));
        }
    }
}

#[test]
fn a_file_beside_api_driven_mode_is_named() {
    let config = EMBEDDED.replace("config_provider: embedded", "config_provider: yaml");
    let mut gateway = Gateway::start_unready(&config, Some("routes: []\n"));
    gateway.process.wait_for_port(gateway.admin);
    let told = "conf/apisix.yaml is not read: with role traditional";
    let (good, said) = gateway.verb("test");
    assert!(good && said.contains(told), "{said}");
    gateway.wait_for_log(told);
}
