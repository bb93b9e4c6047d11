//! At the Admin API: numbers that Lua would not tell apart work, what cannot be built is refused, secrets are warned of.

use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Message, Upstream};

use super::{OPEN, ask, is_rejected, put, refused, rejected, status};

#[test]
fn whole_numbers_with_a_fraction_work() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    put(
        &gateway,
        "global_rules/1",
        r#"{"plugins":{"ip-restriction":{"blacklist":["127.0.0.1"],"response_code":404.0,"message":"closed"}}}"#,
    );
    assert_eq!(ask(&gateway, "/", "").body_text(), "{\"message\":\"closed\"}\n");
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/global_rules/1", "").0, 200);
    for (path, plugins, expected) in [
        ("limit", r#""limit-count":{"count":1.0,"time_window":6e1,"rejected_code":429.0}"#, 429),
        ("code", r#""redirect":{"uri":"/x","ret_code":307.0}"#, 307),
        ("mock", r#""mocking":{"response_status":201.0,"response_example":"x"}"#, 201),
        ("fault", r#""fault-injection":{"abort":{"http_status":418.0,"percentage":1e2}}"#, 418),
        ("rewrite", r#""mocking":{"response_example":"x"},"response-rewrite":{"status_code":206.0}"#, 206),
    ] {
        let route = format!(r#"{{"uri":"/{path}","priority":1.0,"plugins":{{{plugins}}}}}"#);
        put(&gateway, &format!("routes/{path}"), &route);
        if path == "limit" {
            status(&gateway, "/limit");
        }
        assert_eq!(status(&gateway, &format!("/{path}")), expected, "{route}\n{}", gateway.error_log());
    }
    let checked = format!(
        r#"{{"retries":1.0,"retry_timeout":2.0,"timeout":{{"connect":1.0,"send":1.0,"read":1.0}},
        "keepalive_pool":{{"size":8.0,"idle_timeout":3.0,"requests":10.0}},
        "nodes":[{{"host":"127.0.0.1","port":{}.0,"weight":1.0,"priority":0.0}}],
        "checks":{{"passive":{{"unhealthy":{{"http_failures":3.0,"http_statuses":[500.0]}}}},
        "active":{{"http_path":"/","healthy":{{"interval":60.0}},"unhealthy":{{"interval":60.0}}}}}}}}"#,
        upstream.address.port()
    );
    put(&gateway, "upstreams/1", &checked);
    put(&gateway, "routes/proxied", r#"{"uri":"/proxied","upstream_id":1.0}"#);
    assert_eq!(status(&gateway, "/proxied"), 200, "{}", gateway.error_log());
    // Shown as APISIX shows them.
    let shown = gateway.admin("GET", "/apisix/admin/upstreams/1", "").1;
    assert!(shown.contains(r#""retries":1,"#), "{shown}");
    assert_eq!(rejected(&gateway), []);
}

#[test]
fn what_cannot_be_built_is_not_stored() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    let nodes = format!(r#""nodes":{{"{}":1}}"#, upstream.address);
    put(&gateway, "upstreams/1", &format!("{{{nodes}}}"));
    put(&gateway, "routes/1", r#"{"uri":"/shared","upstream_id":"1"}"#);
    assert_eq!(status(&gateway, "/shared"), 200);
    // A change of what others share is refused as well: they go on.
    let why = refused(&gateway, "PATCH", "upstreams/1", r#"{"retries":4294967296}"#);
    assert!(why.contains("field retries: 4294967296 should be an integer from 0 to 4294967295"), "{why}");
    assert_eq!(status(&gateway, "/shared"), 200);
    for (method, path, value, word) in [
        ("PUT", "upstreams/2", r#"{"nodes":{"127.0.0.1:1":4294967296}}"#, "127.0.0.1:1"),
        ("POST", "upstreams", r#"{"keepalive_pool":{"size":4294967296},"nodes":{"127.0.0.1:1":1}}"#, "size"),
        (
            "PUT",
            "routes/2",
            r#"{"uri":"/2","plugins":{"redirect":{"uri":"/x","ret_code":9007199254740992}}}"#,
            "ret_code",
        ),
        (
            "PUT",
            "global_rules/2",
            r#"{"plugins":{"mocking":{"response_example":"x","_meta":{"priority":9223372036854775808}}}}"#,
            "priority",
        ),
        ("PATCH", "routes/1", r#"{"priority":1e300}"#, "priority"),
        ("PATCH", "routes/1/plugins", r#"{"redirect":{"uri":"/x","ret_code":4294967296}}"#, "ret_code"),
        (
            "PUT",
            "import",
            r#"{"upstreams":[{"id":"2","retries":4294967296,"nodes":{"127.0.0.1:1":1}}]}"#,
            "retries",
        ),
        (
            "POST",
            "transactions",
            r#"{"changes":[{"method":"PATCH","path":"/upstreams/1","value":{"retries":4294967296}}]}"#,
            "changes[0] /upstreams/1: cannot be used: upstream: field retries",
        ),
        (
            "POST",
            "configs/validate",
            r#"{"upstreams":[{"id":"2","retries":4294967296,"nodes":{"127.0.0.1:1":1}}]}"#,
            "field retries",
        ),
    ] {
        let why = refused(&gateway, method, path, value);
        assert!(why.contains(word), "{path} {value}: {why}");
    }
    assert_eq!(rejected(&gateway), []);
    assert_eq!(status(&gateway, "/shared"), 200);
}

#[test]
fn an_object_that_others_are_built_from_is_refused_with_their_names() {
    let gateway = Gateway::start(EMBEDDED, None);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["client.test".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate").pem();
    let mut ssl = json!({"type": "client", "cert": cert, "key": key.serialize_pem()});
    put(&gateway, "ssls/1", &ssl.to_string());
    put(
        &gateway,
        "upstreams/1",
        r#"{"scheme":"https","tls":{"client_cert_id":"1"},"nodes":{"127.0.0.1:1":1}}"#,
    );
    ssl["type"] = json!("server");
    ssl["sni"] = json!("client.test");
    let why = refused(&gateway, "PUT", "ssls/1", &ssl.to_string());
    assert!(why.contains("upstreams/1: upstream: ssl 1 is for servers"), "{why}");
    assert_eq!(rejected(&gateway), []);
}

/// A certificate whose name no handshake has asks nobody for one of the client's.
#[test]
fn server_names_that_no_handshake_has() {
    let gateway = Gateway::start(EMBEDDED, None);
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["o1.test".to_owned()]).expect("a name");
    let cert = params.self_signed(&key).expect("a certificate").pem();
    for (name, wanted) in [
        ("o1.test:443", "a port is not allowed; write o1.test"),
        ("*o1.test", "write *.o1.test, and o1.test if that is meant too"),
        (".o1.test", "it cannot have an empty label"),
        ("[o1.test]", "brackets are for IPv6 addresses"),
    ] {
        let ssl = json!({"snis": [name], "cert": cert, "key": key.serialize_pem(), "client": {"ca": cert}});
        let why = refused(&gateway, "PUT", "ssls/1", &ssl.to_string());
        assert!(why.contains(wanted), "{name}: {why}");
    }
}

#[test]
fn a_secret_that_is_not_there_is_a_warning() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = format!(
        r#"{{"uri":"/oidc","plugins":{{{OPEN},"openid-connect":{{"client_id":"a","client_secret":"$env://TG_GONE",
        "discovery":"http://127.0.0.1:1/d","bearer_only":true}}}}}}"#
    );
    let answer = write(&gateway, "routes/1", &route);
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
    let warning = answer.header("X-Tidegate-Warning").expect("a warning");
    assert!(warning.contains("$env://TG_GONE"), "{warning}");
    assert_eq!(status(&gateway, "/oidc"), 503);
    assert!(is_rejected(&gateway, "routes/1"));
    // A number that is wrong is refused whatever the secret turns out to be.
    let wrong = route.replace("\"client_id\"", "\"jwk_expires_in\":18446744073709551615,\"client_id\"");
    refused(&gateway, "PUT", "routes/1", &wrong);
    // Told once in the log, counted in the metrics.
    put(&gateway, "routes/other", r#"{"uri":"/other","plugins":{"mocking":{"response_example":"x"}}}"#);
    let told = gateway.error_log().matches("routes/1 cannot be used: plugin openid-connect").count();
    assert_eq!(told, 1, "{}", gateway.error_log());
    let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = metrics.get("m", "/apisix/prometheus/metrics").expect("an answer").body_text();
    assert!(page.contains("apisix_rejected_objects{kind=\"routes\"} 1\n"), "{page}");
    assert!(page.contains("apisix_rejected_objects{kind=\"global_rules\"} 0\n"), "{page}");
}

fn write(gateway: &Gateway, path: &str, body: &str) -> Message {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let length = body.len();
    let request = format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    client.request(&request).expect("an answer")
}
