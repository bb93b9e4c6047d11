//! The Admin API, what it is asked for, and what it leaves on disk.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, Gateway, binary};
use tidegate_testkit::{Client, free_port};

use super::embedded;
use crate::protocols::certs::Authority;
use crate::protocols::secure::{Offer, Secure};

const ROUTE: &str = r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "fine"}}}"#;

/// Head and body of the answer to a call with this key.
fn call(gateway: &Gateway, method: &str, path: &str, key: &str, body: &str) -> String {
    let length = body.len();
    let key = if key.is_empty() { String::new() } else { format!("X-API-KEY: {key}\r\n") };
    let mut client = Client::connect(gateway.admin).expect("connects");
    let request = format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{key}Content-Length: {length}\r\n\r\n{body}"
    );
    client.send(request.as_bytes()).expect("sends");
    String::from_utf8_lossy(&client.to_close().unwrap_or_default()).into_owned()
}

fn start(keys: &[(&str, Value)]) -> Gateway {
    let gateway = Gateway::start(&embedded(keys), None);
    let mut client = Client::connect(gateway.admin);
    while client.is_err() {
        client = Client::connect(gateway.admin);
    }
    gateway
}

#[test]
fn answers_have_the_shape_and_headers_of_the_file() {
    for (keys, wanted, absent) in [
        (vec![], vec!["access-control-allow-origin", "\"total\":0"], vec!["\"action\""]),
        (
            vec![("deployment.admin.enable_admin_cors", json!(false))],
            vec![],
            vec!["access-control-allow-origin"],
        ),
        (vec![("deployment.admin.admin_api_version", json!("v2"))], vec!["\"node\""], vec!["\"total\""]),
    ] {
        let gateway = start(&keys);
        let answer = call(&gateway, "GET", "routes", ADMIN_KEY, "").to_lowercase();
        for text in wanted {
            assert!(answer.contains(text), "{keys:?}: {answer}");
        }
        for text in absent {
            assert!(!answer.contains(text), "{keys:?}: {answer}");
        }
    }
}

#[test]
fn keys_roles_and_networks_are_asked_for() {
    let two = json!([
        {"name": "writer", "key": "writer-key", "role": "admin"},
        {"name": "reader", "key": "reader-key", "role": "viewer"},
    ]);
    let gateway = start(&[("deployment.admin.admin_key", two)]);
    assert!(call(&gateway, "PUT", "routes/1", "", ROUTE).contains(" 401 "));
    assert!(call(&gateway, "PUT", "routes/1", "reader-key", ROUTE).contains(" 401 "));
    assert!(call(&gateway, "GET", "routes", "reader-key", "").contains(" 200 "));
    assert!(call(&gateway, "PUT", "routes/1", "writer-key", ROUTE).contains(" 201 "));
    assert!(call(&gateway, "GET", "history", "writer-key", "").contains("\"name\":\"writer\""));
    let open = start(&[("deployment.admin.admin_key_required", json!(false))]);
    assert!(call(&open, "PUT", "routes/1", "", ROUTE).contains(" 201 "));
    let far = start(&[("deployment.admin.allow_admin", json!(["10.0.0.0/8"]))]);
    assert!(call(&far, "GET", "routes", ADMIN_KEY, "").contains(" 403 "));
}

#[test]
fn https_has_the_certificates_of_the_file() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("admin.test"), authority.issue("client"));
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file");
        json!(path)
    };
    let (cert, key) = (file("cert.pem", &server.cert), file("key.pem", &server.key));
    let ca = file("ca.pem", &authority.cert);
    for asks in [false, true] {
        let mut mtls = json!({"admin_ssl_cert": cert, "admin_ssl_cert_key": key});
        if asks {
            mtls["admin_ssl_ca_cert"] = ca.clone();
        }
        let keys = [("deployment.admin.https_admin", json!(true)), ("deployment.admin.admin_api_mtls", mtls)];
        let gateway = start(&keys);
        let get = |shown| {
            let config = Offer::default().config(shown);
            let mut secure = Secure::connect(gateway.admin, "admin.test", &config)?;
            assert!(secure.shows(&server));
            secure.get("admin.test", "/apisix/admin/routes")
        };
        assert!(get(Some(&client)).expect("an answer").starts_with("HTTP/1.1 401"));
        assert_eq!(get(None).is_ok(), !asks, "admin_ssl_ca_cert: {asks}");
    }
}

#[test]
fn secrets_of_plugins_are_encrypted_on_disk_unless_the_file_says_no() {
    let secret = "a-password-to-look-for";
    let body = format!(
        r#"{{"username": "jack", "plugins": {{"basic-auth": {{"username": "jack", "password": "{secret}"}}}}}}"#
    );
    let none: [&str; 0] = [];
    for (keys, plain) in [
        (vec![], false),
        (vec![("apisix.data_encryption.enable_encrypt_fields", json!(false))], true),
        (vec![("apisix.data_encryption.keyring", json!(none))], true),
    ] {
        let mut gateway = start(&keys);
        assert!(call(&gateway, "PUT", "consumers", ADMIN_KEY, &body).contains(" 201 "), "{keys:?}");
        gateway.process.stop();
        let bytes = fs::read(gateway.prefix().join("data/tidegate.redb")).expect("the store");
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert_eq!(found, plain, "{keys:?}");
    }
}

#[test]
fn a_start_asks_etcd_as_often_as_the_file_says() {
    let attempts = |rounds: u64| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address: SocketAddr = listener.local_addr().expect("an address");
        let counting = std::thread::spawn(move || {
            let mut count = 0;
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if stream.peer_addr().is_ok_and(|peer| peer.ip().to_string() == "127.0.0.2") {
                    break;
                }
                count += 1;
            }
            count
        });
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(folder.path().join("conf")).expect("conf");
        let config = embedded(&[
            ("deployment.role_traditional.config_provider", json!("etcd")),
            ("deployment.etcd.host", json!([format!("http://{address}")])),
            ("deployment.etcd.startup_retry", json!(rounds)),
            ("deployment.etcd.timeout", json!(1)),
        ]);
        let config = ["@HTTP@", "@ADMIN@", "@CONTROL@", "@METRICS@"]
            .iter()
            .fold(config, |text, name| text.replace(name, &free_port().to_string()));
        fs::write(folder.path().join("conf/config.yaml"), config).expect("config.yaml");
        let output = Command::new(binary()).arg("run").arg("--prefix").arg(folder.path()).output();
        assert!(!output.expect("runs").status.success(), "there is no etcd");
        let from: SocketAddr = ([127, 0, 0, 2], 0).into();
        let _end = Client::connect_from(from, address).expect("connects");
        counting.join().expect("counts")
    };
    let (one, four) = (attempts(1), attempts(4));
    assert!(one >= 1 && four > one, "{one} attempts in one round, {four} in four");
}

/// The layout of APISIX 2.x: on its own port, and on no other of the data plane.
#[test]
fn on_a_data_port_the_api_is_where_admin_listen_says() {
    let here = |port: &str| json!({"ip": "127.0.0.1", "port": port});
    let gateway = Gateway::start(
        &embedded(&[
            ("apisix.node_listen", json!([here("@HTTP@"), here("@METRICS@")])),
            ("plugin_attr.prometheus.enable_export_server", json!(false)),
            ("deployment.admin.admin_listen", here("@METRICS@")),
        ]),
        None,
    );
    let status = |address| {
        let mut client = Client::connect(address).expect("connects");
        let request = "GET /apisix/admin/routes HTTP/1.1\r\nHost: h\r\nX-API-KEY: test-admin-key\r\n\r\n";
        client.request(request).expect("an answer").status()
    };
    assert_eq!(status(gateway.metrics), 200);
    assert_eq!(status(gateway.http), 404, "the other data port knows nothing of it");
}
