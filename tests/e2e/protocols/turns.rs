//! Clients that send requests ahead of the answers (pipelining): others are served in between, and who takes no answers is read no further.

use tidegate_testkit::http2::{END_HEADERS, END_STREAM, HEADERS, frame, request};
use tidegate_testkit::{Client, Gateway, Http2Client, PATIENCE, eventually_within, gateway::YAML_PROVIDER};

const COUNT: usize = 1_000_000;
const CONNECTIONS: usize = 40;
const REQUESTS: usize = 400;

/// One worker, whose answers say how many requests it has served.
fn gateway(text: &str) -> Gateway {
    let routes = format!(
        "routes:\n- id: 1\n  uri: /*\n  plugins:\n    mocking: {{_meta: {{priority: 0}}, response_example: \"{text}\", content_type: text/plain}}\n    \
         limit-count: {{count: {COUNT}, time_window: 36000, key_type: constant, key: all}}\n"
    );
    Gateway::start(YAML_PROVIDER, Some(&routes))
}

fn requests(count: usize) -> String {
    "GET /many HTTP/1.1\r\nHost: h\r\n\r\n".repeat(count)
}

/// As a new client has it said.
fn served(gateway: &Gateway) -> usize {
    let answer = gateway.client().get("h", "/one").expect("an answer");
    let left = answer.header("X-RateLimit-Remaining").and_then(|left| left.parse::<usize>().ok());
    COUNT - left.unwrap_or_else(|| panic!("{answer:?}"))
}

#[test]
fn new_clients_do_not_wait_for_all_that_others_have_sent() {
    let gateway = gateway("hi");
    let bytes = requests(REQUESTS);
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = gateway.client();
            client.send(bytes.as_bytes()).expect("sends");
            client
        })
        .collect();
    let before = served(&gateway);
    let all = CONNECTIONS * REQUESTS;
    println!("{before} of {all} requests were served before a later one");
    assert!(before < all / 16, "{before} of {all} requests were served first");
    // In order, and none is lost.
    let mut last = COUNT;
    for _ in 0..REQUESTS {
        let answer = clients[0].response().expect("an answer");
        let left = answer.header("X-RateLimit-Remaining").and_then(|left| left.parse().ok());
        assert!(left < Some(last), "{answer:?}");
        last = left.unwrap_or_default();
    }
    let client = clients.last_mut().expect("a client");
    for _ in 0..REQUESTS {
        assert_eq!(client.response().expect("an answer").status(), 200);
    }
}

/// Answers are not made for a client that does not take them: the sockets hold some, and the gateway one.
#[test]
fn who_takes_no_answers_gets_no_more() {
    const ASKED: usize = 500;
    // With one in flight in each 100 KB, 50 MB in all: more than a socket takes.
    let gateway = gateway(&"x".repeat(100_000));
    let mut client = gateway.client();
    client.send(requests(ASKED).as_bytes()).expect("sends");
    let (mut last, mut probes, mut same) = (0, 0, 0);
    eventually_within(PATIENCE, "it stops", || {
        probes += 1;
        let now = served(&gateway) - probes;
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 20
    });
    println!("{last} of {ASKED}");
    assert!((1..ASKED / 2).contains(&last), "{last} of {ASKED} answers were made");
    for _ in 0..ASKED {
        assert_eq!(client.response().expect("an answer").body_text().len(), 100_000);
    }
}

/// The same with streams of HTTP/2, which need not wait for each other.
#[test]
fn new_clients_do_not_wait_for_all_streams_of_others() {
    const STREAMS: u32 = 100;
    let gateway = gateway("hi");
    let head = request("GET", "/many", &[]);
    let frames: Vec<u8> = (0..STREAMS)
        .flat_map(|number| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &head))
        .collect();
    let mut clients: Vec<Http2Client> =
        (0..CONNECTIONS).map(|_| Http2Client::connect(gateway.http, &[]).expect("connects")).collect();
    for client in &mut clients {
        client.send_raw(&frames).expect("sends");
    }
    let before = served(&gateway);
    let all = CONNECTIONS * STREAMS as usize;
    println!("{before} of {all} requests were served before a later one");
    assert!(before < all / 16, "{before} of {all} requests were served first");
    // None is lost.
    let client = clients.last_mut().expect("a client");
    for _ in 0..STREAMS {
        client.wait_for(HEADERS).expect("an answer");
    }
}
