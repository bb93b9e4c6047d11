//! The plugins of stream routes.

use std::{io::Write, net::UdpSocket};

use tidegate_testkit::{Client, PATIENCE, eventually};

use super::{connect, echoing, exchange, is_closed, named, read, start};

fn route(id: u32, port: &str, plugins: &str, node: std::net::SocketAddr) -> String {
    format!(
        "- {{id: {id}, server_port: {port}, plugins: {plugins}, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

#[test]
fn ip_restriction_and_limit_conn_close() {
    let (named, echo) = (named("in"), echoing());
    let limit = "{limit-conn: {conn: 1, burst: 0, default_conn_delay: 0.1, key: remote_addr}}";
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n{}{}",
            route(1, "@TCP@", "{ip-restriction: {blacklist: [127.0.0.0/8]}}", named),
            route(2, "@OTHER@", limit, echo)
        ),
    );
    assert!(is_closed(&mut connect(ports.tcp)));
    let mut one = connect(ports.other);
    one.write_all(b"a").expect("sent");
    assert_eq!(read(&mut one, 1), "a");
    assert!(is_closed(&mut connect(ports.other)), "one is open");
    drop(one);
    eventually("its place is free", || exchange(ports.other, "b") == "b");
}

#[test]
fn traffic_is_split_by_conditions_and_weights() {
    let (own, other, third) = (named("own"), named("other"), named("third"));
    let split = format!(
        "{{traffic-split: {{rules: [{{match: [{{vars: [[server_port, \"==\", \"@TCP@\"]]}}], weighted_upstreams: \
         [{{upstream: {{nodes: {{\"{other}\": 1}}}}, weight: 1}}]}}, {{match: [{{vars: [[remote_addr, \"==\", 127.0.0.1]]}}], \
         weighted_upstreams: [{{upstream_id: u, weight: 1}}, {{weight: 1}}]}}]}}}}"
    );
    let ports = start(
        "",
        "",
        &format!(
            "upstreams:\n- {{id: u, nodes: {{\"{third}\": 1}}}}\nstream_routes:\n{}{}",
            route(1, "@TCP@", &split, own),
            route(2, "@OTHER@", &split, own)
        ),
    );
    assert_eq!(exchange(ports.tcp, ""), "other");
    let mut seen: Vec<String> = (0..4).map(|_| exchange(ports.other, "")).collect();
    seen.sort();
    assert_eq!(seen, ["own", "own", "third", "third"]);
}

const MQTT4: &[u8] = b"\x10\x0f\x00\x04MQTT\x04\x02\x00\x3c\x00\x03foo";
const MQTT5: &[u8] = b"\x10\x10\x00\x04MQTT\x05\x02\x00\x3c\x00\x00\x03foo";

#[test]
fn mqtt_clients_are_balanced_by_their_ids() {
    let echo = echoing();
    let ports = start(
        "",
        "enable_access_log: true, access_log_format_escape: json, access_log_format: \"$mqtt_client_id\"",
        &format!(
            "stream_routes:\n{}{}",
            route(1, "@TCP@", "{mqtt-proxy: {protocol_level: 4}}", echo),
            route(2, "@OTHER@", "{mqtt-proxy: {protocol_level: 5}}", echo)
        ),
    );
    for (address, packet, others) in [(ports.tcp, MQTT4, MQTT5), (ports.other, MQTT5, MQTT4)] {
        let mut stream = connect(address);
        // In two pieces.
        stream.write_all(&packet[..5]).expect("sent");
        stream.write_all(&packet[5..]).expect("sent");
        let answer = read(&mut stream, packet.len());
        assert_eq!(answer.as_bytes(), packet, "the node gets the packet unchanged");
        let mut wrong = connect(address);
        wrong.write_all(others).expect("sent");
        assert!(is_closed(&mut wrong), "another version");
    }
    let mut other = connect(ports.tcp);
    other.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
    assert!(is_closed(&mut other));
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    eventually("the id", || {
        std::fs::read_to_string(&file)
            .is_ok_and(|text| text.lines().filter(|line| *line == "foo").count() == 2)
    });
}

#[test]
fn sessions_are_counted_and_logged() {
    let echo = echoing();
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sink.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let port = sink.local_addr().expect("its address").port();
    let plugins = format!(
        "{{prometheus: {{}}, syslog: {{host: 127.0.0.1, port: {port}, sock_type: udp, batch_max_size: 1, \
         log_format: {{client: $remote_addr, got: $bytes_received}}}}}}"
    );
    let ports = start("", "", &format!("stream_routes:\n{}", route(7, "@TCP@", &plugins, echo)));
    assert_eq!(exchange(ports.tcp, "abc"), "abc");
    let mut room = [0; 2048];
    let count = sink.recv(&mut room).expect("a message");
    let text = String::from_utf8_lossy(&room[..count]).into_owned();
    for part in ["<46>1 ", "\"client\":\"127.0.0.1\"", "\"got\":\"3\"", "\"route_id\":\"7\""] {
        assert!(text.contains(part), "{text}");
    }
    let (tcp, node) = (ports.tcp, echo);
    for line in [
        "apisix_stream_connection_total{route=\"7\"} 1".to_owned(),
        format!("apisix_stream_active_connections{{listen_addr=\"{tcp}\"}} 0"),
        format!("apisix_stream_status{{code=\"200\",listen_addr=\"{tcp}\",node=\"{node}\"}} 1"),
        format!("apisix_stream_bandwidth{{listen_addr=\"{tcp}\",type=\"ingress\",side=\"downstream\"}} 3"),
    ] {
        eventually(&line, || {
            let mut client = Client::connect(ports.gateway.metrics).expect("a connection");
            let page = client.get("127.0.0.1", "/apisix/prometheus/metrics").expect("a page").body_text();
            page.lines().any(|found| found == line)
        });
    }
}
