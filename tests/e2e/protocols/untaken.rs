//! HTTP/2 responses that clients do not read, whatever they are made of: how many requests may be in this state, in all
//! and for an address, and that nobody else pays for it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{
    DATA, END_HEADERS, END_STREAM, HEADERS, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame,
    request,
};
use tidegate_testkit::usage::status_bytes;
use tidegate_testkit::{Gateway, Http2Client, Upstream};

const INITIAL_WINDOW_SIZE: u16 = 4;
const MEGABYTE: u64 = 1 << 20;

/// A way to an answer for each place that makes some.
fn routes(upstream: &Upstream, root: &str) -> String {
    let lua = r#"{phase: access, functions: ["return function() return 200, 'lua' end"]}"#;
    let cache = "{cache_strategy: memory, cache_zone: memory_cache, cache_ttl: 60}";
    let http = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", upstream.address);
    [
        ("/file", format!("plugins: {{static-files: {{root: \"{root}\"}}}}")),
        ("/mocked", "plugins: {mocking: {response_example: mocked}}".to_owned()),
        ("/fault", "plugins: {fault-injection: {abort: {http_status: 200, body: fault}}}".to_owned()),
        ("/lua", format!("plugins: {{serverless-pre-function: {lua}}}")),
        ("/page", "plugins: {key-auth: {}}".to_owned()),
        ("/redirect", "plugins: {redirect: {uri: /mocked}}".to_owned()),
        ("/bytes/4", format!("plugins: {{proxy-cache: {cache}}}, {http}")),
        ("/bytes/5", http),
    ]
    .iter()
    .map(|(path, rest)| format!("- {{uri: {path}, {rest}}}\n"))
    .collect()
}

/// What `/nowhere` gets is a page that no route made.
const KINDS: [&str; 9] =
    ["/file", "/mocked", "/fault", "/lua", "/page", "/redirect", "/bytes/4", "/bytes/5", "/nowhere"];

/// Of 1 MiB a quarter is for such requests, half of it for one address: six of 20 KiB, and the four that every connection has.
/// Half of the six may go on without being taken.
const BEGIN: usize = 4 + 6;
const STAY: usize = 3;
const ASKED: u32 = 40;
/// Of 128 on one connection those that find no room in line, or have none once its client stalls: a quarter of 170 may stay.
const CROWDED: usize = 128 - BEGIN - 42;

fn small_gateway(total: &str, routes: &str) -> Gateway {
    let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n  body_memory: {{total: {total}}}\n"));
    Gateway::start(&config, Some(&format!("routes:\n{routes}")))
}

/// Asks for so many answers at once, from this stream on.
fn ask(client: &mut Http2Client, path: &str, from: u32, count: u32) {
    let head = request("GET", path, &[]);
    let all: Vec<u8> =
        (0..count).flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, from + 2 * n, &head)).collect();
    client.send_raw(&all).expect("sends");
}

/// What becomes of so many streams: answered, refused, cut.
fn outcomes(client: &mut Http2Client, count: usize) -> (usize, usize, usize) {
    let (mut answered, mut refused, mut cut) = (0, 0, 0);
    while answered + refused < count {
        let frame = client.read().expect("a frame");
        match (frame.kind, frame.code()) {
            (HEADERS, _) => answered += 1,
            (RST_STREAM, Some(REFUSED_STREAM)) => refused += 1,
            (RST_STREAM, _) => cut += 1,
            _ => {}
        }
    }
    (answered, refused, cut)
}

#[test]
fn whatever_makes_the_answer() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), "file").expect("a file");
    let routes = routes(&upstream, &folder.path().display().to_string());
    let gateway = small_gateway("1m", &routes);
    for path in KINDS {
        gateway.client().get("h", path).expect("an answer");
        let mut greedy = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
        ask(&mut greedy, path, 1, ASKED);
        assert_eq!(outcomes(&mut greedy, BEGIN), (BEGIN, 0, 0), "{path}");
        let mut other = Http2Client::connect(gateway.http, &[]).expect("connects");
        ask(&mut other, path, 1, 12);
        assert_eq!(outcomes(&mut other, 12), (12, 0, 0), "{path}: a connection that takes its answers");
        // The rest waits in line, also where there is room, as long as it leaves those.
        for _ in 0..BEGIN - STAY {
            let frame = greedy.read_other_than(&[SETTINGS, DATA]).expect("a frame");
            assert_eq!(frame.kind, RST_STREAM, "{path}: a stream that is cut");
            assert_ne!(frame.code(), Some(REFUSED_STREAM), "{path}");
        }
        // Who leaves nothing is served: the same address, and many at once.
        let mut other = Http2Client::connect(gateway.http, &[]).expect("connects");
        ask(&mut other, path, 1, 50);
        assert_eq!(outcomes(&mut other, 50), (50, 0, 0), "{path}");
    }
    gateway.wait_for_log("HTTP/2 responses that clients do not read");
    gateway.wait_for_log("HTTP/2 requests that are new, or whose responses are not read");
}

/// As long as its answers are left, the rest waits; no longer than the longest wait, and no more than there is room for.
#[test]
fn who_takes_nothing_is_refused_at_last() {
    let gateway = small_gateway("1m", "- {uri: /mocked, plugins: {mocking: {response_example: mocked}}}\n");
    let mut greedy = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask(&mut greedy, "/mocked", 1, 128);
    assert_eq!(outcomes(&mut greedy, BEGIN), (BEGIN, 0, 0));
    let started = Instant::now();
    assert_eq!(outcomes(&mut greedy, CROWDED).1, CROWDED);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let rest = 128 - BEGIN - CROWDED;
    let (answered, refused, _) = outcomes(&mut greedy, rest);
    // Those before them have met send_timeout (10 s) at about the same time: their places may be free by then.
    assert!(answered <= BEGIN && answered + refused == rest, "{answered} answered, {refused} refused");
    assert!(started.elapsed() >= Duration::from_secs(9), "{:?}", started.elapsed());
}

/// Addresses ask for more than there is, and leave room for another one.
#[test]
fn large_heads_leave_room_for_other_addresses() {
    for addresses in [2, 20] {
        let slow = "- {uri: /slow, plugins: {mocking: {response_example: slow, delay: 30}}}\n";
        let quick = "- {uri: /mocked, plugins: {mocking: {response_example: mocked}}}\n";
        let gateway = small_gateway("8m", &format!("{slow}{quick}"));
        let value = "a".repeat(4000);
        let head = request("GET", "/slow", &[("x-0", &value), ("x-1", &value), ("x-2", &value)]);
        let mut attackers: Vec<Http2Client> = (0..addresses.max(6))
            .map(|n| {
                let from = SocketAddr::from((Ipv4Addr::new(127, 1, 1, 1 + n % addresses), 0));
                let mut client = Http2Client::connect_from(from, gateway.http, &[]).expect("connects");
                let all: Vec<u8> = (0..120)
                    .flat_map(|n| frame(HEADERS, END_HEADERS | END_STREAM, 1 + 2 * n, &head))
                    .collect();
                client.send_raw(&all).expect("sends");
                client
            })
            .collect();
        // The share of each address in line is full.
        for attacker in attackers.iter_mut().rev().take(addresses as usize) {
            let refused = attacker.wait_for(RST_STREAM).expect("a frame");
            assert_eq!(refused.code(), Some(REFUSED_STREAM));
        }
        for round in 0..20 {
            let mut honest = Http2Client::connect(gateway.http, &[]).expect("connects");
            ask(&mut honest, "/mocked", 1, 24);
            assert_eq!(outcomes(&mut honest, 24), (24, 0, 0), "{addresses} addresses, round {round}");
        }
    }
}

/// A client without a processor for three seconds takes nothing meanwhile, and then all: nothing is refused.
#[test]
fn a_pause_costs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), vec![b'f'; 100_000]).expect("a file");
    let root = folder.path().display();
    let gateway =
        small_gateway("8m", &format!("- {{uri: /*, plugins: {{static-files: {{root: \"{root}\"}}}}}}\n"));
    // 400 requests where 104 may be open: most of them wait in line.
    let mut clients: Vec<Http2Client> = (0..8)
        .map(|n| {
            let from = SocketAddr::from((Ipv4Addr::new(127, 1, 0, 1 + n), 0));
            let mut client = Http2Client::connect_from(from, gateway.http, &[]).expect("connects");
            ask(&mut client, "/file", 1, 50);
            client
        })
        .collect();
    std::thread::sleep(Duration::from_secs(3));
    let (mut whole, mut refused, mut cut) = (0, 0, 0);
    for client in &mut clients {
        let mut ended = 0;
        while ended < 50 {
            let frame = client.read().expect("a frame");
            match (frame.kind, frame.code()) {
                (RST_STREAM, Some(REFUSED_STREAM)) => refused += 1,
                (RST_STREAM, _) => cut += 1,
                (DATA, _) if frame.flags & END_STREAM != 0 => whole += 1,
                (DATA, _) => {
                    let more = (frame.payload.len() as u32).to_be_bytes();
                    if !frame.payload.is_empty() {
                        client.send(WINDOW_UPDATE, 0, 0, &more).expect("sends");
                        client.send(WINDOW_UPDATE, 0, frame.stream, &more).expect("sends");
                    }
                    continue;
                }
                _ => continue,
            }
            ended += 1;
        }
    }
    println!("{whole} whole, {refused} refused, {cut} cut");
    assert_eq!(refused, 0, "{whole} whole, {cut} cut");
}

/// A connection that leaves its answers is served as soon as it has taken them.
#[test]
fn who_takes_the_answers_is_not_refused() {
    let gateway = small_gateway("1m", "- {uri: /mocked, plugins: {mocking: {response_example: mocked}}}\n");
    let mut slow = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask(&mut slow, "/mocked", 1, 4 + 3);
    assert_eq!(outcomes(&mut slow, 7), (7, 0, 0));
    let mut others = Http2Client::connect(gateway.http, &[(INITIAL_WINDOW_SIZE, 0)]).expect("connects");
    ask(&mut others, "/mocked", 1, 4 + 3);
    assert_eq!(outcomes(&mut others, 7), (7, 0, 0));
    // No room for the address: it waits until all that is left may go.
    ask(&mut slow, "/mocked", 15, 2);
    slow.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]).expect("sends");
    assert_eq!(outcomes(&mut slow, 2), (2, 0, 0));
}

/// A hundred connections of a hundred addresses ask for a file 128 times each, and take nothing.
#[test]
fn many_requests_hold_little_together() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("file"), vec![b'f'; 1_000_000]).expect("a file");
    fs::write(folder.path().join("ok"), "ok").expect("a file");
    let root = folder.path().display();
    let gateway =
        small_gateway("64m", &format!("- {{uri: /*, plugins: {{static-files: {{root: \"{root}\"}}}}}}\n"));
    for _ in 0..100 {
        assert_eq!(gateway.client().get("h", "/ok").expect("an answer").status(), 200);
    }
    let before = status_bytes(&gateway, "VmHWM");
    let clients: Vec<Http2Client> = (0..100)
        .map(|n| {
            let from = SocketAddr::from((Ipv4Addr::new(127, 1, 0, 1 + n), 0));
            let mut client = Http2Client::connect_from(from, gateway.http, &[]).expect("connects");
            ask(&mut client, "/file", 1, 128);
            client
        })
        .collect();
    gateway.wait_for_log("HTTP/2 responses that clients do not read");
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(2) {
        assert_eq!(gateway.client().get("h", "/ok").expect("others are served").status(), 200);
    }
    let grown = (status_bytes(&gateway, "VmHWM") - before) / MEGABYTE;
    println!("{grown} MB for {} requests", 100 * 128);
    assert!(grown <= 100, "{grown} MB");
    drop(clients);
}
