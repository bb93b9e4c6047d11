//! What comes in large pieces goes through pipes of the kernel: nothing of it may be lost, counted wrongly or kept.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use socket2::{Domain, SockRef, Socket, Type};
use tidegate_testkit::{PATIENCE, eventually};

use super::{Ports, connect, echo, is_closed, serve, start};

const LOGGED: &str = "enable_access_log: true, access_log_format: \"$status $bytes_received $bytes_sent $upstream_bytes_sent \
                      $upstream_bytes_received\"";

/// Bytes of which no two pieces are alike.
fn bytes(count: usize) -> Vec<u8> {
    (0..count / 8).flat_map(|at| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).collect()
}

/// A client that takes little at a time.
fn narrow(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    socket.connect(&address.into()).expect("a connection");
    socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    socket.into()
}

fn route(node: SocketAddr, timeout: u32) -> String {
    format!(
        "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{timeout: {{connect: 9, send: {timeout}, read: {timeout}}}, \
         nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

/// Pipes among the open files of the gateway; each has two ends.
fn pipes(ports: &Ports) -> usize {
    let pid = ports.gateway.pid().expect("it runs");
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").flatten();
    let targets = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("pipe:")).count() / 2
}

fn logged(ports: &Ports, expected: &str) {
    let file = ports.gateway.prefix().join("logs/access_stream.log");
    eventually(expected, || {
        std::fs::read_to_string(&file).is_ok_and(|text| text.lines().any(|line| line == expected))
    });
}

#[test]
fn large_pieces_arrive_whole_and_are_counted() {
    let sent = bytes(8 << 20);
    let ports = start("", LOGGED, &route(serve(echo), 60));
    for _ in 0..2 {
        let mut writing = connect(ports.tcp);
        let mut reading = writing.try_clone().expect("the same");
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            reading.read_to_end(&mut got).map(|_| got)
        });
        writing.write_all(&sent).expect("sent");
        writing.shutdown(std::net::Shutdown::Write).expect("ended");
        assert!(reader.join().expect("a reader").expect("all") == sent, "each byte in its place");
    }
    let count = sent.len();
    logged(&ports, &format!("200 {count} {count} {count} {count}"));
    assert!(pipes(&ports) > 0, "some are kept for the next session");
}

#[test]
fn a_pipe_is_held_only_while_bytes_wait_in_it() {
    let text = bytes(8 << 20);
    let node = {
        let text = text.clone();
        serve(move |mut stream| {
            let _ = stream.write_all(&text);
            let _ = stream.read(&mut [0; 1]);
        })
    };
    let ports = start("", "", &route(node, 60));
    let before = pipes(&ports);
    let mut clients: Vec<TcpStream> = (0..24).map(|_| narrow(ports.tcp)).collect();
    eventually("their bytes wait", || pipes(&ports) == before + 24);
    for client in &mut clients {
        SockRef::from(&*client).set_recv_buffer_size(1 << 20).expect("set");
        let mut got = vec![0; text.len()];
        client.read_exact(&mut got).expect("all");
        assert!(got == text, "each byte in its place");
    }
    drop(clients);
    // A worker keeps eight.
    eventually("pipes are closed", || pipes(&ports) <= 16);
}

#[test]
fn a_reset_is_passed_on_behind_the_bytes() {
    let text = bytes(1 << 20);
    let node = {
        let text = text.clone();
        serve(move |mut stream| {
            let _ = stream.write_all(&text);
            // Until the gateway has taken them.
            let _ = stream.read(&mut [0; 1]);
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        })
    };
    let ports = start("", LOGGED, &route(node, 60));
    let mut client = connect(ports.tcp);
    let mut got = vec![0; text.len()];
    client.read_exact(&mut got).expect("all");
    assert!(got == text, "each byte in its place");
    client.write_all(b"x").expect("sent");
    let error = client.read(&mut [0; 1]).expect_err("not an orderly end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let count = text.len();
    logged(&ports, &format!("200 1 {count} 1 {count}"));
    // The other way round.
    let (ended, end) = std::sync::mpsc::channel();
    let node = serve(move |mut stream| {
        let _ = stream.write_all(b"hello");
        let _ = ended.send(stream.read(&mut [0; 1]).map_err(|error| error.kind()));
    });
    let ports = start("", "", &route(node, 60));
    let mut client = connect(ports.tcp);
    client.read_exact(&mut [0; 5]).expect("a greeting");
    SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("set");
    drop(client);
    assert_eq!(end.recv_timeout(PATIENCE).expect("an end"), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_client_that_takes_nothing_is_left_after_its_time() {
    let text = bytes(8 << 20);
    let node = serve(move |mut stream| drop(stream.write_all(&text)));
    let ports = start("", "", &route(node, 1));
    let before = pipes(&ports);
    let mut client = narrow(ports.tcp);
    eventually("its bytes wait", || pipes(&ports) > before);
    eventually("its session has ended", || pipes(&ports) == before);
    let mut got = Vec::new();
    let read = client.read_to_end(&mut got);
    assert!(got.len() < 8 << 20, "{read:?}");
    assert!(is_closed(&mut client) || read.is_err());
    let mut got = Vec::new();
    connect(ports.tcp).read_to_end(&mut got).expect("all");
    assert!(got.len() == 8 << 20, "the next one is served");
}
