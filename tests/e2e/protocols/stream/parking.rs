//! A session that has been silent for a while costs the runtime nothing, and nothing of it is lost.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Instant,
};

use tidegate_testkit::eventually;

use super::{Ports, connect, echo, echoing, is_closed, read, serve, start};

fn route(node: SocketAddr, timeout: u32) -> String {
    format!(
        "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{timeout: {{connect: 9, send: {timeout}, read: {timeout}}}, \
         nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

/// How many descriptors each epoll instance of the gateway watches, by the instance's descriptor.
fn watched(ports: &Ports) -> BTreeMap<String, Vec<u64>> {
    let pid = ports.gateway.pid().expect("it runs");
    let files = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("its files").flatten();
    let instances = files.filter_map(|file| {
        let text = std::fs::read_to_string(file.path()).ok()?;
        let of = |line: &str| line.strip_prefix("tfd:")?.split_whitespace().next()?.parse().ok();
        let watched: Vec<u64> = text.lines().filter_map(of).collect();
        (!watched.is_empty()).then(|| (file.file_name().to_string_lossy().into_owned(), watched))
    });
    instances.collect()
}

/// So many sessions are parked: their sockets are watched by an instance that is watched by another one.
fn parked(ports: &Ports, sessions: usize) -> bool {
    let all = watched(ports);
    let is_watched = |instance: &str| all.values().flatten().any(|fd| fd.to_string() == *instance);
    let nested = all.iter().filter(|(instance, _)| is_watched(instance));
    nested.map(|(_, sockets)| sockets.len()).sum::<usize>() == 2 * sessions
}

fn wait(ports: &Ports, sessions: usize) {
    eventually(format!("{sessions} sessions parked"), || parked(ports, sessions));
}

#[test]
fn what_comes_for_a_parked_session_goes_on() {
    let ports = start("", "", &route(echoing(), 60));
    let mut stream = connect(ports.tcp);
    let large = "0123456789abcdef".repeat(40_000);
    for text in ["a", "bc", &large] {
        let mut sending = stream.try_clone().expect("the same");
        let sent = text.to_owned();
        let writer = std::thread::spawn(move || sending.write_all(sent.as_bytes()).expect("sent"));
        assert!(read(&mut stream, text.len()) == text);
        writer.join().expect("sent");
        wait(&ports, 1);
    }
    stream.shutdown(Shutdown::Write).expect("ended");
    assert!(is_closed(&mut stream), "the node has seen the end and ended, too");
    wait(&ports, 0);
}

#[test]
fn the_end_of_the_node_and_a_reset_reach_a_parked_session() {
    let node = serve(|mut stream| {
        let mut room = [0; 64];
        let count = stream.read(&mut room).unwrap_or(0);
        let _ = stream.write_all(&room[..count]);
        // Until the client says so.
        let _ = stream.set_read_timeout(None);
        let control = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = control.local_addr().expect("its address").port();
        let _ = stream.write_all(&port.to_be_bytes());
        drop(control.accept());
        let _ = stream.write_all(b"last");
    });
    let ports = start("", "", &route(node, 60));
    let mut stream = connect(ports.tcp);
    stream.write_all(b"x").expect("sent");
    let mut port = [0; 3];
    stream.read_exact(&mut port).expect("its port");
    wait(&ports, 1);
    drop(TcpStream::connect(("127.0.0.1", u16::from_be_bytes([port[1], port[2]]))));
    assert_eq!(read(&mut stream, 4), "last");
    assert!(is_closed(&mut stream));
    drop(stream);

    let mut stream = connect(ports.tcp);
    stream.write_all(b"x").expect("sent");
    stream.read_exact(&mut port).expect("its port");
    wait(&ports, 1);
    socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO)).expect("set");
    drop(stream);
    wait(&ports, 0);
    eventually("no session", || !ports.gateway.verb("connections").1.contains("TCP"));
}

#[test]
fn a_parked_session_ends_in_its_time() {
    let ports = start("", "", &route(serve(echo), 2));
    let mut stream = connect(ports.tcp);
    stream.write_all(b"a").expect("sent");
    assert_eq!(read(&mut stream, 1), "a");
    let silent = Instant::now();
    wait(&ports, 1);
    assert!(is_closed(&mut stream));
    let took = silent.elapsed().as_millis();
    assert!((1900..20_000).contains(&took), "{took} ms");
}

#[test]
fn the_operator_ends_parked_sessions() {
    let ports = start("", "", &route(echoing(), 60));
    let mut streams: Vec<TcpStream> = (0..3).map(|_| connect(ports.tcp)).collect();
    for stream in &mut streams {
        stream.write_all(b"a").expect("sent");
        assert_eq!(read(stream, 1), "a");
    }
    wait(&ports, 3);
    let verb = |words: &[&str]| {
        let (done, said) = ports.gateway.verb_with(&[&["connections"], words].concat());
        assert!(done, "{said}");
        said
    };
    let own = streams[0].local_addr().expect("its address").to_string();
    let listed = verb(&[]);
    assert_eq!(listed.matches("TCP").count(), 3, "{listed}");
    let id = listed.lines().find(|line| line.contains(&own)).and_then(|line| line.split_whitespace().next());
    verb(&[id.expect("its number"), "--close"]);
    assert!(is_closed(&mut streams[0]));
    verb(&["--all", "--drain"]);
    assert!(is_closed(&mut streams[1]) && is_closed(&mut streams[2]));
}

#[test]
fn a_gateway_that_stops_logs_parked_sessions() {
    let logged = "enable_access_log: true, access_log_format: \"$protocol $status $bytes_received\"";
    let mut ports = start("", logged, &route(echoing(), 60));
    let mut stream = connect(ports.tcp);
    stream.write_all(b"abc").expect("sent");
    assert_eq!(read(&mut stream, 3), "abc");
    wait(&ports, 1);
    assert!(ports.gateway.process.stop().success());
    let text = std::fs::read_to_string(ports.gateway.prefix().join("logs/access_stream.log")).expect("a log");
    assert_eq!(text, "TCP 200 3\n");
}
