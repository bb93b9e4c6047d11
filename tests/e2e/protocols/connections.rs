//! Conversations: pipelining, slow senders, Expect, upgrades, clients that leave.

use std::time::Duration;

use tidegate_testkit::{Client, Upstream};

use crate::protocols::case::gateway_for;

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn check_echo(client: &mut Client, target: &str) {
    let answer = client.response().unwrap_or_else(|error| panic!("{target}: {error}"));
    assert!(answer.body_text().starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{target}: {answer:?}");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    client.send((get("/delay/50") + &get("/one") + &get("/two")).as_bytes()).expect("sends");
    assert_eq!(client.response().expect("first").body_text(), "late");
    check_echo(&mut client, "/one");
    check_echo(&mut client, "/two");
    let post = "POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    client.send((post.to_owned() + &get("/three")).as_bytes()).expect("sends");
    assert!(client.response().expect("post").body_text().ends_with("\r\n\r\nhello"));
    check_echo(&mut client, "/three");
}

#[test]
fn a_bad_request_behind_a_good_one_does_not_spoil_it() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    client.send((get("/good") + "BAD\r\n\r\n" + &get("/never")).as_bytes()).expect("sends");
    check_echo(&mut client, "/good");
    assert_eq!(client.response().expect("refused").status(), 400);
    assert_eq!(client.to_close().expect("closes"), b"");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn bytes_may_come_one_at_a_time() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    let text = "POST /slow HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    for byte in text.as_bytes() {
        client.send(&[*byte]).expect("sends");
    }
    assert!(
        client.response().expect("answers").body_text().ends_with("hello") || !upstream.seen().is_empty()
    );
    assert_eq!(upstream.seen()[0].message.body_text(), "hello");
    client.send(get("/after").as_bytes()).expect("sends");
    check_echo(&mut client, "/after");
}

#[test]
fn incomplete_requests_are_not_forwarded() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    for partial in [
        "GET",
        "GET / HTTP/1.1\r\nHost: h\r\n",
        "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n12345",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    ] {
        let mut client = gateway.client();
        client.send(partial.as_bytes()).expect("sends");
        client.finish().expect("half-closes");
        let rest = client.to_close().unwrap_or_else(|error| panic!("{partial:?}: {error}"));
        let text = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty() || text.starts_with("HTTP/1.1 4"), "{partial:?}: {text}");
    }
    assert!(upstream.seen().is_empty(), "{:?}", upstream.seen());
}

#[test]
fn expect_continue() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let head = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    };
    let mut client = gateway.client();
    assert_eq!(client.request(&head("/echo")).expect("interim answer").status(), 100);
    client.send(b"hello").expect("sends");
    assert!(client.response().expect("final answer").body_text().ends_with("\r\n\r\nhello"));
    // A client that does not wait: at most one interim answer, then the final one.
    client.send((head("/echo") + "hello").as_bytes()).expect("sends");
    let mut answer = client.response().expect("answers");
    if answer.status() == 100 {
        answer = client.response().expect("final answer");
    }
    assert_eq!(answer.status(), 200);
    client.send(get("/after").as_bytes()).expect("sends");
    check_echo(&mut client, "/after");
    assert_eq!(upstream.seen().len(), 3);
}

#[test]
fn websocket_tunnel_only_after_101() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let upgrade = |path: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
    };
    let mut client = gateway.client();
    let switched = client.request(&upgrade("/upgrade")).expect("switches");
    assert_eq!((switched.status(), switched.header("upgrade")), (101, Some("websocket")));
    let raw = b"\x81\x00raw \r\n\r\n bytes";
    client.send(raw).expect("sends");
    assert_eq!(client.exactly(raw.len()).expect("tunnels"), raw);
    drop(client);
    // CVE-2026-2833: bytes sent before the upstream agreed must be read as HTTP when it does not.
    let mut client = gateway.client();
    let refused = client.request(&(upgrade("/upgrade-refused") + &get("/pipelined"))).expect("answers");
    assert_eq!(refused.status(), 403);
    check_echo(&mut client, "/pipelined");
}

#[test]
fn upgrade_with_a_body_is_not_a_tunnel() {
    // CVE-2026-58055 class: the body must not be taken for the tunnel's first bytes.
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    let hidden = get("/stolen");
    let request = format!(
        "POST /upgrade-refused HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: {}\r\n\r\n{hidden}",
        hidden.len()
    );
    let answer = client.request(&request).expect("answers");
    assert!(matches!(answer.status(), 400 | 403), "{answer:?}");
    assert!(upstream.seen().iter().all(|seen| seen.message.target() != "/stolen"));
}

#[test]
fn idle_connections_stay_silent_and_usable() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    check(&mut client, "/one");
    assert!(client.stays_silent(Duration::from_millis(50)));
    check(&mut client, "/two");

    fn check(client: &mut Client, target: &str) {
        client.send(get(target).as_bytes()).expect("sends");
        check_echo(client, target);
    }
}

#[test]
fn upstream_connections_are_reused_and_a_closed_one_costs_nothing() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    let mut client = gateway.client();
    for number in 0..10 {
        client.send(get(&format!("/{number}")).as_bytes()).expect("sends");
        check_echo(&mut client, &format!("/{number}"));
    }
    assert_eq!(upstream.connections(), 1, "one idle upstream connection serves sequential requests");
}

#[test]
fn a_client_that_leaves_does_not_disturb_others() {
    let upstream = Upstream::start();
    let gateway = gateway_for(&upstream);
    for _ in 0..20 {
        let mut client = gateway.client();
        client.send(get("/delay/20").as_bytes()).expect("sends");
        drop(client);
    }
    let mut client = gateway.client();
    client.send(get("/still-here").as_bytes()).expect("sends");
    check_echo(&mut client, "/still-here");
}
