//! What guards a session holds for all ways that lead to its node, and what cannot be used closes instead of opening.

use std::{
    io::Write,
    net::{SocketAddr, UdpSocket},
    time::Duration,
};

use rustls::{ClientConnection, pki_types::ServerName};
use tidegate_testkit::{
    Client, PATIENCE, free_port,
    gateway::{ADMIN_KEY, Gateway, YAML_PROVIDER},
};

use super::{connect, is_closed, named, read, start, start_embedded};
use crate::protocols::{
    certs::{quoted, self_signed},
    secure::{Offer, Secure},
};

/// The first message of a client of this name.
fn hello(name: &str) -> Vec<u8> {
    let name = ServerName::try_from(name.to_owned()).expect("a server name");
    let mut client = ClientConnection::new(Offer::default().config(None), name).expect("a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("written");
    hello
}

/// Whether a session that begins so reaches the node, which greets with `in`.
fn is_let_in(address: SocketAddr, begin: &[u8]) -> bool {
    let mut stream = connect(address);
    stream.write_all(begin).expect("sent");
    let closed = is_closed(&mut stream);
    !closed
}

#[test]
fn routes_that_cannot_be_read_come_before_all_that_they_could_precede() {
    let node = named("in");
    // The place of a guard, and who is let in beside it: a client of that name, of another one, without a name, at another port.
    for (place, expected) in [
        ("server_port: @TCP@, sni: a.test, upstream_id: missing", [false, true, true, true]),
        ("server_port: @TCP@, sni: [a.test]", [false, true, true, true]),
        ("server_port: \"@TCP@\", sni: a.test", [false, true, true, true]),
        ("server_port: @TCP@, sni: \"a.test \"", [false, false, true, true]),
        ("server_port: @TCP@, sni: bücher.test", [false, false, true, true]),
        ("server_port: @TCP@, snis: [a.test]", [false, false, false, true]),
        ("server_port: @TCP@, sni: b.test, remote_addrs: [9.9.9.9]", [false, false, false, true]),
        ("server_prot: @TCP@", [false, false, false, false]),
        ("server_port: tcp, sni: a.test", [false, true, true, true]),
    ] {
        let ports = start(
            "",
            "",
            &format!(
                "stream_routes:\n- {{id: z, {place}, plugins: {{ip-restriction: {{whitelist: [9.9.9.9]}}}}}}\n\
                 - {{id: 2, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
            ),
        );
        let found = [
            is_let_in(ports.tcp, &hello("a.test")),
            is_let_in(ports.tcp, &hello("c.test")),
            is_let_in(ports.tcp, b"no TLS"),
            is_let_in(ports.other, b"no TLS"),
        ];
        assert_eq!(found, expected, "{place}");
    }
}

#[test]
fn a_service_that_cannot_be_used_closes_the_sessions_of_its_routes() {
    let node = named("in");
    for (service, expected) in [
        ("", true),
        (", plugin: {ip-restriction: {blacklist: [127.0.0.1]}}", false),
        (", plugins:", false),
        (", plugins: {ip-restriction: {blacklist: 127.0.0.1}}", false),
        (", plugins: {ip-restrictoin: {blacklist: [127.0.0.1]}}", false),
        (", plugins: {ip-restriction: {blacklist: [9.9.9.9]}}", true),
    ] {
        let ports = start(
            "",
            "",
            &format!(
                "upstreams:\n- {{id: u, nodes: {{\"{node}\": 1}}}}\nservices:\n- {{id: s, upstream_id: u{service}}}\n\
                 stream_routes:\n- {{id: 1, server_port: @TCP@, service_id: s}}\n\
                 - {{id: 2, server_port: @TCP@, remote_addr: 127.0.0.1, service_id: gone, upstream_id: u, sni: a.test}}\n"
            ),
        );
        assert_eq!(is_let_in(ports.tcp, b"no TLS"), expected, "{service}");
        assert!(!is_let_in(ports.tcp, &hello("a.test")), "a service that is not there");
    }
}

#[test]
fn a_client_without_a_name_has_the_route_of_its_certificate() {
    let (guarded, open) = (named("guarded"), named("open"));
    let pair = self_signed("a.test");
    let ports = start_named("fallback_sni: A.test", &{
        let ssl = format!(
            "ssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
            quoted(&pair.cert),
            quoted(&pair.key)
        );
        format!(
            "{ssl}stream_routes:\n- {{id: 1, sni: a.test, upstream: {{nodes: {{\"{guarded}\": 1}}}}}}\n\
             - {{id: 2, upstream: {{nodes: {{\"{open}\": 1}}}}}}\n"
        )
    });
    for send_name in [true, false] {
        let offer = Offer { send_name, ..Offer::default() };
        let mut stream = Secure::connect(ports.1, "a.test", &offer.config(None)).expect("a handshake");
        assert_eq!(stream.until(b"guarded").expect("its greeting"), b"guarded", "{send_name}");
    }
}

/// With one port where TLS ends, and further lines of `apisix.ssl`.
fn start_named(ssl: &str, resources: &str) -> (Gateway, SocketAddr) {
    let port = free_port();
    let tcp = format!("tcp: [{{addr: \"127.0.0.1:{port}\", tls: true}}]");
    let gateway = start_listening(&tcp, &format!("enable: false, {ssl}"), resources);
    (gateway, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn start_listening(ports: &str, ssl: &str, resources: &str) -> Gateway {
    let listening = format!("apisix:\n  proxy_mode: http&stream\n  stream_proxy: {{{ports}}}\n");
    let config = YAML_PROVIDER.replacen("apisix:\n", &listening, 1);
    Gateway::start(&config.replacen("ssl: {enable: false}", &format!("ssl: {{{ssl}}}"), 1), Some(resources))
}

/// Answers each datagram with its text.
fn answering() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    std::thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            let _ = socket.send_to(&room[..count], from);
        }
    });
    address
}

#[test]
fn the_address_of_a_route_holds_for_datagrams_to_all_addresses() {
    let (node, port) = (answering(), free_port());
    let gateway = start_listening(
        &format!("udp: [{port}]"),
        "enable: false",
        &format!(
            "stream_routes:\n- {{id: 1, server_addr: 127.0.0.1, plugins: {{ip-restriction: {{blacklist: [0.0.0.0/0]}}}}, \
             upstream: {{nodes: {{\"{node}\": 1}}}}}}\n- {{id: 2, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    let client = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let ask = |host: [u8; 4], patience: Duration| {
        client.set_read_timeout(Some(patience)).expect("a limit");
        let to = SocketAddr::from((host, port));
        client.send_to(b"x", to).expect("sent");
        // Answers leave from the address that was asked.
        client.recv_from(&mut [0; 16]).is_ok_and(|(_, from)| from == to)
    };
    assert!(ask([127, 0, 0, 2], PATIENCE));
    assert!(!ask([127, 0, 0, 1], Duration::from_millis(300)), "also beside an open session of the client");
    assert!(ask([127, 0, 0, 2], PATIENCE));
    drop(gateway);
}

#[test]
fn a_node_that_is_the_gateway_itself_makes_no_chain_of_sessions() {
    let port = free_port();
    let gateway = start_listening(
        &format!("udp: [{port}]"),
        "enable: false",
        &format!("stream_routes:\n- {{id: 1, upstream: {{nodes: {{\"127.0.0.1:{port}\": 1}}}}}}\n"),
    );
    let client = UdpSocket::bind("0.0.0.0:0").expect("a port");
    for host in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        client.send_to(b"x", SocketAddr::from((host, port))).expect("sent");
    }
    gateway.wait_for_log("the node is the gateway itself, at this port");
    let (done, said) = gateway.verb_with(&["connections"]);
    assert!(done && said.lines().count() <= 2, "{said}");
}

#[test]
fn datagrams_do_not_go_in_the_clear_where_tls_is_asked_for() {
    let node = answering();
    let ports = start(
        "",
        "",
        &format!("stream_routes:\n- {{id: 1, upstream: {{scheme: tls, nodes: {{\"{node}\": 1}}}}}}\n"),
    );
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    client.send_to(b"x", ports.udp).expect("sent");
    ports.gateway.wait_for_log("has scheme tls, which is for TCP");
    assert!(client.recv(&mut [0; 16]).is_err());
}

#[test]
fn an_upstream_that_stream_routes_use_is_not_deleted() {
    let node = named("in");
    let ports = start_embedded("");
    let (gateway, port) = (&ports.gateway, ports.tcp.port());
    let put = |path: &str, body: &str| {
        let (status, text) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
        assert!(status < 300, "{text}");
    };
    let nodes = format!(r#""nodes":{{"{node}":1}}"#);
    put("upstreams/u", &format!("{{{nodes}}}"));
    let split = r#"{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"u","weight":1}]}]}}"#;
    for (user, said) in [
        (
            format!(r#"{{"server_port":{port},"upstream_id":"u"}}"#),
            "can not delete this upstream, stream_route [7] is still using it now",
        ),
        (
            format!(r#"{{"server_port":{port},"upstream":{{{nodes}}},"plugins":{split}}}"#),
            "can not delete this upstream, plugin in stream_route [7] is still using it now",
        ),
    ] {
        put("stream_routes/7", &user);
        let (status, text) = gateway.admin("DELETE", "/apisix/admin/upstreams/u", "");
        assert!(status == 400 && text.contains(said), "{status} {text}");
        assert_eq!(read(&mut connect(ports.tcp), 2), "in");
    }
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/stream_routes/7", "").0, 200);
    assert_eq!(gateway.admin("DELETE", "/apisix/admin/upstreams/u", "").0, 200);
}

#[test]
fn what_has_no_effect_on_sessions_is_named() {
    let limit = "limit-conn: {conn: 1, burst: 0, default_conn_delay: 1, key: http_x, policy: redis, rejected_code: 429}";
    let restrict = "ip-restriction: {blacklist: [9.9.9.9], message: go away}";
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, sni: 127.0.0.1, plugins: {{{limit}, {restrict}}}, upstream: {{type: chash, hash_on: header, \
             key: x, scheme: https, nodes: {{\"127.0.0.1:1\": 1}}}}}}\n"
        ),
    );
    for wanted in [
        "sni 127.0.0.1 matches no session",
        "upstream.hash_on header has no effect on sessions",
        "upstream.scheme https has no effect on sessions",
        "plugin limit-conn: its key has no value in sessions: the client's address counts",
        "unknown field plugins.limit-conn.policy has no effect",
        "unknown field plugins.limit-conn.rejected_code has no effect",
        "plugin ip-restriction: message has no effect",
    ] {
        ports.gateway.wait_for_log(wanted);
    }
}

#[test]
fn plugins_of_a_service_that_are_for_requests_are_named() {
    let node = named("in");
    let ports = super::start_embedded("");
    let put = |path: &str, object: &str| {
        let mut client = Client::connect(ports.gateway.admin).expect("connects");
        let request = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: admin\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{object}",
            object.len()
        );
        let answer = client.request(&request).expect("an answer");
        assert_eq!(answer.status(), 201, "{}", answer.body_text());
        answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
    };
    let service = format!(r#"{{"upstream":{{"nodes":{{"{node}":1}}}},"plugins":{{"key-auth":{{}}}}}}"#);
    assert_eq!(put("services/s", &service), "");
    let route = format!(r#"{{"server_port":{},"service_id":"s"}}"#, ports.tcp.port());
    let told = put("stream_routes/1", &route);
    assert!(told.contains("do not run on its sessions: key-auth"), "{told}");
}
