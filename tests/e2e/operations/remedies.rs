//! Refusals and hints say what to do, in the words of what was written.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, binary};
use tidegate_testkit::{Client, Gateway, free_port};

/// The status of a write, what it says, and what it warns of.
fn put(gateway: &Gateway, path: &str, object: &Value) -> (u16, String, String) {
    let body = object.to_string();
    let put = format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let answer = Client::connect(gateway.admin).expect("a connection").request(&put).expect("an answer");
    let warning = answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned();
    (answer.status(), answer.body_text(), warning)
}

#[test]
fn refused_writes_have_a_remedy() {
    let streams =
        format!("  proxy_mode: http&stream\n  stream_proxy: {{tcp: [\"127.0.0.1:{}\"]}}\n", free_port());
    let config = EMBEDDED.replacen("apisix:\n", &format!("apisix:\n{streams}"), 1)
        + "plugins: [error-log-logger, key-auth, opentelemetry]\n";
    let gateway = Gateway::start(&config, None);
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).expect("a certificate");
    let ssl = |names: Value| {
        let mut ssl = json!({"cert": pair.cert.pem(), "key": pair.signing_key.serialize_pem()});
        ssl.as_object_mut().expect("an object").extend(names.as_object().expect("an object").clone());
        ssl
    };
    let receiver = json!({"host": "127.0.0.1", "port": 1});
    let session = json!({"plugins": {"ip-restriction": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    for (path, object, remedy) in [
        ("ssls/1", ssl(json!({})), "it needs sni and key and cert, or snis and key and cert"),
        (
            "ssls/1",
            ssl(json!({"sni": "a.test", "snis": ["a.test"]})),
            "write all names in snis, and take sni out",
        ),
        (
            "plugin_metadata/error-log-logger",
            json!({"level": "ERROR"}),
            "it needs skywalking, or tcp, or clickhouse",
        ),
        (
            "plugin_metadata/error-log-logger",
            json!({"tcp": receiver, "skywalking": {}}),
            "write only one of them: skywalking, or tcp, or clickhouse",
        ),
        ("stream_routes/1", session, "it needs whitelist, or blacklist"),
    ] {
        let (status, text, _) = put(&gateway, path, &object);
        assert!(status == 400 && text.contains(remedy), "{path}: {status} {text}");
    }
    let vault = json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": ""});
    let (_, _, told) = put(&gateway, "secrets/vault/2", &vault);
    assert!(told.contains("token is empty, so no secret can be read"), "{told}");
    let traced = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": {"opentelemetry": {"additional_attributes": ["$nosuch"]}}});
    let (_, _, told) = put(&gateway, "routes/1", &traced);
    assert!(told.contains("names stand without $ here; write nosuch") && !told.contains("$$"), "{told}");
    let (done, said) = gateway.verb_with(&["config", "checkpoint", "a b/c"]);
    assert!(!done && said.contains("names and ids cannot contain a slash"), "{said}");
}

#[test]
fn a_write_where_the_whole_configuration_is_set_says_how() {
    let config = EMBEDDED
        .replace("config_provider: embedded", "config_provider: yaml")
        .replace("apisix:\n", "apisix:\n  enable_admin: true\n");
    let gateway = Gateway::start(&config, None);
    for path in ["routes/1", "users/jo"] {
        let (status, text, _) = put(&gateway, path, &json!({}));
        assert!(status == 404 && text.contains("PUT /apisix/admin/configs sets the whole"), "{path}: {text}");
    }
    let unknown = "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}";
    let answer = Client::connect(gateway.admin).expect("a connection").request(unknown).expect("an answer");
    assert!(answer.status() == 404 && !answer.body_text().contains("configs"), "{}", answer.body_text());
}

#[test]
fn keys_of_other_places_are_pointed_to_theirs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (http, tcp) = (free_port(), free_port());
    let config = format!(
        "apisix:\n  node_listen: [{{ip: 127.0.0.1, port: {http}, ssl: true}}]\n  ssl: {{enable: false, cert: a.pem}}\n  \
         enable_control: false\n  enable_admin: false\n  proxy_mode: http&stream\n  stream_proxy: {{tcp: [{{addr: '127.0.0.1:{tcp}', ssl: true}}]}}\n\
         plugin_attr: {{prometheus: {{enable_export_server: false}}}}\n\
         stream_plugins: [mqtt-prox]\nwasm: {{instance_memory: 1m, memory: 12}}\n"
    );
    std::fs::create_dir(folder.path().join("conf")).expect("a folder");
    let file = folder.path().join("conf/config.yaml");
    let test = |config: &str| {
        std::fs::write(&file, config).expect("a file");
        let output =
            Command::new(binary()).args(["test", "--prefix"]).arg(folder.path()).output().expect("runs");
        let said = [output.stdout.as_slice(), &output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let (done, said) = test(&config);
    assert!(!done && said.contains("wasm.memory should be a size of at least 64k, like 512m"), "{said}");
    let (done, said) = test(&config.replace("memory: 12}", "memory: 64m}"));
    assert!(done, "{said}");
    for wanted in [
        "unknown key apisix.node_listen[].ssl is ignored; ports for HTTPS stand in apisix.ssl.listen",
        "unknown key apisix.ssl.cert is ignored; certificates are ssl objects",
        "unknown key apisix.stream_proxy.tcp[].ssl is ignored; did you mean tls?",
        "mqtt-prox (did you mean mqtt-proxy?)",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
