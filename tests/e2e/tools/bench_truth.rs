//! What `tidegate bench` says has to be so: of causes, of the server's CPU time, of the client's own connects.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};

use tidegate_testkit::{Behaviour, Step, Upstream};

use super::bench::{bench, outcome, url};

/// The servers of the self-test that a debug build on a busy machine can ask: each cause is named, and no other.
#[test]
fn the_selftest_names_what_is_there() {
    for only in [
        "0.5 %",
        "head and body",
        "closes after 100",
        "one pause of 600",
        "three pauses",
        "full accept queue",
        "20 MB/s",
    ] {
        let tries: Vec<_> = (0..3)
            .map(|_| bench(&["selftest", "--only", only, "--seconds", "1.5"]))
            .take_while(|run| run.code != Some(0))
            .collect();
        // Beside hundreds of other tests the load generator may be what waits, and says so.
        let told = tries.iter().all(|run| run.out.contains("client-bound"));
        assert!(tries.len() < 3 || told, "{only}: {} {}", tries[2].out, tries[2].err);
    }
}

#[test]
fn a_selftest_of_nothing_is_refused() {
    let run = bench(&["selftest", "--only", "no such server"]);
    assert_eq!(run.code, Some(2), "{}", run.err);
    assert!(run.err.contains("no server has this text in its name"), "{}", run.err);
}

/// Works for 3 ms for each request, in a thread of its own that then ends.
fn serve_in_threads() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || work(stream));
        }
    });
    address
}

fn work(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 4096]);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(3) {
        std::hint::spin_loop();
    }
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn threads_that_have_ended_count() {
    let url = format!("http://{}/", serve_in_threads());
    let words = [&url, "--no-keepalive", "-R", "60", "-c", "4", "-t", "1", "-d", "2s"];
    let tries: Vec<f64> = (0..3)
        .map(|_| {
            let found = outcome(&words);
            let each = found["server"]["cpu_seconds"].as_f64().expect("a server")
                / found["requests"].as_f64().expect("requests");
            // This test's process is the server, and other tests run in it: only too little is a fault.
            each * 1e3
        })
        .take_while(|each_ms| *each_ms < 2.5)
        .collect();
    assert!(tries.len() < 3, "ms of CPU for one request: {tries:?}");
}

/// The client's own connects are not the server's latency: the clock starts when connections are open and used once.
#[test]
fn the_clock_starts_when_connections_are_warm() {
    let upstream = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())],
    });
    let found = outcome(&[&url(&upstream, "/{{seq}}"), "-R", "100", "-c", "8", "-t", "2", "-d", "1s"]);
    assert_eq!(found["warm_up"], true);
    let requests = found["requests"].as_u64().expect("a number");
    assert!((98..=101).contains(&requests), "{requests}");
    assert_eq!(found["connect"]["count"], 8);
    // One look before the run, and one request more on each connection than was counted; the numbers start again.
    let targets: Vec<String> = upstream.seen().iter().map(|seen| seen.message.target().to_owned()).collect();
    assert!(targets.len() as u64 >= requests + 8, "{} {requests}", targets.len());
    assert!(targets.iter().filter(|target| *target == "/0").count() >= 2, "{targets:?}");
    let cold = outcome(&[&url(&upstream, "/"), "-R", "100", "-c", "8", "-d", "1s", "--no-warmup"]);
    assert_eq!(cold["warm_up"], false);
}

#[test]
fn connections_of_http2_are_warmed_up_too() {
    let address = format!("127.0.0.1:{}", tidegate_testkit::free_port());
    let _server = tidegate_testkit::servers::nginx(&format!(
        "listen {address} http2; location / {{ return 200 hello; }}"
    ));
    let words = [&format!("http://{address}/"), "--http2", "-R", "100", "-c", "4", "-t", "2", "-d", "1s"];
    let found = outcome(&words);
    assert_eq!((&found["warm_up"], &found["connect"]["count"]), (&true.into(), &4.into()), "{found}");
    let requests = found["requests"].as_u64().expect("a number");
    assert!((98..=101).contains(&requests), "{requests}");
    assert_eq!(found["failures"], serde_json::json!([]));
}

#[test]
fn connections_that_never_open_are_the_first_line() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    socket.listen(1).expect("listens");
    let address = socket.local_addr().expect("an address").as_socket().expect("of IPv4");
    let run = bench(&[
        &format!("http://{address}/"),
        "-c",
        "16",
        "-t",
        "1",
        "-d",
        "1s",
        "-R",
        "50",
        "--timeout",
        "800ms",
    ]);
    let first = run.out.lines().next().unwrap_or_default();
    assert!(
        first.contains(" of 16 connections never opened; queues of listeners"),
        "{} {}",
        run.out,
        run.err
    );
}

#[test]
fn closes_are_told_at_any_number() {
    let upstream = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".to_vec())],
    });
    let run = bench(&[&url(&upstream, "/"), "-n", "300", "-c", "2"]);
    assert!(!run.out.contains("  closes "), "{}", run.out);
    let nginx = tidegate_testkit::servers::nginx("keepalive_requests 30; location / { return 200 hello; }");
    let run = bench(&[&format!("http://{}/", nginx.address), "-n", "900", "-c", "3", "-t", "1"]);
    assert!(run.out.contains("by the server, after 30 answers each, with notice"), "{}", run.out);
    assert!(run.out.contains("[connection-closes]"), "{}", run.out);
}
