//! Sessions of UDP.

use std::{
    net::{SocketAddr, UdpSocket},
    thread,
    time::Duration,
};

use tidegate_testkit::{PATIENCE, eventually};

use super::{start, start_embedded};

/// Answers each datagram with its name, its sender's port and the text.
fn server(name: &'static str) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address");
    thread::spawn(move || {
        let mut room = [0; 2048];
        while let Ok((count, from)) = socket.recv_from(&mut room) {
            let text = String::from_utf8_lossy(&room[..count]).into_owned();
            let _ = socket.send_to(format!("{name} {} {text}", from.port()).as_bytes(), from);
        }
    });
    address
}

fn client(gateway: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(gateway).expect("an address");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    socket
}

fn ask(socket: &UdpSocket, text: &str) -> Option<String> {
    socket.send(text.as_bytes()).ok()?;
    let mut room = [0; 2048];
    let count = socket.recv(&mut room).ok()?;
    Some(String::from_utf8_lossy(&room[..count]).into_owned())
}

#[test]
fn datagrams_of_a_client_stay_with_one_node() {
    let (a, b) = (server("a"), server("b"));
    let ports = start(
        "",
        "enable_access_log: true, access_log_format: \"$protocol $status $bytes_received $bytes_sent\"",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @UDP@, upstream: {{scheme: udp, timeout: {{connect: 1, send: 1, read: 1}}, \
             nodes: {{\"{a}\": 1, \"{b}\": 1}}}}}}\n"
        ),
    );
    let first = client(ports.udp);
    let answer = ask(&first, "x").expect("an answer");
    for _ in 0..5 {
        assert_eq!(ask(&first, "x").as_deref(), Some(&*answer), "the same node, from the same port");
    }
    let second = client(ports.udp);
    let other = ask(&second, "x").expect("an answer");
    assert_ne!(other.split(' ').next(), answer.split(' ').next(), "nodes take turns");
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    let sent = 6 * answer.len();
    let expected = format!("UDP 200 6 {sent}");
    eventually("the end of the session", || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.lines().any(|line| line == expected))
    });
}

#[test]
fn invented_addresses_take_no_place_from_sessions_that_work() {
    let node = server("a");
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let ports = start(
        "client_limits: {udp_sessions: 4, udp_sessions_per_address: 4}",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @UDP@, plugins: {{traffic-split: {{rules: [{{match: [{{vars: [[remote_port, \">\", 0]]}}], \
             weighted_upstreams: [{{weight: 1}}]}}]}}}}, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    drop(silent);
    let works = client(ports.udp);
    assert!(ask(&works, "x").is_some());
    let others: Vec<UdpSocket> = (0..3).map(|_| client(ports.udp)).collect();
    for other in &others {
        assert!(ask(other, "x").is_some());
    }
    let fifth = client(ports.udp);
    fifth.set_read_timeout(Some(Duration::from_millis(300))).expect("a limit");
    assert!(ask(&fifth, "x").is_none(), "four are open, and all of them work");
    assert!(ask(&works, "x").is_some());
}

#[test]
fn an_upgrade_takes_the_sockets_over() {
    let node = server("a");
    let ports = start_embedded("");
    let route = format!(r#"{{"server_port":{},"upstream":{{"nodes":{{"{node}":1}}}}}}"#, ports.udp.port());
    assert_eq!(ports.gateway.admin("PUT", "/apisix/admin/stream_routes/1", &route).0, 201);
    let socket = client(ports.udp);
    assert!(ask(&socket, "before").is_some());
    let (done, said) = ports.gateway.verb("upgrade");
    assert!(done, "{said}");
    assert!(ask(&socket, "after").is_some());
    assert!(ask(&client(ports.udp), "new").is_some());
}
