//! Where the gateway listens, and where it does not.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Instant;

use serde_json::{Value, json};
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::{PATIENCE, free_port};

use super::{embedded, standalone};

fn is_open(address: SocketAddr) -> bool {
    TcpStream::connect(address).is_ok()
}

/// Whoever answers has opened all its ports.
fn wait_until_it_serves(gateway: &Gateway) {
    gateway.client().get("h", "/").expect("an answer");
}

/// An address of loopback that only one listener of a test has.
fn place(last: u8) -> (SocketAddr, Value) {
    let address = SocketAddr::from(([127, 0, 0, last], free_port()));
    (address, json!({"ip": address.ip().to_string(), "port": address.port()}))
}

#[test]
fn ports_and_addresses_are_those_of_the_file() {
    let (node, node_value) = place(2);
    let (control, control_value) = place(3);
    let (status, status_value) = place(4);
    let (metrics, metrics_value) = place(5);
    let (admin, admin_value) = place(6);
    let (tls, tls_value) = place(7);
    let gateway = Gateway::start(
        &embedded(&[
            ("apisix.node_listen", json!([node_value, "@HTTP@"])),
            ("apisix.control", control_value),
            ("apisix.status", status_value),
            ("apisix.ssl", json!({"enable": true, "listen": [tls_value]})),
            ("deployment.admin.admin_listen", admin_value),
            ("plugin_attr.prometheus.export_addr", metrics_value),
        ]),
        None,
    );
    wait_until_it_serves(&gateway);
    for address in [node, control, status, metrics, admin, tls] {
        assert!(is_open(address), "{address}");
        assert!(!is_open(SocketAddr::from(([127, 0, 0, 1], address.port()))), "{address} alone");
    }
    // A bare port is for every address.
    assert!(is_open(SocketAddr::from(([127, 0, 0, 9], gateway.http.port()))));
    assert!(answers(status, "/status").starts_with("HTTP/1.1 200"));
    assert!(answers(metrics, "/apisix/prometheus/metrics").contains("apisix_node_info"));
    assert!(answers(control, "/v1/schema").starts_with("HTTP/1.1 200"));
    assert!(answers(admin, "/apisix/admin/routes").starts_with("HTTP/1.1 401"));
}

fn answers(address: SocketAddr, path: &str) -> String {
    let mut client = tidegate_testkit::Client::connect(address).expect("connects");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes()).expect("sends");
    String::from_utf8_lossy(&client.to_close().unwrap_or_default()).into_owned()
}

#[test]
fn what_is_switched_off_does_not_listen() {
    let (tls, tls_value) = place(7);
    let keys = |on: bool| {
        [
            ("apisix.node_listen", json!("@HTTP@")),
            ("apisix.enable_ipv6", json!(on)),
            ("apisix.enable_control", json!(on)),
            ("apisix.enable_admin", json!(on)),
            ("apisix.ssl", json!({"enable": on, "listen": [tls_value]})),
            ("plugin_attr.prometheus.enable_export_server", json!(on)),
        ]
    };
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    for on in [false, true] {
        let gateway = Gateway::start(&embedded(&keys(on)), None);
        wait_until_it_serves(&gateway);
        for address in [tls, gateway.control, gateway.metrics, gateway.admin] {
            assert_eq!(is_open(address), on, "{address}");
        }
        let six = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), gateway.http.port());
        assert_eq!(is_open(six), on && has_ipv6, "{six}");
    }
}

#[test]
fn a_name_server_of_the_file_is_asked() {
    if !tidegate_testkit::servers::installed("dnsmasq") {
        eprintln!("skipped: dnsmasq is not installed");
        return;
    }
    let upstream = tidegate_testkit::Upstream::start();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let _names =
        tidegate_testkit::servers::dnsmasq(Some(address), &["--host-record=only.here.test,127.0.0.1"]);
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, nodes: {{\"only.here.test:{}\": 1}}}}}}\n",
        upstream.address.port()
    );
    for (keys, works) in
        [(vec![("apisix.dns_resolver", json!([address.to_string()]))], true), (vec![], false)]
    {
        let gateway = Gateway::start(&standalone(&keys), Some(&routes));
        let status = gateway.client().get("h", "/echo").expect("an answer").status();
        assert_eq!(status == 200, works, "{status} with {keys:?}");
    }
}

#[test]
fn names_are_kept_as_long_as_the_file_says() {
    if !tidegate_testkit::servers::installed("dnsmasq") {
        eprintln!("skipped: dnsmasq is not installed");
        return;
    }
    let upstream = tidegate_testkit::Upstream::start();
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, nodes: {{\"moving.test:{}\": 1}}}}}}\n",
        upstream.address.port()
    );
    let names = tidegate_testkit::servers::dnsmasq(
        Some(address),
        &["--host-record=moving.test,127.0.0.1,600", "--local-ttl=600"],
    );
    let gateway = Gateway::start(
        &standalone(&[
            ("apisix.dns_resolver", json!([address.to_string()])),
            ("apisix.dns_resolver_valid", json!(1)),
        ]),
        Some(&routes),
    );
    assert_eq!(gateway.client().get("h", "/echo").expect("an answer").status(), 200);
    drop(names);
    let _names =
        tidegate_testkit::servers::dnsmasq(Some(address), &["--host-record=moving.test,127.0.0.2,600"]);
    let deadline = Instant::now() + PATIENCE;
    // The record itself is good for ten minutes.
    while gateway.client().get("h", "/echo").expect("an answer").status() == 200 {
        assert!(Instant::now() < deadline, "the name is not asked for again");
    }
}

#[test]
fn health_checks_can_be_switched_off() {
    let upstream = tidegate_testkit::Upstream::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}, checks: {{active: {{http_path: /probe, \
         healthy: {{interval: 1}}, unhealthy: {{interval: 1}}}}}}}}}}\n",
        upstream.address
    );
    for off in [true, false] {
        let keys = [("apisix.disable_upstream_healthcheck", json!(off))];
        let gateway = Gateway::start(&standalone(&keys), Some(&routes));
        if off {
            let page = answers(gateway.control, "/v1/healthcheck");
            assert!(page.contains("/routes/1") && !page.contains("\"ip\""), "{page}");
        } else {
            let deadline = Instant::now() + PATIENCE;
            while !upstream.seen().iter().any(|seen| seen.message.target() == "/probe") {
                assert!(Instant::now() < deadline, "no probe came");
                gateway.client().get("h", "/echo").expect("an answer");
            }
        }
    }
}
