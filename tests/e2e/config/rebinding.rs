//! A page in a browser makes its own name lead to 127.0.0.1 and asks what listens there: the browser sends that name as
//! `Host`, and what asks for no key does not answer to it.

use std::net::SocketAddr;

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway, Message};

fn get(address: SocketAddr, path: &str, fields: &str) -> Message {
    let version = if fields.contains("Host") { "1.1" } else { "1.0" };
    let request = format!("GET {path} HTTP/{version}\r\n{fields}\r\n");
    Client::connect(address).expect("connects").request(&request).expect("an answer")
}

const STRANGERS: [&str; 4] =
    ["evil.example", "evil.example:9090", "127.0.0.1.evil.example", "localhost.evil.example"];

fn check(gateway: &Gateway, address: SocketAddr, path: &str) {
    let port = address.port();
    for host in ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "10.1.2.3", "gateway.internal", ""] {
        for port in [String::new(), format!(":{port}")] {
            if host.is_empty() && !port.is_empty() {
                continue;
            }
            let answer = get(address, path, &format!("Host: {host}{port}\r\n"));
            assert_eq!(answer.status(), 200, "{host}{port}: {}", gateway.error_log());
        }
    }
    assert_eq!(get(address, path, "").status(), 200, "HTTP/1.0 has no Host");
    for host in STRANGERS {
        let answer = get(address, path, &format!("Host: {host}\r\n"));
        assert_eq!(answer.status(), 403, "{host}");
        let body = answer.body_text();
        assert!(body.contains("apisix.control.hosts") && body.contains(host), "{body}");
    }
}

#[test]
fn pages_of_browsers_do_not_reach_what_asks_for_no_key() {
    let control = "control: {ip: 127.0.0.1, port: @CONTROL@, hosts: [gateway.internal]}";
    let keyless = EMBEDDED.replace("control: {ip: 127.0.0.1, port: @CONTROL@}", control).replace(
        "    admin_key: [",
        "    admin_key_required: false\n    enable_admin_cors: false\n    admin_key: [",
    );
    let gateway = Gateway::start(&keyless, None);
    check(&gateway, gateway.control, "/v1/schema");
    check(&gateway, gateway.admin, "/apisix/admin/routes");
    // A key is what no page knows, and any name will do.
    let gateway = Gateway::start(EMBEDDED, None);
    let key = format!("Host: evil.example\r\nX-API-KEY: {}\r\n", tidegate_testkit::gateway::ADMIN_KEY);
    assert_eq!(get(gateway.admin, "/apisix/admin/routes", &key).status(), 200);
    assert_eq!(get(gateway.control, "/v1/schema", "Host: gateway.internal\r\n").status(), 403);
}
