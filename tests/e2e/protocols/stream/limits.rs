//! What peers cannot take without end: places, time and memory.

use std::{
    io::{Read, Write},
    time::Duration,
};

use tidegate_testkit::eventually;

use super::{connect, echoing, exchange, is_closed, read, start};

#[test]
fn sessions_of_a_route_and_of_an_address_are_bounded() {
    let echo = echoing();
    let ports = start(
        "client_limits: {sessions_per_stream_route: 2, connections_per_address: 4}",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n\
             - {{id: 2, server_port: @OTHER@, upstream: {{nodes: {{\"{echo}\": 1}}}}}}\n"
        ),
    );
    let mut open: Vec<_> = (0..2).map(|_| connect(ports.tcp)).collect();
    for stream in &mut open {
        stream.write_all(b"a").expect("sent");
        assert_eq!(read(stream, 1), "a");
    }
    assert!(is_closed(&mut connect(ports.tcp)), "two of the route");
    let others: Vec<_> = (0..2)
        .map(|_| {
            let mut stream = connect(ports.other);
            stream.write_all(b"a").expect("sent");
            assert_eq!(read(&mut stream, 1), "a");
            stream
        })
        .collect();
    assert!(is_closed(&mut connect(ports.other)), "four of the address");
    drop((open, others));
    eventually("a place is free", || exchange(ports.tcp, "b") == "b");
}

#[test]
fn a_client_that_says_nothing_waits_for_no_name() {
    // A port without routes by name does not wait for the client.
    let named = super::named("hello");
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{nodes: {{\"{named}\": 1}}}}}}\n\
             - {{id: 2, sni: other.test, upstream: {{nodes: {{\"127.0.0.1:1\": 1}}}}}}\n"
        ),
    );
    let mut stream = connect(ports.tcp);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    assert_eq!(read(&mut stream, 5), "hello");
}

/// What the client has sent before is read: else the kernel resets its connection, and what it reads depends on the moment.
#[test]
fn a_refused_session_ends_without_a_reset() {
    let node = echoing();
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, plugins: {{ip-restriction: {{blacklist: [127.0.0.1]}}}}, \
             upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
        ),
    );
    for address in [ports.tcp, ports.other] {
        for round in 0..300 {
            let mut stream = connect(address);
            stream.write_all(&[b'x'; 4096]).expect("sent");
            let end = stream.read(&mut [0; 16]);
            assert!(matches!(end, Ok(0)), "{address}, round {round}: {end:?}");
        }
    }
}
