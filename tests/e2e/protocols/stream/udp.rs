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

#[test]
fn the_oldest_session_without_an_answer_makes_room_at_once() {
    let node = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = node.local_addr().expect("its address");
    let ports = start(
        "client_limits: {udp_sessions: 8, udp_sessions_per_address: 8}",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @UDP@, upstream: {{nodes: {{\"{address}\": 1}}}}}}\n"
        ),
    );
    node.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut room = [0; 64];
    let mut arrives = |text: &str| {
        let socket = client(ports.udp);
        socket.send(text.as_bytes()).expect("sent");
        let (count, _) = node.recv_from(&mut room).expect("a datagram");
        assert_eq!(&room[..count], text.as_bytes());
        socket
    };
    let silent: Vec<UdpSocket> = (0..8).map(|at| arrives(&format!("{at}"))).collect();
    // Nodes have a second to answer.
    let last = client(ports.udp);
    eventually("one makes room", || {
        last.send(b"retry").expect("sent");
        node.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
        node.recv_from(&mut [0; 64]).is_ok()
    });
    node.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let others: Vec<UdpSocket> = (0..6).map(|at| arrives(&format!("first of {at}"))).collect();
    drop((silent, last, others));
}

#[test]
fn datagrams_in_a_row_keep_their_order_and_are_counted() {
    let node = server("a");
    let ports = start(
        "",
        "enable_access_log: true, access_log_format: \"$bytes_received $upstream_bytes_sent $upstream_bytes_received $bytes_sent\"",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @UDP@, upstream: {{timeout: {{connect: 1, send: 1, read: 1}}, nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    let socket = client(ports.udp);
    for at in 0..20 {
        socket.send(format!("{at:02}").as_bytes()).expect("sent");
    }
    let mut room = [0; 2048];
    let mut back = 0;
    for at in 0..20 {
        let count = socket.recv(&mut room).expect("an answer");
        back += count;
        let text = String::from_utf8_lossy(&room[..count]).into_owned();
        assert_eq!(text.rsplit(' ').next(), Some(&*format!("{at:02}")));
    }
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    let expected = format!("40 40 {back} {back}\n");
    eventually("the line", || std::fs::read_to_string(&file).is_ok_and(|text| text == expected));
}
