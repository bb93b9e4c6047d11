//! `tidegate bench --websocket`: messages and their echoes, closed loop and at a rate.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;
use tidegate_testkit::{Gateway, Upstream, gateway::YAML_PROVIDER};

use super::bench::{bench, outcome, url};

const TEXT: u8 = 0x81;
const PING: u8 = 0x89;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;

/// A WebSocket server; its threads live as long as the test. `/echo` sends back what comes, in two parts; `/chatty` says
/// something else before, and waits for the answer to a ping; `/three` closes after three echoes; `/silent` says nothing;
/// `/masked` sends as only clients may.
pub(super) fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that leaves ends its thread.
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut path, mut key) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("sec-websocket-key")
        {
            key = value.to_owned();
        }
        if line.is_empty() {
            break;
        }
    }
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()));
    let accept = if path == "/wrong" { "wrong" } else { &accept };
    stream.write_all(
        format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        )
        .as_bytes(),
    )?;
    for turn in 0.. {
        let (opcode, payload) = frame(&mut reader)?;
        if opcode == CLOSE {
            return Ok(());
        }
        assert_eq!(opcode, TEXT);
        match path.as_str() {
            "/echo" => {
                let (one, other) = payload.split_at(payload.len() / 2);
                send(&mut stream, 0x01, one)?;
                send(&mut stream, 0x80, other)?;
            }
            "/chatty" => {
                send(&mut stream, TEXT, b"somebody said something")?;
                send(&mut stream, PING, b"there?")?;
                assert_eq!(frame(&mut reader)?, (PONG, b"there?".to_vec()));
                send(&mut stream, TEXT, &payload)?;
            }
            "/three" if turn == 3 => return send(&mut stream, CLOSE, b"\x03\xf4later"),
            "/three" => send(&mut stream, TEXT, &payload)?,
            "/masked" => stream.write_all(&[TEXT, 0x81, 0, 0, 0, 0, b'x'])?,
            _ => {}
        }
    }
    Ok(())
}

/// A masked frame of a client: its first byte and its payload.
fn frame(reader: &mut impl Read) -> std::io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    reader.read_exact(&mut head)?;
    assert_eq!(head[1] & 0x80, 0x80, "clients mask");
    let mut length = usize::from(head[1] & 0x7f);
    if length >= 126 {
        let mut bytes = vec![0; if length == 126 { 2 } else { 8 }];
        reader.read_exact(&mut bytes)?;
        length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    }
    let (mut mask, mut payload) = ([0; 4], vec![0; length]);
    reader.read_exact(&mut mask)?;
    reader.read_exact(&mut payload)?;
    payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Ok((head[0], payload))
}

fn send(stream: &mut TcpStream, first: u8, payload: &[u8]) -> std::io::Result<()> {
    let length = payload.len();
    let mut frame = vec![first];
    match length {
        0..=125 => frame.push(length as u8),
        126..=65_535 => frame.extend([&[126][..], &(length as u16).to_be_bytes()].concat()),
        _ => frame.extend([&[127][..], &(length as u64).to_be_bytes()].concat()),
    }
    frame.extend(payload);
    stream.write_all(&frame)
}

#[test]
fn echoes_are_measured() {
    let server = server();
    let at = |path: &str| format!("http://{server}{path}");
    for length in ["5", "300", "4000"] {
        let body = format!("n={{{{seq}}}} {{{{hex {length}}}}}");
        let found = outcome(&[&at("/echo"), "--websocket", "--body", &body, "-n", "100", "-c", "4"]);
        assert_eq!(
            (&found["requests"], &found["failures"]),
            (&json!(100), &json!([])),
            "{}",
            found["messages"]
        );
        assert_eq!(found["statuses"], json!([[101, 100]]));
        assert_eq!((&found["bad_statuses"], &found["latency"]["count"]), (&json!(0), &json!(100)));
        assert_eq!(
            (&found["websocket"]["upgrades"]["count"], &found["websocket"]["others"]),
            (&json!(4), &json!(0))
        );
    }
    let found = outcome(&[&at("/echo"), "--websocket", "-n", "10", "-c", "1"]);
    assert_eq!(found["body_bytes"], 80, "ten times the usual message");
    let run = bench(&[&at("/chatty"), "--websocket", "-n", "20", "-c", "2"]);
    assert_eq!(run.code, Some(0), "{} {}", run.out, run.err);
    let has = |line: &str| run.out.lines().any(|one| one.starts_with(line));
    assert!(has("  WebSocket, 2 connections, ") && has("  upgrades    2, p50 "), "{}", run.out);
    assert!(has("  no echo     20 unexpected messages"), "{}", run.out);
}

#[test]
fn a_rate_is_kept_and_corrected() {
    let server = server();
    let at = |path: &str| format!("http://{server}{path}");
    let found = outcome(&[&at("/echo"), "--websocket", "-R", "200", "-n", "60", "-c", "4", "-t", "2"]);
    assert_eq!(
        (&found["requests"], &found["corrected"]["count"]),
        (&json!(60), &json!(60)),
        "{}",
        found["messages"]
    );
    // 60 messages, 5 ms apart.
    assert!(found["seconds"].as_f64() >= Some(0.29), "{}", found["seconds"]);
    let found = outcome(&[&at("/silent"), "--websocket", "-R", "100", "-d", "400ms", "-c", "2"]);
    let [unfinished, unsent] = ["unfinished", "unsent"].map(|name| found[name].as_u64().unwrap_or(0));
    // 40, and what is due until the threads have ended: it counts although it found no connection.
    assert!(unfinished == 2 && (38..=46).contains(&(unfinished + unsent)), "{unfinished} and {unsent}");
}

#[test]
fn messages_pass_the_gateway() {
    let upstream = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", server());
    let routes = format!("routes:\n- {{id: all, uri: /*, enable_websocket: true, {upstream}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let url = format!("http://{}/echo", gateway.http);
    let found = outcome(&[&url, "--websocket", "-n", "100", "-c", "4"]);
    assert_eq!((&found["requests"], &found["failures"]), (&json!(100), &json!([])), "{}", found["messages"]);
}

#[test]
fn what_goes_wrong_is_named() {
    let server = server();
    let at = |path: &str| format!("http://{server}{path}");
    let found = outcome(&[&at("/three"), "--websocket", "-n", "8", "-c", "1"]);
    assert_eq!((&found["requests"], &found["failures"]), (&json!(6), &json!([["closed early", 2]])));
    assert_eq!(found["messages"][0][0], "closed early: the server closed the WebSocket: 1012 later");
    assert_eq!(found["websocket"]["upgrades"]["count"], 2);
    let check = |url: &str, words: &[&str], code: i32, reason: &str| {
        let run = bench(&[&[url, "--websocket", "-c", "1"], words].concat());
        assert_eq!(run.code, Some(code), "{url}: {} {}", run.out, run.err);
        assert!(run.err.contains(reason), "{url}: {}", run.err);
    };
    check(&at("/silent"), &["-n", "1", "--timeout", "200ms"], 1, "no echo after 200ms");
    check(&at("/masked"), &["-n", "1"], 1, "a masked frame from a server");
    check(&at("/wrong"), &["-n", "1"], 1, "a wrong Sec-WebSocket-Accept");
    let upstream = Upstream::start();
    check(&url(&upstream, "/bytes/1"), &["-n", "3"], 1, "200 instead of 101");
    let before = upstream.connections();
    check(&url(&upstream, "/"), &["-n", "1", "-m", "POST"], 2, "cannot be used with");
    check(&url(&upstream, "/"), &["-n", "1", "--http2"], 2, "extended CONNECT (RFC 8441)");
    check(&url(&upstream, "/"), &["-n", "1", "-H", "Upgrade: x"], 2, "--websocket sets Upgrade");
    check(&url(&upstream, "/"), &["-n", "1", &url(&upstream, "/b")], 2, "measures one URL");
    check(&url(&upstream, "/"), &["-n", "1", "--body", "{{no}}"], 2, "unknown placeholder");
    assert_eq!(upstream.connections(), before);
}
