//! jwe-decrypt: what the upstream gets of a token, and what is refused.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

/// Of key `user-key`; its content is `hello`.
const TOKEN: &str = "eyJraWQiOiJ1c2VyLWtleSIsImFsZyI6ImRpciIsImVuYyI6IkEyNTZHQ00ifQ..MTIzNDU2Nzg5MDEy.6JeRgm0.rNt131nG5wMvUD1KXbwLGA";

fn gateway(upstream: &Upstream, secret: &str) -> Gateway {
    gateway_with(upstream, json!({"key": "user-key", "secret": secret}))
}

fn gateway_with(upstream: &Upstream, consumer: Value) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, conf: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": {"jwe-decrypt": conf}, "upstream": target});
    let objects = json!({
        "routes": [
            route("strict", json!({})),
            route("other", json!({"header": "X-Token", "forward_header": "X-Content", "strict": false})),
        ],
        "consumers": [{"username": "jack", "plugins": {"jwe-decrypt": consumer}}],
    });
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

fn send(gateway: &Gateway, target: &str, fields: &str) -> Message {
    let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
}

#[test]
fn contents_of_tokens_go_upstream() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "12345678901234567890123456789012");
    for (target, fields) in [
        ("/strict", format!("Authorization: {TOKEN}\r\n")),
        ("/strict", format!("Authorization: Bearer {TOKEN}\r\n")),
        ("/other", format!("X-Token: bearer {TOKEN}\r\nX-Content: claimed\r\nX_Content: claimed\r\n")),
        ("/other", "X-Content: claimed\r\n".to_owned()),
    ] {
        assert_eq!(send(&gateway, target, &fields).status(), 200, "{target} {fields}");
    }
    let seen = upstream.seen();
    let field = |at: usize, name: &str| seen[at].message.header(name);
    assert_eq!(field(0, "Authorization"), Some("hello"));
    assert_eq!(field(1, "Authorization"), Some("hello"));
    assert_eq!(field(2, "X-Content"), Some("hello"));
    assert_eq!(field(3, "X-Content"), None, "nobody but a token says what is in the field");
    assert!(!seen.iter().any(|request| request.text().contains("claimed")));
}

#[test]
fn refusals() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "12345678901234567890123456789012");
    let unknown = "eyJraWQiOiJ4In0..MTIzNDU2Nzg5MDEy.6JeRgm0.rNt131nG5wMvUD1KXbwLGA";
    for (fields, status, message) in [
        (String::new(), 403, "missing JWE token in request"),
        ("Authorization: a.b\r\n".to_owned(), 400, "JWE token invalid"),
        ("Authorization: e30....\r\n".to_owned(), 400, "missing kid in JWE token"),
        (format!("Authorization: {unknown}\r\n"), 400, "invalid kid in JWE token"),
        (format!("Authorization: {TOKEN}x\r\n"), 400, "failed to decrypt JWE token"),
    ] {
        let answer = send(&gateway, "/strict", &fields);
        assert_eq!(answer.status(), status, "{fields}");
        assert_eq!(answer.body_text(), format!("{{\"message\":\"{message}\"}}\n"), "{fields}");
    }
    let twice = send(&gateway, "/other", &format!("X-Token: {TOKEN}\r\nX-Token: {TOKEN}\r\n"));
    assert_eq!((twice.status(), twice.body_text().as_str()), (400, "{\"message\":\"JWE token invalid\"}\n"));
    assert!(upstream.seen().is_empty());
}

#[test]
fn another_secret_opens_nothing() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "x2345678901234567890123456789012");
    let answer = send(&gateway, "/strict", &format!("Authorization: {TOKEN}\r\n"));
    assert_eq!(
        (answer.status(), answer.body_text().as_str()),
        (400, "{\"message\":\"failed to decrypt JWE token\"}\n")
    );
}

/// Taken as it stands it would be too long.
#[test]
fn a_secret_in_base64() {
    let upstream = Upstream::start();
    let secret = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=";
    let consumer = json!({"key": "user-key", "secret": secret, "is_base64_encoded": true});
    let gateway = gateway_with(&upstream, consumer);
    assert_eq!(send(&gateway, "/strict", &format!("Authorization: {TOKEN}\r\n")).status(), 200);
    assert_eq!(upstream.seen()[0].message.header("Authorization"), Some("hello"));
}
