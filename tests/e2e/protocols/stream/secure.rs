//! TLS that ends at the gateway, that passes through it by its name, and toward nodes; the PROXY protocol on both sides.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::Arc,
};

use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tidegate_testkit::{
    eventually, free_port,
    gateway::{Gateway, YAML_PROVIDER},
};

use super::{connect, exchange, is_closed, named, read, serve, start};
use crate::protocols::{
    certs::{quoted, self_signed},
    secure::{Offer, Secure},
};

/// Whether the first thing that a server says to a client of this name ends so.
fn greets(address: SocketAddr, name: &str, end: &str) -> bool {
    let stream = Secure::connect(address, name, &Offer::default().config(None));
    stream.is_ok_and(|mut stream| stream.until(end.as_bytes()).is_ok())
}

/// A server with TLS that greets with its name.
fn secure(name: &'static str) -> SocketAddr {
    let pair = self_signed(name);
    let chain = CertificateDer::pem_slice_iter(pair.cert.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.expect("the provider has the versions").with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(chain, key).expect("a pair"));
    serve(move |stream| {
        let session = rustls::ServerConnection::new(config.clone()).expect("a session");
        let mut stream = rustls::StreamOwned::new(session, stream);
        let _ = stream.write_all(name.as_bytes());
        let _ = stream.read(&mut [0; 16]);
    })
}

#[test]
fn tls_ends_here_and_names_choose() {
    let (a, b) = (named("route-a"), named("route-b"));
    let pair = self_signed("*.test");
    let ports = start(
        "",
        "enable_access_log: true, access_log_format: \"$ssl_server_name $ssl_protocol\"",
        &format!(
            "ssls:\n- {{id: 1, snis: [\"*.test\"], cert: {}, key: {}}}\n\
             stream_routes:\n- {{id: 1, sni: a.test, upstream: {{nodes: {{\"{a}\": 1}}}}}}\n\
             - {{id: 2, server_port: @TLS@, upstream: {{nodes: {{\"{b}\": 1}}}}}}\n",
            quoted(&pair.cert),
            quoted(&pair.key)
        ),
    );
    assert!(greets(ports.tls, "a.test", "route-a"));
    assert!(greets(ports.tls, "b.test", "route-b"));
    assert!(!greets(ports.tls, "elsewhere.example", "route-b"), "no certificate");
    assert!(is_closed(&mut connect(ports.tcp)), "the route by name is not for ports without TLS");
}

#[test]
fn tls_passes_through_by_its_name() {
    let (a, b) = (secure("a.test"), secure("b.test"));
    let plain = named("plain");
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, sni: a.test, upstream: {{nodes: {{\"{a}\": 1}}}}}}\n\
             - {{id: 2, server_port: @TCP@, sni: \"*.test\", upstream: {{nodes: {{\"{b}\": 1}}}}}}\n\
             - {{id: 3, server_port: @TCP@, upstream: {{nodes: {{\"{plain}\": 1}}}}}}\n"
        ),
    );
    assert!(greets(ports.tcp, "a.test", "a.test"));
    assert!(greets(ports.tcp, "x.test", "b.test"));
    assert_eq!(exchange(ports.tcp, "no TLS"), "plainno TLS");
}

#[test]
fn nodes_get_tls() {
    let node = secure("node.test");
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{scheme: tls, nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    let mut stream = connect(ports.tcp);
    assert_eq!(read(&mut stream, 9), "node.test");
}

#[test]
fn proxy_headers_come_in_and_go_out() {
    let port = free_port();
    // Sends back the line that it got first.
    let node = serve(|mut stream| {
        let mut room = [0; 256];
        let count = stream.read(&mut room).unwrap_or(0);
        let _ = stream.write_all(&room[..count]);
    });
    let of_port = format!(
        "tcp: [{{addr: \"127.0.0.1:{port}\", proxy_protocol: true, proxy_protocol_to_upstream: true}}]"
    );
    let of_all = format!("tcp: [\"127.0.0.1:{port}\"]");
    let all = "proxy_protocol: {enable_tcp_pp: true, enable_tcp_pp_to_upstream: true}";
    let resources = format!("stream_routes:\n- {{id: 1, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n");
    for (tcp, more, trusted, seen) in
        [(&of_port, "", "", "127.0.0.1"), (&of_all, all, "real_ip_from: [127.0.0.1], ", "192.0.2.1")]
    {
        let gateway = start_announced(tcp, more, trusted, &resources);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut stream = connect(address);
        stream.write_all(b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n").expect("sent");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with(&format!("PROXY TCP4 {seen} ")), "{answer:?}");
        let mut without = connect(address);
        let _ = without.write_all(b"GET / HTTP/1.1\r\n\r\n");
        assert!(is_closed(&mut without), "a client without a header");
        drop(gateway);
    }
}

fn start_announced(tcp: &str, more: &str, trusted: &str, resources: &str) -> Gateway {
    let listening = format!("apisix:\n  proxy_mode: http&stream\n  stream_proxy: {{{tcp}}}\n  {more}\n");
    let config = YAML_PROVIDER.replacen("apisix:\n", &listening, 1).replacen(
        "nginx_config:\n",
        &format!("nginx_config:\n  stream: {{{trusted}enable_access_log: false}}\n"),
        1,
    );
    Gateway::start(&config, Some(resources))
}

/// Bytes that some server may read as a handshake with a name, and the gateway does not.
#[test]
fn unreadable_handshakes_do_not_pass_by_the_guard_of_a_name() {
    let node = named("in");
    let ports = start(
        "",
        "enable_access_log: true, access_log_format: \"$status $bytes_received\"",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, sni: a.test, plugins: {{ip-restriction: {{blacklist: [0.0.0.0/0]}}}}, \
             upstream: {{nodes: {{\"{node}\": 1}}}}}}\n- {{id: 2, server_port: @TCP@, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    let mut long = vec![0; 16 << 10];
    long[..9].copy_from_slice(b"\x16\x03\x01\x7f\xff\x01\x00\x7f\xfb");
    for hello in [&b"\x16\x03\x01\x00\x00"[..], b"\x15\x03\x01\x00\x02\x01\x00", &long] {
        let mut stream = connect(ports.tcp);
        stream.write_all(hello).expect("sent");
        assert!(is_closed(&mut stream), "{:?}", &hello[..5]);
    }
    let mut other = connect(ports.tcp);
    other.write_all(b"SSH-2.0").expect("sent");
    assert_eq!(read(&mut other, 2), "in", "what is no TLS has no name");
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    eventually("the lines", || {
        std::fs::read_to_string(&file)
            .is_ok_and(|text| text.lines().take(3).eq(["400 5", "400 7", "400 16384"]))
    });
}

#[test]
fn a_route_whose_name_cannot_be_read_closes_all_names_of_its_port() {
    let (node, plain) = (secure("any.test"), named("plain"));
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n\
             - {{id: 2, server_port: @TCP@, sni: any.test, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n\
             - {{id: z, server_port: @TCP@, sni: [any.test, 5], upstream: {{nodes: {{\"{plain}\": 1}}}}}}\n\
             - {{id: y, server_port: \"@OTHER@\", sni: other.test, upstream: {{nodes: {{\"{plain}\": 1}}}}}}\n"
        ),
    );
    assert!(!greets(ports.tcp, "any.test", "any.test"));
    assert!(greets(ports.other, "any.test", "any.test"), "another port, another name");
    assert!(!greets(ports.other, "other.test", "any.test"));
}
