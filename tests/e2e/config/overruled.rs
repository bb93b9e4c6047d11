//! Keys of config.yaml that another key, or their own value, leaves without effect: `tidegate test` names each with its place.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::free_port;
use tidegate_testkit::gateway::binary;

use super::config_keys::embedded;

/// What `tidegate test` says of a config.yaml with these keys, and whether it is taken. Nothing listens.
fn test_of(keys: &[(&str, Value)]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let ports = ["\"@HTTP@\"", "\"@ADMIN@\"", "\"@CONTROL@\"", "\"@METRICS@\"", "\"@TLS@\""];
    let config = ports.iter().fold(embedded(keys), |text, port| text.replace(port, &free_port().to_string()));
    std::fs::create_dir(folder.path().join("conf")).expect("a folder");
    std::fs::write(folder.path().join("conf/config.yaml"), config).expect("a file");
    let output =
        Command::new(binary()).args(["test", "--prefix"]).arg(folder.path()).output().expect("tidegate runs");
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn keys_of_what_is_off_are_told() {
    let off = [
        ("apisix.enable_http2", json!(false)),
        ("apisix.http2.max_resets", json!(5)),
        ("apisix.enable_control", json!(false)),
        ("apisix.control", json!({"port": 9095})),
        ("apisix.ssl", json!({"enable": false, "listen": [9443], "fallback_sni": "a.test"})),
    ];
    let (done, said) = test_of(&off);
    assert!(done, "{said}");
    for wanted in [
        "no effect: apisix.http2.max_resets: apisix.enable_http2 is false",
        "no effect: apisix.control.port: the Control API is not served",
        "no effect: apisix.ssl.listen: apisix.ssl.enable is false",
        "no effect: apisix.ssl.fallback_sni: no port speaks TLS with clients",
    ] {
        let line = said.lines().find(|line| line.contains(wanted));
        assert!(line.is_some_and(|line| line.contains("conf/config.yaml:1:")), "{wanted}: {said}");
    }
    // TLS of sessions.
    let (done, said) = test_of(&[
        ("apisix.ssl", json!({"enable": false, "ssl_session_tickets": true})),
        ("apisix.proxy_mode", json!("http&stream")),
        ("apisix.stream_proxy.tcp", json!([{"addr": format!("127.0.0.1:{}", free_port()), "tls": true}])),
    ]);
    assert!(done && !said.contains("ssl_session_tickets"), "{said}");
}

#[test]
fn names_that_no_handshake_has_are_told() {
    let good = "ECDHE-RSA-AES128-GCM-SHA256";
    for (key, value, wanted) in [
        ("apisix.ssl.fallback_sni", json!(""), "\"\" is not a host name"),
        (
            "apisix.ssl.ssl_ciphers",
            json!(format!("{good}:ECDHE-RSA-AES256-GCM-SHA385")),
            "no client gets ECDHE-RSA-AES256-GCM-SHA385 (did you mean ECDHE-RSA-AES256-GCM-SHA384?)",
        ),
        ("apisix.ssl.ssl_ciphers", json!("HIGH:!CHACHA20"), "!CHACHA20 takes no suite out"),
        ("apisix.ssl.ssl_ciphers", json!(format!("{good}:!aNULL:!MD5")), ""),
    ] {
        let listen = json!({"listen": [{"ip": "127.0.0.1", "port": "@TLS@"}]});
        let (done, said) = test_of(&[("apisix.ssl", listen), (key, value)]);
        let is_told = said.lines().any(|line| line.contains("config.yaml:1:") && line.contains(key));
        assert!(done && said.contains(wanted) && is_told != wanted.is_empty(), "{key}: {said}");
    }
}

/// No object has such a label.
#[test]
fn a_scope_of_other_values_than_texts_is_refused() {
    for value in [json!(["a", "b"]), json!(5), json!(true), json!(null), json!("")] {
        let keys = json!([
            {"name": "a", "key": "key-of-the-admin", "role": "admin"},
            {"name": "b", "key": "key-of-an-editor", "role": "editor", "scope": {"team": value}},
        ]);
        let (done, said) = test_of(&[("deployment.admin.admin_key", keys)]);
        let told =
            said.contains("each label in scope should have one text") && said.contains("config.yaml:1:");
        assert!(!done && told, "{value}: {said}");
    }
}
