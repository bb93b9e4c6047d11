//! The client certificate of a service of Kong, shown to nginx as the upstream.

use std::{fs, process::Command};

use tidegate_testkit::{
    Gateway, free_port,
    gateway::binary,
    servers::{self, Server},
};

use crate::protocols::certs::{Authority, quoted};

/// nginx that serves only who has a certificate of `authority`.
fn upstream(authority: &Authority, folder: &std::path::Path) -> (Server, u16) {
    let port = free_port();
    let pair = authority.issue("localhost");
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).expect("a file for nginx");
        path.display().to_string()
    };
    let text = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {}; ssl_certificate_key {};\n\
         ssl_client_certificate {}; ssl_verify_client on;\n\
         location / {{ return 200 \"client=$ssl_client_s_dn\\n\"; }}",
        file("cert.pem", &pair.cert),
        file("key.pem", &pair.key),
        file("ca.pem", &authority.cert)
    );
    (servers::nginx(&text), port)
}

#[test]
fn a_service_shows_its_certificate_and_that_of_its_upstream() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new();
    let (_nginx, port) = upstream(&authority, folder.path());
    let certificate = |id: &str| {
        let pair = authority.issue(id);
        format!("- {{id: {id}, cert: {}, key: {}}}\n", quoted(&pair.cert), quoted(&pair.key))
    };
    let service = |name: &str, host: &str, more: &str| {
        format!(
            "- {{name: {name}, protocol: https, host: {host}, port: {port}, {more}routes: [{{name: {name}, paths: [/{name}]}}]}}\n"
        )
    };
    let shown = [
        service("own", "127.0.0.1", "client_certificate: {id: of-service}, "),
        service("balanced", "pool", ""),
        service("both", "pool", "client_certificate: of-service, "),
        service("lost", "127.0.0.1", "client_certificate: {id: nowhere}, "),
    ];
    let text = format!(
        "_format_version: '3.0'\nservices:\n{}upstreams:\n\
         - {{name: pool, client_certificate: {{id: of-upstream}}, targets: [{{target: '127.0.0.1:{port}'}}]}}\n\
         certificates:\n{}{}",
        shown.concat(),
        certificate("of-service"),
        certificate("of-upstream")
    );
    let gateway = Gateway::start_from("kong", &text);
    let get = |path: &str| {
        let answer = gateway.client().get("h", path).expect("answers");
        (answer.status(), answer.body_text().trim().to_owned())
    };
    assert_eq!(get("/own"), (200, "client=CN=of-service".to_owned()));
    assert_eq!(get("/balanced"), (200, "client=CN=of-upstream".to_owned()));
    assert_eq!(get("/both"), (200, "client=CN=of-service".to_owned()));
    assert_eq!(get("/lost").0, 400, "nginx asks for one");

    let file = folder.path().join("kong.yaml");
    fs::write(&file, &text).expect("written");
    let output = Command::new(binary()).args(["import", "kong"]).arg(&file).output().expect("it runs");
    let report = String::from_utf8_lossy(&output.stderr);
    for part in [
        "converted: certificate of-service",
        "kong.yaml:6: not supported: service lost: `client_certificate` is not a certificate of the file",
        "3 of 4 routes behave as in Kong; 1 answer differently",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
}
