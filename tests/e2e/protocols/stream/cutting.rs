//! What is cut does not look whole: bytes that are lost end in a reset.

use std::{
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::Duration,
};

use socket2::SockRef;
use tidegate_testkit::{PATIENCE, eventually};

use super::{Ports, connect, local, start};

/// More than the buffers of all sockets on the way take.
const MUCH: usize = 48 << 20;

/// A node that reads nothing until it may; then all, which it sends to the test with how it ended.
fn reluctant() -> (SocketAddr, Sender<()>, Receiver<(usize, Option<ErrorKind>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let (allow, allowed) = channel::<()>();
    let (told, read) = channel();
    thread::spawn(move || {
        // The first is that of the test that asks whether the port is open.
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = allowed.recv();
            let _ = told.send(rest(&mut stream));
        }
    });
    (address, allow, read)
}

/// How many bytes there are to the end, and the error that it ends in.
fn rest(stream: &mut TcpStream) -> (usize, Option<ErrorKind>) {
    let (mut all, mut room) = (0, vec![0; 1 << 20]);
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    loop {
        match stream.read(&mut room) {
            Ok(0) => return (all, None),
            Ok(count) => all += count,
            Err(error) => return (all, Some(error.kind())),
        }
    }
}

fn route(node: SocketAddr, timeout: u32) -> String {
    format!(
        "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{timeout: {{connect: 9, send: {timeout}, read: {timeout}}}, \
         nodes: {{\"{node}\": 1}}}}}}\n"
    )
}

/// Sends until nothing has gone for 600 ms; returns how many bytes.
fn fill(stream: &mut TcpStream, most: usize) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(300))).expect("a limit");
    let (piece, mut sent, mut stalls) = (vec![7; 1 << 16], 0, 0);
    while sent < most && stalls < 2 {
        match stream.write(&piece[..piece.len().min(most - sent)]) {
            Ok(count) => (sent, stalls) = (sent + count, 0),
            Err(_) => stalls += 1,
        }
    }
    sent
}

/// Sends until it fails: what has gone is more than the node can have got.
fn fill_until_cut(stream: &mut TcpStream) -> usize {
    let mut sent = 0;
    loop {
        match stream.write(&[7; 1 << 16]) {
            Ok(count) => sent += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => {
                assert!(
                    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
                    "{error}"
                );
                return sent;
            }
        }
    }
}

fn drain(ports: &Ports, words: &[&str]) {
    let (done, said) = ports.gateway.verb_with(&[&["connections", "--all"], words].concat());
    assert!(done, "{said}");
}

#[test]
fn a_drained_session_keeps_what_its_reader_has_not_taken() {
    let (node, allow, read) = reluctant();
    let ports = start("", "", &route(node, 60));
    let mut stream = connect(ports.tcp);
    let sent = fill(&mut stream, MUCH);
    assert!(sent < MUCH, "{sent}");
    drain(&ports, &["--drain"]);
    // Longer than the silence after which a drained session ends.
    assert!(rest_within(&mut stream, Duration::from_millis(2500)), "it is open");
    stream.shutdown(std::net::Shutdown::Write).expect("ended");
    allow.send(()).expect("it waits");
    assert_eq!(read.recv_timeout(PATIENCE).expect("an end"), (sent, None));
    eventually("no session", || !ports.gateway.verb("connections").1.contains("TCP"));
}

/// Whether nothing comes within this time, not even an end.
fn rest_within(stream: &mut TcpStream, time: Duration) -> bool {
    stream.set_read_timeout(Some(time)).expect("a limit");
    let read = stream.read(&mut [0; 1]);
    matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

#[test]
fn a_limit_and_the_operator_cut_with_a_reset() {
    for words in [None, Some(&["--close"][..])] {
        let (node, allow, read) = reluctant();
        let ports = start("", "", &route(node, if words.is_some() { 60 } else { 2 }));
        let mut stream = connect(ports.tcp);
        let mut sent = fill(&mut stream, MUCH);
        if let Some(words) = words {
            drain(&ports, words);
        }
        sent += fill_until_cut(&mut stream);
        allow.send(()).expect("it waits");
        let (count, ended) = read.recv_timeout(PATIENCE).expect("an end");
        assert!(
            count < sent && ended == Some(ErrorKind::ConnectionReset),
            "{words:?}: {count} of {sent}, {ended:?}"
        );
    }
}

#[test]
fn a_reset_of_the_node_reaches_a_client_that_it_took_nothing_of() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let node = listener.local_addr().expect("its address");
    let (allow, allowed) = channel::<()>();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = allowed.recv();
            let _ = stream.write_all(&[1; 1000]);
            // The gateway has passed it on before the reset.
            let _ = allowed.recv();
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        }
    });
    let ports = start("", "", &route(local(node.port()), 60));
    let mut stream = connect(ports.tcp);
    fill(&mut stream, MUCH);
    allow.send(()).expect("it waits");
    let mut answer = vec![0; 1000];
    stream.read_exact(&mut answer).expect("half an answer");
    allow.send(()).expect("it waits");
    assert_eq!(rest(&mut stream), (0, Some(ErrorKind::ConnectionReset)));
}

/// The kernel counts a node that has no room as one that acknowledges nothing.
#[test]
#[ignore = "half a minute of silence; `make test-all` runs it"]
fn a_node_may_pause_for_the_time_of_its_upstream() {
    let (node, allow, read) = reluctant();
    let ports = start("", "", &route(node, 300));
    let mut stream = connect(ports.tcp);
    let sent = fill(&mut stream, MUCH);
    assert!(rest_within(&mut stream, Duration::from_secs(40)), "it is open");
    stream.shutdown(std::net::Shutdown::Write).expect("ended");
    allow.send(()).expect("it waits");
    assert_eq!(read.recv_timeout(PATIENCE).expect("an end"), (sent, None));
}
