//! The start of a body is gathered before a node is chosen: what a slow client costs then, and what may be sent again.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, Http2Client, request, status};
use tidegate_testkit::{Behaviour, Client, Step, Upstream, free_port};

/// Long enough for a byte to get through the gateway.
const A_WHILE: Duration = Duration::from_millis(60);

fn gateway(nodes: &[SocketAddr], plugins: &str, http: &str) -> Gateway {
    let config =
        YAML_PROVIDER.replace("enable_access_log: false", &format!("enable_access_log: false{http}"));
    let nodes: Vec<String> = nodes.iter().map(|node| format!("\"{node}\": 1")).collect();
    // Another route's condition on the body is no reason to wait for it.
    let routes = format!(
        "routes:\n- {{id: 1, uri: \"/*\", plugins: {{{plugins}}}, upstream: {{type: roundrobin, \
         timeout: {{connect: 5, send: 5, read: 5}}, nodes: {{{0}}}}}}}\n\
         - {{id: 2, uri: \"/form/*\", vars: [[post_arg_a, ==, b]], upstream: {{nodes: {{{0}}}}}}}\n",
        nodes.join(", ")
    );
    Gateway::start(&config, Some(&routes))
}

fn head(method: &str, path: &str, framing: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{framing}\r\n\r\n")
}

/// What each request is made of, piece by piece, and the body that the upstream must see.
fn slow_requests() -> Vec<(&'static str, String, Vec<String>, String)> {
    let long = "x".repeat(4_000);
    let rest = "y".repeat(50_000);
    vec![
        ("short", "Content-Length: 5".to_owned(), vec!["h".into(), "el".into(), "lo".into()], "hello".into()),
        (
            "chunked",
            "Transfer-Encoding: chunked".to_owned(),
            vec!["3\r\nh".into(), "el\r".into(), "\n2\r\nlo\r\n0\r".into(), "\n\r\n".into()],
            "hello".into(),
        ),
        (
            "empty chunked",
            "Transfer-Encoding: chunked".into(),
            vec!["0\r".into(), "\n\r\n".into()],
            "".into(),
        ),
        ("long", "Content-Length: 54000".to_owned(), vec![long.clone(), rest.clone()], long + &rest),
    ]
}

#[test]
fn a_slow_body_holds_no_connection_to_an_upstream() {
    let upstream = Upstream::start();
    let gateway = gateway(&[upstream.address], "", "");
    for (name, framing, pieces, body) in slow_requests() {
        let before = upstream.connections();
        let mut client = gateway.client();
        client.send(head("POST", "/echo", &framing).as_bytes()).expect("sends");
        let (last, first) = pieces.split_last().expect("pieces");
        for piece in first {
            assert!(client.stays_silent(A_WHILE), "{name}: an answer to a part");
            client.send(piece.as_bytes()).expect("sends");
        }
        assert!(client.stays_silent(A_WHILE), "{name}: an answer to a part");
        let held = before.max(1);
        assert!(upstream.connections() <= held && upstream.seen().is_empty(), "{name}: a node was asked");
        client.send(last.as_bytes()).expect("sends");
        let answer = client.response().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(answer.status() == 200 && answer.body_text().ends_with(&body), "{name}: {answer:?}");
        // The connection goes on, and a gathered body says its length.
        assert_eq!(client.get("h", "/after").expect("goes on").status(), 200, "{name}");
        let seen = upstream.take();
        assert_eq!(seen[0].message.body_text(), body, "{name}");
        let text = seen[0].text();
        assert!(text.contains(&format!("Content-Length: {}\r\n", body.len())), "{name}: {text}");
        assert!(!text.contains("Transfer-Encoding"), "{name}: {text}");
    }
    // All of them went over the one connection that the first had opened.
    assert_eq!(upstream.connections(), 1);
}

#[test]
fn an_http2_stream_is_gathered_too() {
    let upstream = Upstream::start();
    let gateway = gateway(&[upstream.address], "", "");
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    client.send(HEADERS, END_HEADERS, 1, &request("POST", "/status/201", &[])).expect("sends");
    client.send(DATA, 0, 1, b"hel").expect("sends");
    // A second request is answered meanwhile, over the one connection there is.
    client.get(3, "/status/200").expect("sends");
    assert_eq!(status(&client.wait_for(HEADERS).expect("answers")), Some(200));
    assert_eq!((upstream.connections(), upstream.take().len()), (1, 1));
    client.send(DATA, END_STREAM, 1, b"lo").expect("sends");
    assert_eq!(status(&client.wait_for(HEADERS).expect("answers")), Some(201));
    let seen = upstream.take();
    assert!(seen[0].text().contains("Content-Length: 5\r\n"), "{}", seen[0].text());
    assert_eq!(seen[0].message.body_text(), "hello");
}

#[test]
fn long_bodies_go_on_once_they_have_begun() {
    let upstream = Upstream::start();
    let gateway = gateway(&[upstream.address], "", "");
    let length = "Content-Length: 100000".to_owned();
    let chunked = "Transfer-Encoding: chunked".to_owned();
    for (framing, begin) in
        [(length, "x".repeat(5_000)), (chunked, format!("8000\r\n{}", "x".repeat(17_000)))]
    {
        let mut client = gateway.client();
        // The upstream answers to the head and reads nothing.
        client.send((head("POST", "/early-close", &framing) + &begin).as_bytes()).expect("sends");
        assert_eq!(client.response().expect("answers").status(), 413, "{framing}");
    }
}

#[test]
fn the_client_is_told_to_continue_before_a_node_is_asked() {
    let upstream = Upstream::start();
    let gateway = gateway(&[upstream.address], "", "");
    let mut client = gateway.client();
    let head = head("POST", "/echo", "Expect: 100-continue\r\nContent-Length: 5");
    assert_eq!(client.request(&head).expect("goes on").status(), 100);
    assert_eq!(upstream.connections(), 0);
    client.send(b"hello").expect("sends");
    assert!(client.response().expect("answers").body_text().ends_with("\r\n\r\nhello"));
}

#[test]
fn proxy_control_has_bodies_sent_on_at_once() {
    let upstream = Upstream::start();
    for (conf, streams) in [("false", true), ("true", false)] {
        let plugin = format!("proxy-control: {{request_buffering: {conf}}}");
        let gateway = gateway(&[upstream.address], &plugin, "");
        for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let mut client = gateway.client();
            client.send(head("POST", "/early-close", framing).as_bytes()).expect("sends");
            if streams {
                assert_eq!(client.response().expect("answers").status(), 413, "{framing}");
            } else {
                assert!(client.stays_silent(A_WHILE), "{framing}: answered");
            }
        }
    }
}

#[test]
fn limits_of_bodies_hold_while_they_are_gathered() {
    let upstream = Upstream::start();
    let limits = ", client_body_timeout: 300ms, client_max_body_size: 1000";
    let gateway = gateway(&[upstream.address], "", limits);
    let large = format!("400\r\n{}\r\n", "x".repeat(1024));
    for (framing, body, expected) in [
        ("Content-Length: 10", "abc", 408),
        ("Transfer-Encoding: chunked", "5\r\nabc", 408),
        ("Transfer-Encoding: chunked", large.as_str(), 413),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\nxyz\r\n", 400),
        ("Content-Length: 1001", "", 413),
    ] {
        let mut client = gateway.client();
        client.send((head("POST", "/echo", framing) + body).as_bytes()).expect("sends");
        let answer = client.response().unwrap_or_else(|error| panic!("{framing} {body:.20}: {error}"));
        assert_eq!(answer.status(), expected, "{framing} {body:.20}");
    }
    assert_eq!(upstream.connections(), 0);
}

/// Whoever reads the body: it is not the schema that refuses one that does not come.
#[test]
fn request_validation_does_not_judge_half_bodies() {
    let upstream = Upstream::start();
    let plugin = "request-validation: {body_schema: {type: object}}";
    let gateway = gateway(&[upstream.address], plugin, ", client_body_timeout: 300ms");
    let some = " ".repeat(40_000);
    let chunk = format!("ffff\r\n{some}");
    for (framing, body, expected) in [
        ("Content-Length: 1000000", some.as_str(), 408),
        ("Transfer-Encoding: chunked", chunk.as_str(), 408),
        ("Transfer-Encoding: chunked", "5\r\nhello\r\nxyz\r\n", 400),
        ("Content-Length: 1", "5", 400),
    ] {
        let mut client = gateway.client();
        client.send((head("POST", "/echo", framing) + body).as_bytes()).expect("sends");
        let answer = client.response().unwrap_or_else(|error| panic!("{framing} {body:.9}: {error}"));
        assert_eq!(answer.status(), expected, "{framing} {body:.9}");
    }
    assert_eq!(upstream.connections(), 0);
}

/// Takes whole requests and closes instead of answering.
fn failing() -> Upstream {
    Upstream::with(|_| Behaviour { read_body: true, steps: vec![Step::Close] })
}

/// Sends a request in two parts, as many times as there are nodes and one more; the statuses.
fn statuses(gateway: &Gateway, method: &str, framing: &str, parts: [&str; 2]) -> Vec<u16> {
    let send = |mut client: Client| {
        client.send((head(method, "/echo", framing) + parts[0]).as_bytes()).expect("sends");
        assert!(client.stays_silent(A_WHILE), "{framing}: answered too early");
        client.send(parts[1].as_bytes()).expect("sends");
        client.response().unwrap_or_else(|error| panic!("{method} {framing}: {error}")).status()
    };
    let mut statuses: Vec<u16> = (0..4).map(|_| send(gateway.client())).collect();
    statuses.sort_unstable();
    statuses
}

#[test]
fn a_gathered_body_is_sent_to_another_node() {
    let (good, bad) = (Upstream::start(), failing());
    let gateway = gateway(&[bad.address, good.address], "", "");
    let chunks = ["3\r\nh", "el\r\n2\r\nlo\r\n0\r\n\r\n"];
    for (framing, parts) in [("Content-Length: 5", ["h", "ello"]), ("Transfer-Encoding: chunked", chunks)] {
        assert_eq!(statuses(&gateway, "PUT", framing, parts), [200; 4], "{framing}");
        assert!(!bad.take().is_empty(), "{framing}: nobody failed");
        let seen = good.take();
        assert_eq!(seen.len(), 4, "{framing}");
        assert!(seen.iter().all(|seen| seen.message.body_text() == "hello"), "{framing}: {seen:?}");
    }
    // What is not repeatable is not repeated.
    assert_eq!(statuses(&gateway, "POST", "Content-Length: 5", ["h", "ello"]), [200, 200, 502, 502]);
}

#[test]
fn a_body_that_went_to_a_node_is_not_sent_to_another() {
    let (good, bad) = (Upstream::start(), failing());
    let (begin, rest) = ("x".repeat(3_000), "x".repeat(97_000));
    let long = ["Content-Length: 100000", &begin, &rest];
    let gateway_of = |node| gateway(&[node, good.address], "", "");
    let gateway = gateway_of(bad.address);
    assert_eq!(statuses(&gateway, "PUT", long[0], [long[1], long[2]]), [200, 200, 502, 502]);
    assert!(good.take().iter().all(|seen| seen.message.body.len() == 100_000));
    // Where nobody listens nothing went, and the start is still there.
    let gateway = gateway_of(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    assert_eq!(statuses(&gateway, "POST", long[0], [long[1], long[2]]), [200; 4]);
    assert!(good.take().iter().all(|seen| seen.message.body.len() == 100_000));
}
