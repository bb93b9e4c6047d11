//! Hosts that plugins name are looked up where those of upstream nodes are, and no thread waits for a name server.

use std::{
    fs,
    net::{SocketAddr, UdpSocket},
};

use serde_json::json;
use tidegate_testkit::{
    Gateway, Upstream, free_port,
    servers::{dnsmasq, installed},
};

use super::standalone;

/// A route that asks this service first, and answers by itself.
fn guarded(service: &str) -> String {
    format!(
        "routes:\n- {{id: 1, uri: /fa, plugins: {{forward-auth: {{uri: \"http://{service}/\", timeout: 2000}}, \
         serverless-post-function: {{phase: access, functions: [\"return function() return 200, 'in' end\"]}}}}}}\n"
    )
}

#[test]
fn a_plugin_asks_the_name_servers_of_the_file() {
    if !installed("dnsmasq") {
        eprintln!("skipped: dnsmasq is not installed");
        return;
    }
    let service = Upstream::start();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let _names = dnsmasq(Some(address), &["--local=/only.test/", "--host-record=auth.only.test,127.0.0.1"]);
    let routes = guarded(&format!("auth.only.test:{}", service.address.port()));
    let config = standalone(&[("apisix.dns_resolver", json!([address.to_string()]))]);
    let gateway = Gateway::start(&config, Some(&routes));
    let status = || gateway.client().get("h", "/fa").expect("an answer").status();
    assert_eq!(status(), 200, "{}", gateway.error_log());
    // One that the server does not know: closed, with what to do.
    gateway.write_routes(&guarded("none.only.test:80"));
    tidegate_testkit::eventually("it is closed", || status() != 200);
    gateway.wait_for_log("none.only.test:80: none.only.test: A and AAAA records asked of");
    gateway.wait_for_log("no such name (NXDOMAIN); correct the name, or set apisix.dns_resolver");
}

#[test]
fn a_name_server_that_does_not_answer_takes_no_threads() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = silent.local_addr().expect("an address").to_string();
    let config = standalone(&[("apisix.dns_resolver", json!([server]))]);
    let gateway = Gateway::start(&config, Some(&guarded("auth.only.test:80")));
    let tasks = format!("/proc/{}/task", gateway.pid().expect("a pid"));
    let threads = || fs::read_dir(&tasks).expect("its threads").count();
    let before = threads();
    let mut clients: Vec<_> = (0..200).map(|_| gateway.client()).collect();
    for client in &mut clients {
        client.send(b"GET /fa HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("sent");
    }
    silent.recv(&mut [0; 512]).expect("it is asked");
    let mut statuses = clients.iter_mut().map(|client| client.response().expect("an answer").status());
    let first = statuses.next();
    let during = threads();
    assert!(first == Some(403) && statuses.all(|status| status == 403), "not closed");
    // Those of the runtimes for other blocking work may have begun.
    assert!(during < before + 30, "{before} threads before, {during} with 200 requests that wait");
}
