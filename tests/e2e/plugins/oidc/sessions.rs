//! Routes that share `session.secret`: whose sessions each of them takes.

use tidegate_testkit::Client;

use super::*;
use crate::plugins::redis_connections;

/// A route below `/NAME/` for this client at this provider, with one secret for all.
fn route(name: &str, upstream: &Upstream, provider: &Provider, client: &str, more: &Value) -> Value {
    let mut conf = json!({
        "client_id": client, "client_secret": SECRET, "redirect_uri": format!("/{name}/callback"),
        "discovery": format!("http://{}/.well-known", provider.server.address),
        "session": {"secret": "0123456789abcdef0123456789abcdef"},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        conf[field] = value.clone();
    }
    json!({"id": name, "uri": format!("/{name}/*"), "plugins": {"openid-connect": conf},
           "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}})
}

fn get(gateway: &Gateway, path: &str, cookie: &str) -> Message {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\n\r\n");
    gateway.client().request(&request).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn sessions_are_for_their_provider_and_client() {
    let (own, other, upstream) = (Provider::start(), Provider::start(), Upstream::start());
    let issuer = format!("http://{}", own.server.address);
    let claims = |value: Value| json!({ "claim_validator": value });
    let rows = [
        ("home", &own, "c", json!({}), 200),
        ("same", &own, "c", json!({}), 200),
        ("issuer", &own, "c", claims(json!({"issuer": {"valid_issuers": [issuer]}})), 200),
        ("audience", &own, "c", claims(json!({"audience": {"match_with_client_id": true}})), 200),
        ("secret", &own, "c", json!({"session": {"secret": "fedcba9876543210fedcba9876543210"}}), 302),
        ("client", &own, "d", json!({}), 302),
        ("provider", &other, "c", json!({}), 302),
        ("bad-issuer", &own, "c", claims(json!({"issuer": {"valid_issuers": ["http://other"]}})), 403),
        ("bad-audience", &own, "c", claims(json!({"audience": {"claim": "team", "required": true}})), 403),
        ("scopes", &own, "c", json!({"required_scopes": ["admin"]}), 403),
        ("schema", &own, "c", json!({"claim_schema": {"type": "object", "required": ["role"]}}), 401),
    ];
    let routes: Vec<Value> = rows
        .iter()
        .map(|(name, provider, client, more, _)| route(name, &upstream, provider, client, more))
        .collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    let begun = get(&gateway, "/home/app", "");
    let location = begun.header("Location").expect("a location");
    let (_, state) = location.split_once("state=").expect("a state");
    let callback = format!("/home/callback?code=any&state={}", state.split('&').next().unwrap_or_default());
    let cookie = cookies(&get(&gateway, &callback, &cookies(&begun)));
    for (name, _, _, _, expected) in &rows {
        upstream.take();
        let status = get(&gateway, &format!("/{name}/app"), &cookie).status();
        assert_eq!(status, *expected, "{name}\n{}", gateway.error_log());
        assert_eq!(!upstream.take().is_empty(), status == 200, "{name}");
    }
}

#[test]
fn idle_connections_to_redis_end_as_configured() {
    let redis = servers::redis(&[]);
    let connections = || redis_connections::connections(redis.address);
    let session =
        json!({"storage": "redis", "redis": {"port": redis.address.port(), "keepalive_timeout": 1000}});
    let fixture = fixture(json!({}), session);
    let session = fixture.log_in();
    assert!(fixture.is_in(&session));
    let kept = connections();
    assert!(fixture.is_in(&session));
    assert_eq!(connections(), kept + 1, "only this test's own is new");
    let mut pause = Client::connect(fixture.upstream.address).expect("it listens");
    assert_eq!(pause.get("h", "/delay/1500").expect("an answer").status(), 200);
    assert!(fixture.is_in(&session));
    assert!(connections() > kept + 2, "the idle connection was used again");
}
