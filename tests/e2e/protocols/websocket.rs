//! WebSocket through the gateway: after the upstream's 101 it is a tunnel, and every frame of RFC 6455 passes as it is,
//! right or wrong. What a frame means is for the two ends.
//!
//! The table follows the chapters of the Autobahn suite (which needs Python 2): framing, control frames, reserved bits
//! and opcodes, fragmentation, UTF-8, close codes, sizes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, PATIENCE, Upstream, free_port};

use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

fn upgrade(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

fn gateway(upstream: &Upstream, timeout: &str) -> (Gateway, SocketAddr) {
    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let ssl = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}", tls.port());
    let pair = self_signed("a.test");
    let node = format!(
        "upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}, timeout: {{connect: 5, send: 5, read: {timeout}}}}}",
        upstream.address
    );
    let resources = format!(
        "routes:\n- {{id: 1, uri: \"/upgrade*\", enable_websocket: true, {node}}}\n- {{id: 2, uri: \"/*\", {node}}}\n\
         ssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    (Gateway::start(&YAML_PROVIDER.replace("ssl: {enable: false}", &ssl), Some(&resources)), tls)
}

/// A tunnel to the upstream, which sends everything back.
fn tunnel(gateway: &Gateway) -> Client {
    let mut client = gateway.client();
    let answer = client.request(&upgrade("/upgrade")).expect("answers");
    assert_eq!(answer.status(), 101, "{answer:?}");
    assert_eq!(answer.header("connection"), Some("upgrade"));
    client
}

/// One frame as a client sends it: masked, the length in the shortest form.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match payload.len() {
        short @ 0..=125 => out.push(0x80 | short as u8),
        middle @ 126..=65_535 => {
            out.push(0x80 | 126);
            out.extend((middle as u16).to_be_bytes());
        }
        long => {
            out.push(0x80 | 127);
            out.extend((long as u64).to_be_bytes());
        }
    }
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Conversations of a client: what it sends comes back from the upstream byte for byte.
fn conversations() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, parts: &[Vec<u8>]| all.push((name.to_owned(), parts.concat()));
    for size in [0, 1, 125, 126, 127, 128, 65_535, 65_536, 65_537, 1 << 20] {
        add(&format!("text of {size}"), &[frame(FIN | TEXT, &vec![b'*'; size])]);
        add(&format!("binary of {size}"), &[frame(FIN | BINARY, &vec![0xfe; size])]);
    }
    for size in [0, 1, 125, 126] {
        add(&format!("ping of {size}"), &[frame(FIN | PING, &vec![b'p'; size])]);
        add(&format!("pong of {size}, unasked"), &[frame(FIN | PONG, &vec![b'p'; size])]);
    }
    add("ten pings at once", &(0..10).map(|n| frame(FIN | PING, &[n])).collect::<Vec<_>>());
    for bits in [0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70] {
        add(&format!("reserved bits {bits:#x}"), &[frame(FIN | bits | TEXT, b"reserved")]);
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        add(&format!("reserved opcode {opcode}"), &[frame(FIN | opcode, b"x"), frame(FIN | PING, b"")]);
    }
    let (begin, end) = (|text: &[u8]| frame(TEXT, text), |text: &[u8]| frame(FIN, text));
    add("two fragments", &[begin(b"frag"), end(b"ment")]);
    add("a ping between fragments", &[begin(b"frag"), frame(FIN | PING, b"now"), end(b"ment")]);
    add("empty fragments", &[begin(b""), frame(0, b""), end(b"")]);
    add("a thousand fragments", &[begin(b"x"), frame(0, b"y").repeat(1000), end(b"z")]);
    add("a fragmented ping", &[frame(PING, b"bad"), frame(FIN, b"ping")]);
    add("a continuation of nothing", &[end(b"nothing"), frame(FIN | TEXT, b"next")]);
    add("a message within a message", &[begin(b"one"), frame(FIN | TEXT, b"two"), end(b"three")]);
    for (name, text) in [
        ("valid UTF-8", "κόσμε \u{10ffff}".as_bytes()),
        ("a surrogate", b"\xed\xa0\x80"),
        ("an overlong slash", b"\xc0\xaf"),
        ("half a character", b"\xce"),
        ("beyond Unicode", b"\xf4\x90\x80\x80"),
    ] {
        add(name, &[frame(FIN | TEXT, text)]);
    }
    add("a character cut by fragments", &[begin(b"\xce"), end(b"\xba")]);
    for code in
        [0_u16, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1011, 1015, 1016, 2999, 3000, 4999, 5000]
    {
        add(&format!("close {code}"), &[frame(FIN | CLOSE, &code.to_be_bytes())]);
    }
    add("close without a code", &[frame(FIN | CLOSE, b"")]);
    add("close with half a code", &[frame(FIN | CLOSE, b"\x03")]);
    add("close with a reason", &[frame(FIN | CLOSE, b"\x03\xe8bye")]);
    add("close with a broken reason", &[frame(FIN | CLOSE, b"\x03\xe8\xce")]);
    add("close twice, then a ping", &[frame(FIN | CLOSE, b"\x03\xe8").repeat(2), frame(FIN | PING, b"")]);
    add("no mask", &[vec![FIN | TEXT, 5], b"hello".to_vec()]);
    add(
        "a length longer than needed",
        &[vec![FIN | TEXT, 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, b'x']],
    );
    add(
        "a length of 63 bits",
        &[vec![FIN | BINARY, 0x80 | 127, 0x7f, 255, 255, 255, 255, 255, 255, 255], vec![0; 64]],
    );
    add("bytes that look like HTTP", &[b"GET /stolen HTTP/1.1\r\nHost: h\r\n\r\n".to_vec()]);
    add("bytes that look like a chunked end", &[b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".to_vec()]);
    all
}

#[test]
fn every_frame_passes_unchanged() {
    let upstream = Upstream::start();
    let (gateway, _) = gateway(&upstream, "20");
    let mut failures = Vec::new();
    for (name, bytes) in conversations() {
        // Small ones byte by byte too.
        let pieces = if bytes.len() < 64 { vec![bytes.len(), 1] } else { vec![bytes.len(), 1400] };
        for piece in pieces {
            let mut client = tunnel(&gateway);
            bytes.chunks(piece).for_each(|part| client.send(part).expect("sends"));
            let echoed = client.exactly(bytes.len());
            if echoed.as_deref().ok() != Some(&bytes) {
                failures.push(format!("{name}, {piece} at a time: {:?}", echoed.err()));
            }
            client.finish().expect("half-closes");
            match client.to_close() {
                Ok(rest) if rest.is_empty() => {}
                other => failures.push(format!("{name}: after the end {other:?}")),
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(upstream.seen().iter().all(|seen| seen.message.target() == "/upgrade"));
}

#[test]
fn big_messages_wait_for_whoever_is_slower() {
    let upstream = Upstream::start();
    let (gateway, _) = gateway(&upstream, "20");
    let message = frame(FIN | BINARY, &vec![0x5a; 16 << 20]);
    let mut reading = TcpStream::connect(gateway.http).expect("connects");
    reading.set_read_timeout(Some(PATIENCE)).expect("a time limit");
    reading.write_all(upgrade("/upgrade").as_bytes()).expect("sends");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        reading.read_exact(&mut byte).expect("answers");
        head.extend(byte);
    }
    let (mut writing, sent) = (reading.try_clone().expect("a second handle"), message.clone());
    let sender = std::thread::spawn(move || {
        writing.write_all(&sent).expect("sends");
        writing.shutdown(Shutdown::Write).expect("half-closes");
    });
    let mut echoed = Vec::new();
    reading.read_to_end(&mut echoed).expect("reads to the end");
    sender.join().expect("sent all");
    assert!(echoed == message, "{} bytes of {}", echoed.len(), message.len());
}

#[test]
fn tls_holds_nothing_back() {
    let upstream = Upstream::start();
    let (_gateway, tls) = gateway(&upstream, "20");
    let mut client = Secure::connect(tls, "a.test", &Offer::default().config(None)).expect("connects");
    client.send(upgrade("/upgrade").as_bytes()).expect("sends");
    assert!(client.until(b"\r\n\r\n").expect("answers").starts_with(b"HTTP/1.1 101 "));
    // More than sockets and TLS buffer on the way: the end must come without a further push.
    for size in [1, 70_000, 3 << 20] {
        let message = frame(FIN | BINARY, &vec![1; size]);
        assert!(client.echo(&message).expect("echoes") == message, "{size}");
    }
}

#[test]
fn a_silent_tunnel_ends_and_a_busy_one_does_not() {
    let upstream = Upstream::start();
    let (gateway, _) = gateway(&upstream, "0.6");
    let mut client = tunnel(&gateway);
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(1500) {
        client.send(&frame(FIN | PING, b"")).expect("sends");
        assert_eq!(client.exactly(6).expect("echoes").len(), 6);
        assert!(client.stays_silent(Duration::from_millis(200)));
    }
    let silent = Instant::now();
    assert!(client.to_close().expect("ends in good order").is_empty());
    assert!(silent.elapsed() < Duration::from_secs(3), "{:?}", silent.elapsed());
}

#[test]
fn only_a_proper_upgrade_on_a_route_that_allows_it_is_passed_on() {
    let upstream = Upstream::start();
    let (gateway, _) = gateway(&upstream, "5");
    let switch = upgrade("/upgrade");
    for (name, request, status) in [
        ("the route does not allow it", upgrade("/echo"), 200),
        ("HTTP/1.0", switch.replace("/upgrade HTTP/1.1", "/upgrade-refused HTTP/1.0"), 403),
        ("another method", switch.replace("GET /upgrade", "DELETE /upgrade-refused"), 403),
        (
            "another protocol",
            switch.replace("Upgrade: websocket", "Upgrade: h2c").replace("/upgrade", "/upgrade-refused"),
            403,
        ),
        (
            "no Connection field",
            switch.replace("Connection: Upgrade\r\n", "").replace("/upgrade", "/upgrade-refused"),
            403,
        ),
        ("a 101 that nobody asked for", upgrade("/unasked-101"), 502),
    ] {
        let mut client = gateway.client();
        let answer = client.request(&request).expect("answers");
        assert_eq!(answer.status(), status, "{name}");
        let seen = upstream.take();
        assert_eq!(seen.len(), 1, "{name}");
        assert_eq!(seen[0].message.count("upgrade"), 0, "{name}: {:?}", seen[0].message);
        assert_eq!(seen[0].message.count("connection"), 0, "{name}: {:?}", seen[0].message);
    }
    // Frames before the 101 wait for it: refused, they are HTTP, and as that they are bad.
    let mut client = gateway.client();
    client.send((upgrade("/upgrade-refused") + "\u{1}frame\r\n\r\n").as_bytes()).expect("sends");
    assert_eq!(client.response().expect("answers").status(), 403);
    assert_eq!(client.response().expect("answers").status(), 400);
    assert_eq!(upstream.take().len(), 1);
}
