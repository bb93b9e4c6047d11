//! Clients that take their time, and clients that want too much: what they cost is bounded.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, PATIENCE, Upstream, eventually, free_port};

use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

fn gateway(http: &str, limits: &str, upstream: &Upstream) -> Gateway {
    let config = YAML_PROVIDER
        .replace("enable_access_log: false", &format!("enable_access_log: false, {http}"))
        .replace(
            "  enable_admin: false\n",
            &format!("  enable_admin: false\n  client_limits: {{{limits}}}\n"),
        );
    let routes = format!(
        "routes:\n- {{id: 1, uri: \"/*\", upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    Gateway::start(&config, Some(&routes))
}

/// Sends a byte every so often until the connection ends; returns how long that took.
fn drip(client: &mut Client, byte: &[u8]) -> (Duration, String) {
    let started = Instant::now();
    loop {
        // The pause is what is tested: a client that never is silent for long.
        if !client.stays_silent(Duration::from_millis(40)) {
            break;
        }
        if client.send(byte).is_err() || started.elapsed() > PATIENCE {
            break;
        }
    }
    let rest = client.to_close().unwrap_or_default();
    (started.elapsed(), String::from_utf8_lossy(&rest).into_owned())
}

#[test]
fn a_head_has_one_time_limit_however_it_drips() {
    let upstream = Upstream::start();
    let gateway = gateway("client_header_timeout: 500ms", "", &upstream);
    for start in ["G", "GET / HTTP/1.1\r\nHost: h\r\nX: "] {
        let mut client = gateway.client();
        client.send(start.as_bytes()).expect("sends");
        let (time, _) = drip(&mut client, b"a");
        assert!(time < Duration::from_secs(8), "{start:?} held its connection for {time:?}");
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn bodies_have_a_least_rate_when_asked_for() {
    let upstream = Upstream::start();
    let gateway = gateway("client_body_timeout: 20s", "min_body_rate: 1000, rate_window: 300ms", &upstream);
    let post = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n";
    let mut client = gateway.client();
    client.send(post.as_bytes()).expect("sends");
    let (time, _) = drip(&mut client, b"a");
    assert!(time < Duration::from_secs(8), "held for {time:?}");
    // A pause that is made up for is none.
    let mut client = gateway.client();
    client.send(post.as_bytes()).expect("sends");
    assert!(client.stays_silent(Duration::from_millis(200)));
    client.send(&[b'a'; 100_000]).expect("sends");
    assert_eq!(client.response().expect("answers").status(), 200);
    // And a silent upstream is not the client's fault.
    let late = client.get("h", "/delay/700").expect("answers");
    assert_eq!(late.body_text(), "late");
}

/// Also where a plugin asks for the whole body and its start came with the head, which has a limit of its own.
#[test]
fn a_body_that_stops_behind_its_head_has_the_time_of_bodies() {
    let upstream = Upstream::start();
    let gateway = |http: &str| {
        let config =
            YAML_PROVIDER.replace("enable_access_log: false", &format!("enable_access_log: false, {http}"));
        let node = upstream.address;
        let schema = "request-validation: {body_schema: {type: object}}";
        let routes = format!(
            "routes:\n- {{id: 1, uri: /echo, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n\
             - {{id: 2, uri: /echo, vars: [[arg_whole, ==, \"1\"]], priority: 1, plugins: {{{schema}}}, upstream: {{nodes: {{\"{node}\": 1}}}}}}\n"
        );
        Gateway::start(&config, Some(&routes))
    };
    let begun = |path: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{{\"a\""
        )
    };
    let hasty = gateway("client_header_timeout: 40s, keepalive_timeout: 40s, client_body_timeout: 500ms");
    for path in ["/echo", "/echo?whole=1"] {
        let (mut client, started) = (hasty.client(), Instant::now());
        client.send(begun(path).as_bytes()).expect("sends");
        assert_eq!(client.response().expect("answers").status(), 408, "{path}");
        assert!(started.elapsed() < Duration::from_secs(8), "{path}: {:?}", started.elapsed());
    }
    // Nor has it less than bodies have.
    let patient = gateway("client_header_timeout: 1s, keepalive_timeout: 1s, client_body_timeout: 40s");
    for path in ["/echo", "/echo?whole=1"] {
        let mut client = patient.client();
        client.send(begun(path).as_bytes()).expect("sends");
        assert!(client.stays_silent(Duration::from_millis(1500)), "{path}");
        client.send(b": 123}").expect("sends");
        let answer = client.response().expect("answers");
        assert_eq!(answer.status(), 200, "{path}: {}", answer.body_text());
    }
}

#[test]
fn answers_have_a_time_limit_and_a_least_rate() {
    let upstream = Upstream::start();
    let slow = "send_timeout: 10s";
    for (http, limits) in [("send_timeout: 500ms", ""), (slow, "min_answer_rate: 100m, rate_window: 200ms")] {
        let gateway = gateway(http, limits, &upstream);
        let mut stream = TcpStream::connect(gateway.http).expect("connects");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        std::io::Write::write_all(&mut stream, b"GET /bytes/60000000 HTTP/1.1\r\nHost: h\r\n\r\n")
            .expect("sends");
        let started = Instant::now();
        let (mut total, mut piece) = (0, vec![0; 4096]);
        let end = loop {
            if !limits.is_empty() || total == 0 {
                // Slow on purpose: 4 KiB in 20 ms, or nothing at all for a while.
                std::thread::sleep(Duration::from_millis(if limits.is_empty() { 1500 } else { 20 }));
            }
            match stream.read(&mut piece) {
                Ok(0) | Err(_) => break total,
                Ok(count) => total += count,
            }
            if started.elapsed() > Duration::from_secs(4) {
                // Enough was seen; what the system has buffered is read fast.
                piece.resize(1 << 20, 0);
            }
            assert!(started.elapsed() < 2 * PATIENCE, "still open after {total} bytes");
        };
        assert!(end < 60_000_000, "{http} {limits}: the whole answer came");
    }
    // A client that reads slowly but steadily is served where no rate is asked for.
    let gateway = gateway("send_timeout: 500ms", "", &upstream);
    let mut stream = TcpStream::connect(gateway.http).expect("connects");
    std::io::Write::write_all(
        &mut stream,
        b"GET /bytes/12000000 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    )
    .expect("sends");
    let (mut total, mut piece) = (0, vec![0; 256 * 1024]);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        match stream.read(&mut piece).expect("goes on") {
            0 => break,
            count => total += count,
        }
    }
    assert!(total > 12_000_000, "{total}");
}

#[test]
fn tls_does_not_hide_a_client_that_takes_nothing() {
    let upstream = Upstream::start();
    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let pair = self_signed("a.test");
    let config = YAML_PROVIDER
        .replace(
            "ssl: {enable: false}",
            &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}", tls.port()),
        )
        .replace("enable_access_log: false", "enable_access_log: false, send_timeout: 400ms");
    let resources = format!(
        "routes:\n- {{id: 1, uri: \"/*\", upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n\
         ssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
        upstream.address,
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let gateway = Gateway::start(&config, Some(&resources));
    let before = active(&gateway);
    let mut client = Secure::connect(tls, "a.test", &Offer::default().config(None)).expect("connects");
    client.send(b"GET /bytes/60000000 HTTP/1.1\r\nHost: a.test\r\n\r\n").expect("sends");
    // Nobody reads. The gateway gives up by itself.
    eventually("the connection is closed", || !upstream.seen().is_empty() && active(&gateway) <= before);
}

/// Open client connections, as the metrics page counts them.
fn active(gateway: &Gateway) -> u64 {
    let mut client = Client::connect(gateway.metrics).expect("connects");
    let page = client.get("h", "/apisix/prometheus/metrics").expect("answers").body_text();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("apisix_nginx_http_current_connections{state=\"active\"} "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in {page}"))
}

#[test]
fn connections_are_limited_together_and_by_address() {
    let upstream = Upstream::start();
    let gateway = gateway("keepalive_timeout: 60s", "connections: 5, connections_per_address: 3", &upstream);
    let held = |address: &str| -> Option<Client> {
        let from: SocketAddr = format!("{address}:0").parse().expect("an address");
        let mut client = Client::connect_from(from, gateway.http).ok()?;
        client.get("h", "/").ok().map(|_| client)
    };
    let mut open: Vec<Client> = (0..3).map(|_| held("127.0.0.1").expect("room")).collect();
    assert!(held("127.0.0.1").is_none(), "a fourth of the same address");
    open.extend((0..2).map(|_| held("127.0.0.2").expect("room")));
    assert!(held("127.0.0.3").is_none(), "a sixth together");
    open.remove(0);
    let deadline = Instant::now() + PATIENCE;
    while held("127.0.0.3").is_none() {
        assert!(Instant::now() < deadline, "no room although one left");
    }
    for client in &mut open {
        assert_eq!(client.get("h", "/").expect("stays open").status(), 200);
    }
}
