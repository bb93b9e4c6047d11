//! References whose value is empty, or no text: whoever has such a secret has none.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, run_command};

use super::{JACK, KEY_AUTH_ROUTE, Secrets, get, managers, until_status, vault};

/// Members of the variable SECRETS, and the text that they must not become.
const NO_SECRETS: [(&str, &str); 7] = [
    ("empty", ""),
    ("blank", " "),
    ("null", "null"),
    ("object", "{}"),
    ("list", "[]"),
    ("false", "false"),
    ("true", "true"),
];

#[test]
fn empty_variables_and_members_that_are_no_text() {
    let members = json!({"empty": "", "blank": " ", "null": null, "object": {}, "list": [], "false": false,
                         "true": true, "number": 7, "text": "good"});
    let mut references: Vec<(String, String)> =
        NO_SECRETS.iter().map(|(name, text)| (format!("SECRETS/{name}"), (*text).to_owned())).collect();
    references.push(("NOTHING".to_owned(), String::new()));
    let good = [("SECRETS/number".to_owned(), "7"), ("SECRETS/text".to_owned(), "good")];
    let named = |reference: &str| reference.replace('/', "_");
    let consumer = |reference: &str| json!({"username": named(reference), "plugins": {"key-auth": {"key": format!("$env://{reference}")}}});
    let guarded = |reference: &str| {
        json!({"id": named(reference), "uri": format!("/csrf/{}", named(reference)), "plugins":
               {"csrf": {"key": format!("$env://{reference}")}, "mocking": {"response_example": "fine"}}})
    };
    let all = || references.iter().map(|(name, _)| name).chain(good.iter().map(|(name, _)| name));
    let keyed = json!({"id": "keyed", "uri": "/keyed",
                       "plugins": {"key-auth": {}, "mocking": {"response_example": "fine"}}});
    let routes: Vec<Value> = all().map(|name| guarded(name)).chain([keyed]).collect();
    let consumers: Vec<Value> = all().map(|name| consumer(name)).collect();
    let resources = json!({"routes": routes, "consumers": consumers}).to_string();
    let mut gateway = Gateway::start_by(YAML_PROVIDER, Some(&resources), |prefix| {
        let mut command = run_command(prefix);
        command.env("SECRETS", members.to_string()).env("NOTHING", "");
        command
    });
    gateway.process.wait_for_port(gateway.http);
    for (reference, text) in &references {
        assert_eq!(get(&gateway, "/keyed", text).status(), 401, "{reference}");
        let path = format!("/csrf/{}", named(reference));
        assert_eq!(get(&gateway, &path, "").status(), 503, "{reference}: a guard without its key stays shut");
    }
    for (reference, text) in &good {
        assert_eq!(get(&gateway, "/keyed", text).status(), 200, "{reference}");
        assert_eq!(get(&gateway, &format!("/csrf/{}", named(reference)), "").status(), 200, "{reference}");
    }
}

#[test]
fn a_value_that_becomes_empty_is_gone() {
    let secrets = Secrets::default();
    let jack = "/v1/kv/apisix/jack";
    secrets.set(jack, 200, json!({"data": {"key": "first"}}));
    let vault = vault(&secrets);
    let config = YAML_PROVIDER.replace(
        "  ssl: {enable: false}\n",
        "  ssl: {enable: false}\n  lru: {secret: {ttl: 1, neg_ttl: 1}}\n",
    );
    let resources = format!("routes:\n{KEY_AUTH_ROUTE}{JACK}{}", managers(&vault));
    let gateway = Gateway::start(&config, Some(&resources));
    assert_eq!(get(&gateway, "/keyed", "first").status(), 200, "{}", gateway.error_log());
    for empty in [json!(""), json!({})] {
        secrets.set(jack, 200, json!({"data": {"key": empty}}));
        until_status(&gateway, "/keyed", "first", 401);
        for key in ["", "null", "{}", "false"] {
            assert_eq!(get(&gateway, "/keyed", key).status(), 401, "{empty} {key:?}");
        }
        secrets.set(jack, 200, json!({"data": {"key": "first"}}));
        until_status(&gateway, "/keyed", "first", 200);
    }
}

/// Keys that are empty as written, or as decoded.
#[test]
fn empty_keys_are_refused() {
    let gateway = Gateway::start(tidegate_testkit::gateway::EMBEDDED, None);
    let put =
        |path: &str, body: Value| gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body.to_string());
    let csrf = |key: &str| json!({"uri": "/c", "plugins": {"csrf": {"key": key}}});
    let jwt = |more: Value| {
        let mut conf = json!({"key": "u"});
        for (name, value) in more.as_object().into_iter().flatten() {
            conf[name] = value.clone();
        }
        json!({"username": "u", "plugins": {"jwt-auth": conf}})
    };
    for (path, body) in [
        ("routes/c", csrf("")),
        ("consumers/u", jwt(json!({"base64_secret": true, "secret": "===="}))),
        ("consumers/u", jwt(json!({"algorithm": "RS256", "public_key": "x"}))),
        ("consumers/u", jwt(json!({"algorithm": "EdDSA", "public_key": ""}))),
    ] {
        assert_eq!(put(path, body.clone()).0, 400, "{body}");
    }
    for (path, body) in [
        ("routes/c", csrf("a key")),
        ("consumers/u", jwt(json!({"base64_secret": true, "secret": "YQ=="}))),
        ("consumers/u", jwt(json!({"algorithm": "RS256", "public_key": "$env://LATER"}))),
    ] {
        let (status, answer) = put(path, body.clone());
        let refused_by_trial = answer.contains("failed to resolve secret reference");
        assert!(matches!(status, 200 | 201) || refused_by_trial, "{body}: {status} {answer}");
    }
}
