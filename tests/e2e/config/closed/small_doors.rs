//! Smaller doors and silences that strangers found.

use std::{io::Read, io::Write, net::TcpListener};

use serde_json::json;
use tidegate_testkit::{
    Gateway, Upstream,
    gateway::{EMBEDDED, YAML_PROVIDER},
};

use super::{admin, put};

/// Answers 401 after the head, and closes with the body unread, as servers do beyond their limit.
fn impatient_service() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream
                .write_all(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    address
}

/// Takes connections, and ends them without a word.
fn breaking_service() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || listener.incoming().flatten().for_each(drop));
    address
}

/// Only a service that cannot be connected to is away; a body that it does not take is the client's doing.
#[test]
fn a_long_body_does_not_degrade_forward_auth() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let service = impatient_service();
    let upstream = Upstream::start();
    let guarded = |uri: &str| {
        let node = upstream.address;
        format!(
            r#"{{"uri":"/{uri}","plugins":{{"forward-auth":{{"uri":"http://{service}/","request_method":"POST",
            "allow_degradation":true,"status_on_error":503,"max_req_body_size":67108864}}}},"upstream":{{"nodes":{{"{node}":1}}}}}}"#
        )
    };
    put(&gateway, "routes/z", &guarded("z"));
    let lengths = [10, 100_000, 20_000_000].into_iter().chain([1_000_000; 20]);
    for length in lengths {
        let mut client = gateway.client();
        let head =
            format!("POST /z HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        client.send(head.as_bytes()).expect("sends");
        let _ = client.send(&vec![b'a'; length]);
        let status = client.response().expect("an answer").status();
        assert_eq!(status, 401, "{length} bytes: the service's own answer");
    }
    let broken = guarded("z").replace(&service.to_string(), &breaking_service().to_string());
    put(&gateway, "routes/z", &broken.replace("\"POST\"", "\"GET\""));
    for _ in 0..5 {
        assert_eq!(
            super::status(&gateway, "/z"),
            503,
            "a request that the service does not take is not let in"
        );
    }
    let away = guarded("z").replace(&service.to_string(), "127.0.0.1:1");
    put(&gateway, "routes/z", &away);
    assert_eq!(super::status(&gateway, "/z"), 200, "a service that is away is what degradation is for");
    gateway.wait_for_log("failed to process forward auth, err: ");
}

#[test]
fn ldap_settings_without_effect_are_told() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    for (conf, wanted) in [
        (
            json!({"base_dn": "dc=x", "ldap_uri": "127.0.0.1:389", "tls_verify": true}),
            "tls_verify has no effect without use_tls",
        ),
        (json!({"base_dn": "", "ldap_uri": "127.0.0.1:389"}), "base_dn is empty"),
        (json!({"base_dn": "dc=x", "ldap_uri": "ldaps://127.0.0.1", "tls_verify": true}), ""),
    ] {
        let route =
            json!({"uri": "/z", "plugins": {"ldap-auth": conf}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        let answer = admin(&gateway, "PUT", "routes/z", "", &route.to_string());
        let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(
            if wanted.is_empty() { warning.is_empty() } else { warning.contains(wanted) },
            "{conf}: {warning}"
        );
    }
}

#[test]
fn a_list_of_plugins_that_is_none_is_told() {
    let gateway = Gateway::start(YAML_PROVIDER, Some("plugins: {cors: true}\nroutes: []\n"));
    gateway.wait_for_log("[plugins] is ignored, {\"cors\":true} is not a list");
}

#[test]
fn a_gateway_without_routes_has_an_empty_table() {
    let gateway = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    let mut command = std::process::Command::new(tidegate_testkit::gateway::binary());
    let output = command.arg("routes").arg("--prefix").arg(gateway.prefix()).output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_old_name_of_encryption_leads_to_the_new_one() {
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  data_encryption: {enable: false}\n");
    let gateway = Gateway::start(&config, Some("routes: []\n"));
    gateway.process.wait_for_output("it is read as apisix.data_encryption.enable_encrypt_fields");
}

/// Each pair has a place in the router: 314 KB of them took 7 GB.
#[test]
fn hosts_and_paths_of_a_route_are_bounded_together() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let route = |count: usize| {
        let uris: Vec<String> = (0..count).map(|number| format!("/{number}/*")).collect();
        let hosts: Vec<String> = (0..count).map(|number| format!("h{number}.x")).collect();
        json!({"uris": uris, "hosts": hosts, "plugins": {"mocking": {"response_example": "x"}}}).to_string()
    };
    let answer = admin(&gateway, "PUT", "routes/many", "", &route(14_000));
    assert_eq!(answer.status(), 400, "{}", answer.body_text());
    assert!(answer.body_text().contains("split the route"), "{}", answer.body_text());
    let answer = admin(&gateway, "PUT", "routes/many", "", &route(300));
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
}

#[test]
fn a_file_with_too_many_pairs_starts_and_shuts_them() {
    let list =
        |text: &str| (0..14_000).map(|number| text.replace('N', &number.to_string())).collect::<Vec<_>>();
    let routes = json!({"routes": [{"id": "many", "uris": list("/N/*"), "hosts": list("hN.x"),
        "plugins": {"mocking": {"response_example": "x"}}}, {"id": "fine", "uri": "/fine", "plugins": {"mocking": {"response_example": "x"}}}]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    assert_eq!(super::status(&gateway, "/fine"), 200);
    assert_eq!(super::status(&gateway, "/7/a"), 503);
}

#[test]
fn credentials_that_nobody_can_send_are_told() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let consumer = |plugins: serde_json::Value| json!({"username": "u", "plugins": plugins});
    let route = |plugins: serde_json::Value| json!({"uri": "/z", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    for (path, body, wanted) in [
        (
            "consumers/u",
            consumer(json!({"basic-auth": {"username": "a:b", "password": "p"}})),
            "it cannot contain a colon",
        ),
        ("consumers/u", consumer(json!({"key-auth": {"key": "k\n"}})), "no header can carry the key"),
        ("routes/z", route(json!({"key-auth": {"header": "a b"}})), "it is not a valid field name"),
        ("routes/z", route(json!({"hmac-auth": {"signed_headers": []}})), "lacks date"),
        (
            "routes/z",
            route(
                json!({"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_key": ["consumer_name"]}}),
            ),
            "the variable is $consumer_name",
        ),
        (
            "routes/z",
            route(json!({"response-rewrite": {"headers": {"remove": "X"}}})),
            "headers.remove is a text",
        ),
        (
            "routes/z",
            route(
                json!({"workflow": {"rules": [{"actions": [["return", {"code": 403}], ["return", {"code": 404}]]}]}}),
            ),
            "only its first action runs",
        ),
        ("consumer_groups/g", json!({"plugins": {"key-auth": {}}}), "plugin key-auth has no effect here"),
        (
            "routes/z",
            route(json!({"real-ip": {"source": "http-x", "trusted_addresses": ["127.0.0.1"]}})),
            "is not a variable",
        ),
        (
            "routes/z",
            route(json!({"limit-count": {"count": 1, "time_window": 9, "key": "consumer_nam"}})),
            "did you mean consumer_name?",
        ),
    ] {
        let answer = admin(&gateway, "PUT", path, "", &body.to_string());
        let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(answer.status() < 300 && warning.contains(wanted), "{body}: {} {warning}", answer.status());
    }
    for (body, wanted) in [
        (consumer(json!({"key-auth": {"key": " "}})), "should not be empty or blank"),
        (
            route(
                json!({"limit-count": {"count": 1, "time_window": 9, "policy": "redis", "redis_host": "a:6379"}}),
            ),
            "a:6379 is not a host",
        ),
    ] {
        let path = if body["username"].is_string() { "consumers/u" } else { "routes/z" };
        let answer = admin(&gateway, "PUT", path, "", &body.to_string());
        assert!(answer.status() == 400 && answer.body_text().contains(wanted), "{}", answer.body_text());
    }
}

/// Who reads that requests cannot be counted has to know where, and for whom.
#[test]
fn a_redis_that_is_away_is_named() {
    let gateway = Gateway::start(EMBEDDED, None);
    let limit =
        json!({"count": 1, "time_window": 9, "policy": "redis", "redis_host": "127.0.0.1", "redis_port": 1});
    let route =
        json!({"uri": "/z", "plugins": {"limit-count": limit}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    put(&gateway, "routes/counted", &route.to_string());
    assert_eq!(super::status(&gateway, "/z"), 500);
    gateway.wait_for_log("failed to limit count: Redis at 127.0.0.1:1: ");
    gateway.wait_for_log("(route counted)");
}
