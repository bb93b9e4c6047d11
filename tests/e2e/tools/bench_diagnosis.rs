//! Each finding of `tidegate bench`, against a server that misbehaves in exactly that way; and none against a good one.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};
use tidegate_testkit::message::Message;
use tidegate_testkit::{Behaviour, Step, Upstream};

use super::bench::{outcome, url};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn ok_after(time: Duration) -> Behaviour {
    let answer = Step::Send(OK.as_bytes().to_vec());
    let steps = if time.is_zero() { vec![answer] } else { vec![Step::Wait(time), answer] };
    Behaviour { read_body: true, steps }
}

/// The names of what a run against the server finds.
fn findings(upstream: &Upstream, words: &[&str]) -> Vec<String> {
    named(&outcome(&[&[url(upstream, "/{{connection}}").as_str(), "-t", "1"], words].concat()))
}

/// Asserts what a run finds. A busy machine can blur a shape, so there are five tries to see it.
fn check(wanted: &str, run: impl Fn() -> Vec<String>) {
    let mut tries = Vec::new();
    for _ in 0..5 {
        let found = run();
        if found == [wanted] {
            return;
        }
        tries.push(found);
    }
    panic!("wanted {wanted}, found {tries:?}");
}

/// Asserts that a run finds nothing; a machine that is busy with other tests is a finding in itself, so five tries.
fn check_healthy(run: impl Fn() -> Vec<String>) {
    let tries: Vec<_> = (0..5).map(|_| run()).take_while(|found| !found.is_empty()).collect();
    assert!(tries.len() < 5, "found {tries:?}");
}

fn named(outcome: &serde_json::Value) -> Vec<String> {
    let all = outcome["findings"].as_array().expect("findings");
    all.iter().map(|finding| finding["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_healthy_server_has_no_finding() {
    let upstream = Upstream::with(|_| ok_after(Duration::ZERO));
    check_healthy(|| findings(&upstream, &["-R", "300", "-c", "6", "-d", "2s"]));
    let nginx = tidegate_testkit::servers::nginx("location / { return 200 hello; }");
    let url = format!("http://{}/", nginx.address);
    check_healthy(|| named(&outcome(&[&url, "-R", "500", "-c", "8", "-t", "1", "-d", "2s"])));
}

#[test]
fn nagle_with_delayed_acknowledgement() {
    let upstream = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![
            Step::Nagle,
            Step::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".to_vec()),
            Step::Send(b"ok".to_vec()),
        ],
    });
    check("delayed-ack", || findings(&upstream, &["-c", "4", "-n", "200"]));
}

/// A shape alone proves nothing: slow servers have it, too.
#[test]
fn a_server_that_takes_its_time_has_no_fault_of_tcp() {
    let slow = |ms: u64| Upstream::with(move |_| ok_after(Duration::from_millis(ms)));
    let (forty, two_hundred) = (slow(41), slow(203));
    check("unexplained-plateau", || findings(&forty, &["-c", "8", "-d", "1500ms"]));
    check("unexplained-plateau", || findings(&forty, &["-R", "100", "-c", "16", "-d", "2s"]));
    check("unexplained-plateau", || findings(&two_hundred, &["-c", "16", "-d", "2s"]));
    let turn = AtomicUsize::new(0);
    let sometimes = Upstream::with(move |_| {
        let slow = turn.fetch_add(1, SeqCst) * 7919 % 101 < 2;
        ok_after(Duration::from_millis(if slow { 204 } else { 0 }))
    });
    check("unexplained-plateau", || findings(&sometimes, &["-c", "4", "-n", "600"]));
    // Without a control run nobody can tell.
    check("unexplained-plateau", || findings(&forty, &["-c", "8", "-d", "1500ms", "--no-probe"]));
}

/// Nobody accepts at first, so the queue is full and the SYNs that come then are dropped.
#[test]
fn connects_that_had_to_be_tried_again() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
    socket.listen(1).expect("listens");
    let listener = std::net::TcpListener::from(socket);
    let address = listener.local_addr().expect("an address");
    let held: Vec<TcpStream> = (0..1).map(|_| TcpStream::connect(address).expect("queued")).collect();
    std::thread::spawn(move || {
        let (mut late, begun) = (true, Instant::now());
        loop {
            if late {
                // Longer than all connects of the run take to be sent, shorter than the second SYN.
                std::thread::sleep(Duration::from_millis(700).saturating_sub(begun.elapsed()));
                late = false;
            }
            let Ok((stream, _)) = listener.accept() else { return };
            std::thread::spawn(move || answer_all(stream));
        }
    });
    let url = format!("http://{address}/");
    let found = outcome(&[&url, "-c", "8", "-t", "1", "-d", "2500ms", "-R", "100"]);
    drop(held);
    assert!(named(&found).contains(&"syn-lost".to_owned()), "{:?} {}", named(&found), found["connect"]);
}

fn answer_all(mut stream: TcpStream) {
    use std::io::{Read, Write};
    let mut buffer = [0; 4096];
    while let Ok(1..) = stream.read(&mut buffer) {
        if stream.write_all(OK.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn spikes_with_a_period() {
    let begun = Mutex::new(None::<Instant>);
    let upstream = Upstream::with(move |_| {
        let begun = *begun.lock().expect("no panic").get_or_insert_with(Instant::now);
        // Every 400 ms all stand still for 60 ms.
        let phase = Duration::from_millis(begun.elapsed().as_millis() as u64 % 400);
        ok_after(Duration::from_millis(60).saturating_sub(phase))
    });
    check("comb of 400 ms", || {
        let found = outcome(&[&url(&upstream, "/"), "-t", "1", "-R", "300", "-c", "8", "-d", "3s"]);
        let title = found["findings"][0]["title"].as_str().unwrap_or_default();
        let period = title.split("period of ").nth(1).and_then(|rest| rest.split("ms").next()?.parse().ok());
        match period {
            Some(380.0..420.0) if named(&found) == ["comb"] => vec!["comb of 400 ms".into()],
            _ => named(&found),
        }
    });
}

#[test]
fn workers_with_unequal_loads() {
    // Connections are numbered in the path: odd ones are on the worker that has too much to do.
    let upstream = Upstream::with(|request: &Message| {
        let odd = request.target().ends_with(['1', '3', '5', '7', '9']);
        ok_after(Duration::from_millis(if odd { 20 } else { 5 }))
    });
    check("uneven-connections", || findings(&upstream, &["-c", "8", "-d", "1500ms"]));
}

/// One request after the other, each as long.
fn one_at_a_time(each: Duration) -> Upstream {
    let turn = Mutex::new(());
    Upstream::with(move |_| {
        let held = turn.lock().expect("no panic");
        std::thread::sleep(each);
        drop(held);
        ok_after(Duration::ZERO)
    })
}

#[test]
fn more_than_the_server_can_do() {
    // 200 a second.
    let upstream = one_at_a_time(Duration::from_millis(5));
    check("saturation", || findings(&upstream, &["-R", "600", "-c", "16", "-d", "2s"]));
}

/// A server that takes any number at a time is not full because there are few connections.
#[test]
fn more_than_the_connections_can_carry() {
    let upstream = Upstream::with(|_| ok_after(Duration::from_millis(20)));
    check("few-connections", || findings(&upstream, &["-R", "1000", "-c", "4", "-d", "2s"]));
}

/// In a closed loop only fewer connections show it: they get as much.
#[test]
fn a_closed_loop_on_a_full_server() {
    let upstream = one_at_a_time(Duration::from_millis(2));
    let words = [&url(&upstream, "/"), "-t", "1", "-c", "16"];
    check("saturation", || {
        let found = outcome(&[&words[..], &["-d", "5s"]].concat());
        let mut names = named(&found);
        if names == ["saturation"] {
            let finding = &found["findings"][0];
            // The server is this process: what other tests compute at the same time is its CPU as well.
            if !finding["title"].as_str().is_some_and(|title| title.contains("it waits")) {
                return vec![finding.to_string()];
            }
            let steps: Vec<_> =
                found["probe"].as_array().expect("steps").iter().map(|step| &step["connections"]).collect();
            assert!(steps.len() == 2 && *steps[0] == 4, "{}", found["probe"]);
            // What fewer connections got is not in the run: 16 in the queue take 32 ms, 8 of them 16.
            assert!(found["latency"]["percentiles"][0][1].as_f64() > Some(30_000.0), "{}", found["latency"]);
            assert!(found["seconds"].as_f64() < Some(5.3), "{}", found["seconds"]);
        } else {
            names.push(format!(
                "{} of {}/s",
                found["probe"],
                found["requests"].as_f64().unwrap_or(0.0) / 5.0
            ));
        }
        names
    });
    let without = outcome(&[&words[..], &["-d", "1s", "--no-probe"]].concat());
    assert_eq!(without["probe"], serde_json::json!([]));
    assert!(!named(&without).contains(&"saturation".to_owned()), "{:?}", named(&without));
}

/// Each request takes its time, any number at once: half of the connections get half.
#[test]
fn a_closed_loop_on_a_server_with_room() {
    let upstream = Upstream::with(|_| ok_after(Duration::from_millis(2)));
    let words = [&url(&upstream, "/"), "-t", "1", "-c", "8", "-d", "2s"];
    check("nothing, with two steps", || {
        let found = outcome(&words);
        let (mut names, steps) = (named(&found), found["probe"].as_array().map_or(0, Vec::len));
        if names.is_empty() && steps == 2 {
            names.push("nothing, with two steps".into());
        }
        names
    });
}

#[test]
fn a_server_that_waits_for_another() {
    let upstream = Upstream::with(|_| ok_after(Duration::from_millis(80)));
    let nginx = tidegate_testkit::servers::nginx(&format!(
        "location / {{ proxy_pass http://{}; }}",
        upstream.address
    ));
    let url = format!("http://{}/", nginx.address);
    check("upstream-bound", || named(&outcome(&[&url, "-t", "1", "-c", "8", "-d", "1500ms"])));
}

/// A process that outlives its parent works for each request, and nobody gets its CPU time.
fn orphan_at_work() {
    let script = "(i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) &";
    let shell = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output();
    shell.expect("sh runs");
}

#[test]
fn work_that_cannot_be_seen_is_not_taken_for_waiting() {
    let upstream = Upstream::with(|_| {
        orphan_at_work();
        ok_after(Duration::ZERO)
    });
    let found = findings(&upstream, &["-R", "10", "-c", "4", "-d", "3s"]);
    assert!(!found.contains(&"upstream-bound".to_owned()), "{found:?}");
}

/// Nobody is answered from 0.5 to 0.8 s and from 1.9 to 2.3 s after the first request.
fn pausing_twice() -> Upstream {
    let begun = Mutex::new(None::<Instant>);
    Upstream::with(move |_| {
        let begun = *begun.lock().expect("no panic").get_or_insert_with(Instant::now);
        let at = begun.elapsed().as_millis() as u64;
        let pause = [(500, 800), (1900, 2300)].into_iter().find(|(from, to)| (*from..*to).contains(&at));
        ok_after(Duration::from_millis(pause.map_or(0, |(_, to)| to - at)))
    })
}

#[test]
fn pauses_are_named_with_their_times() {
    check("two pauses", || {
        let upstream = pausing_twice();
        let found = outcome(&[&url(&upstream, "/"), "-t", "1", "-R", "200", "-c", "8", "-d", "3s"]);
        let title = found["findings"][0]["title"].as_str().unwrap_or_default();
        if named(&found) == ["pause"]
            && title.starts_with("2 pauses: ")
            && title.matches("ms at ").count() == 2
        {
            return vec!["two pauses".into()];
        }
        vec![title.to_owned()]
    });
}

#[test]
fn keep_alive_off() {
    let upstream = Upstream::start();
    let found = outcome(&[&url(&upstream, "/connection-close"), "-c", "2", "-n", "200"]);
    assert!(named(&found).contains(&"keep-alive-off".to_owned()), "{:?}", named(&found));
}

#[test]
fn a_client_that_is_the_limit() {
    // 200 KB of random digits for each request: making them takes longer than reading them.
    let upstream = Upstream::with(|_| ok_after(Duration::ZERO));
    let body = "{{hex 4096}}".repeat(50);
    check("client-bound", || {
        let all = named(&outcome(&[&url(&upstream, "/"), "-c", "4", "-t", "1", "-d", "1s", "--body", &body]));
        all.into_iter().filter(|name| name == "client-bound").collect()
    });
}
