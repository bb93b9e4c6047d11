//! Google Cloud Logging: an access token for a signed assertion, then entries.

use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};
use tidegate_testkit::{Message, Upstream};

use super::{Logged, parsed, url, with};
use crate::config::secrets::clouds;

/// Hands out tokens that end after `seconds`, and takes entries with them.
fn service(seconds: u64) -> Upstream {
    Upstream::service(move |message: &Message| match message.target() {
        "/token" => {
            let token = json!({"access_token": "TOKEN", "token_type": "Bearer", "expires_in": seconds});
            (200, token.to_string())
        }
        _ if message.header("Authorization") == Some("Bearer TOKEN") => (200, "{}".to_owned()),
        _ => (401, String::new()),
    })
}

fn key() -> KeyPair {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key")
}

fn account(service: &Upstream, key: &KeyPair) -> Value {
    json!({
        "client_email": "gateway@test", "private_key": key.serialize_pem(), "project_id": "project",
        "token_uri": url(service) + "/token", "entries_uri": url(service) + "/write",
    })
}

fn targets(service: &Upstream) -> Vec<String> {
    service.seen().iter().map(|seen| seen.message.target().to_owned()).collect()
}

#[test]
fn entries_with_a_token() {
    let (service, key) = (service(3600), key());
    let conf = json!({
        "auth_config": account(&service, &key), "resource": {"type": "k8s_pod", "labels": {"zone": "z"}},
        "log_id": "requests", "log_format_extra": {"client_ip": "$http_x_from"},
    });
    let logged = Logged::start("google-cloud-logging", conf, Value::Null);
    logged.post("/a?b=c", "X-From: me\r\nUser-Agent: test\r\n", "body");
    service.wait_for(2);
    logged.get("/status/404");
    let seen = service.wait_for(3);
    assert_eq!(targets(&service), ["/token", "/write", "/write"], "a token is used again");
    let claims = clouds::claims(&seen[0].message, key.public_key_raw()).expect("a signature");
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!("gateway@test"), &json!(url(&service) + "/token")));
    let times = [&claims["iat"], &claims["exp"]].map(|time| time.as_u64().expect("a time"));
    assert_eq!(times[1] - times[0], 3600);
    let scope = claims["scope"].as_str().expect("a text");
    assert!(
        scope.starts_with("https://www.googleapis.com/auth/logging.read ")
            && scope.ends_with("/cloud-platform")
    );

    let written = parsed(&seen[1].message.body_text());
    assert_eq!(written["partialSuccess"], false);
    let entry = &written["entries"][0];
    assert_eq!(entry["logName"], "projects/project/logs/requests");
    assert_eq!(entry["resource"], json!({"type": "k8s_pod", "labels": {"zone": "z"}}));
    assert_eq!(entry["labels"], json!({"source": "apache-apisix-google-cloud-logging"}));
    assert_eq!(entry["jsonPayload"], json!({"route_id": "r1", "service_id": "s1", "client_ip": "me"}));
    assert!(entry["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{entry}");
    assert!(entry["insertId"].as_str().is_some_and(|id| id.len() == 32), "{entry}");
    let request = &entry["httpRequest"];
    assert_eq!((&request["requestMethod"], &request["userAgent"]), (&json!("POST"), &json!("test")));
    assert_eq!((&request["status"], &request["remoteIp"]), (&json!(200), &json!("127.0.0.1")));
    assert!(request["requestUrl"].as_str().is_some_and(|url| url.ends_with("/a?b=c")), "{request}");
    assert!(request["serverIp"].is_string() && request["requestSize"].is_number(), "{request}");
    assert!(
        request["latency"].as_str().is_some_and(|text| text.ends_with('s') && text.contains('.')),
        "{request}"
    );
    assert_eq!(parsed(&seen[2].message.body_text())["entries"][0]["httpRequest"]["status"], 404);
}

#[test]
fn scopes_as_configured() {
    let (service, key) = (service(3600), key());
    let account =
        with(account(&service, &key), json!({"scopes": ["https://a.test/one", "https://a.test/two"]}));
    let logged = Logged::start("google-cloud-logging", json!({"auth_config": account}), Value::Null);
    logged.get("/");
    let seen = service.wait_for(1);
    let claims = clouds::claims(&seen[0].message, key.public_key_raw()).expect("a signature");
    assert_eq!(claims["scope"], "https://a.test/one https://a.test/two");
}

/// A token without time is asked for each time.
#[test]
fn a_file_that_comes_later() {
    let (service, key) = (service(0), key());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("account.json");
    let conf = json!({
        "auth_file": path, "max_retry_count": 100, "retry_delay": 1, "log_format": {"uri": "$uri"},
    });
    let logged = Logged::start("google-cloud-logging", conf, Value::Null);
    logged.get("/1");
    logged.gateway.wait_for_log("failed to read configuration, file: ");
    let mut account = account(&service, &key);
    account["scopes"] = json!(["a", "b"]);
    let new = folder.path().join("new");
    std::fs::write(&new, account.to_string()).expect("written");
    std::fs::rename(&new, &path).expect("renamed");
    service.wait_for(2);
    logged.get("/2");
    let seen = service.wait_for(4);
    assert_eq!(targets(&service), ["/token", "/write", "/token", "/write"]);
    let claims = clouds::claims(&seen[0].message, key.public_key_raw()).expect("a signature");
    assert_eq!(claims["scope"], "a b");
    let entry = parsed(&seen[1].message.body_text())["entries"][0].clone();
    assert_eq!(
        (entry.get("httpRequest"), &entry["logName"]),
        (None, &json!("projects/project/logs/apisix.apache.org%2Flogs"))
    );
    assert_eq!(entry["resource"], json!({"type": "global"}));
}

#[test]
fn why_there_is_no_token_is_in_the_log() {
    let service = Upstream::service(|_| (400, r#"{"error":"invalid_grant"}"#.to_owned()));
    let conf = json!({"auth_config": account(&service, &key())});
    let logged = Logged::start("google-cloud-logging", conf, Value::Null);
    logged.get("/");
    logged.gateway.wait_for_log("invalid status code 400, {\"error\":\"invalid_grant\"}");
}

/// A token that no header can hold is not kept until it ends.
#[test]
fn a_token_that_cannot_be_sent_is_asked_for_again() {
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let service = Upstream::service(move |message: &Message| match message.target() {
        "/token" => {
            let is_first = asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            let token = if is_first { "a\r\nX: y" } else { "TOKEN" };
            (200, json!({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).to_string())
        }
        _ => (200, "{}".to_owned()),
    });
    let conf = json!({"auth_config": account(&service, &key()), "max_retry_count": 5, "retry_delay": 1});
    let logged = Logged::start("google-cloud-logging", conf, Value::Null);
    logged.get("/1");
    logged.gateway.wait_for_log("the token in the answer cannot be sent in a header");
    service.wait_for(3);
    assert_eq!(targets(&service), ["/token", "/token", "/write"]);
}
