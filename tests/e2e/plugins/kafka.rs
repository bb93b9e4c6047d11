//! Upstreams with scheme `kafka`, and kafka-proxy: commands over a WebSocket, and what brokers are asked.

mod broker;

use std::sync::atomic::Ordering::SeqCst;

use broker::{Kafka, Options};
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway};

use super::loggers::tls_config;

const FIN: u8 = 0x80;
const BINARY: u8 = 2;

fn gateway(routes: &[(&str, &Kafka, Value, Value)]) -> Gateway {
    let route = |(name, kafka, plugins, more): &(&str, &Kafka, Value, Value)| {
        let mut upstream =
            json!({"type": "none", "scheme": "kafka", "nodes": {kafka.address.to_string(): 1}});
        upstream.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"id": name, "uri": format!("/{name}"), "plugins": plugins, "upstream": upstream})
    };
    let routes = json!({"routes": routes.iter().map(route).collect::<Vec<_>>()});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

fn upgrade(path: &str) -> String {
    format!(
        "GET /{path} HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: a, b\r\n\r\n"
    )
}

fn session(gateway: &Gateway, path: &str) -> Client {
    let mut client = gateway.client();
    let answer = client.request(&upgrade(path)).expect("an answer");
    assert_eq!(answer.status(), 101, "{answer:?}");
    assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(answer.header("sec-websocket-protocol"), Some("a"));
    client
}

/// A frame with a mask, as clients send it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    match u8::try_from(payload.len()) {
        Ok(short) if short < 126 => out.push(0x80 | short),
        _ => {
            out.push(0x80 | 127);
            out.extend((payload.len() as u64).to_be_bytes());
        }
    }
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    out
}

/// The next frame of the gateway.
fn received(client: &mut Client) -> (u8, Vec<u8>) {
    let head = client.exactly(2).expect("a frame");
    let length = match head[1] {
        126 => {
            let length = client.exactly(2).expect("a length");
            usize::from(u16::from_be_bytes([length[0], length[1]]))
        }
        short => usize::from(short),
    };
    (head[0], client.exactly(length).expect("a payload"))
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn field(number: u64, value: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(value.len() as u64), value.to_vec()].concat()
}

fn number(number: u64, value: i64) -> Vec<u8> {
    [varint(number << 3), varint(value as u64)].concat()
}

const FETCH: u64 = 33;
const LIST: u64 = 34;

fn command(sequence: i64, which: u64, topic: &str, partition: i64, at: i64) -> Vec<u8> {
    let body = [field(1, topic.as_bytes()), number(2, partition), number(3, at)].concat();
    [number(1, sequence), field(which, &body)].concat()
}

/// An answer in words: members by their numbers, texts as they are.
fn words(mut message: &[u8]) -> String {
    fn varint(message: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut out = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let value = varint(&mut message);
        if tag & 7 == 0 {
            out.push(format!("{}={}", tag >> 3, value as i64));
            continue;
        }
        let (bytes, rest) = message.split_at(value as usize);
        message = rest;
        let is_text = bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic());
        let inner = if is_text { String::from_utf8_lossy(bytes).into_owned() } else { words(bytes) };
        out.push(format!("{}({inner})", tag >> 3));
    }
    out.join(" ")
}

fn ask(client: &mut Client, command: &[u8]) -> String {
    client.send(&frame(FIN | BINARY, command)).expect("sent");
    let (first, answer) = received(client);
    assert_eq!(first, FIN | BINARY);
    words(&answer)
}

#[test]
fn commands_are_answered() {
    let kafka = Kafka::start(Options::default());
    let gateway = gateway(&[("kafka", &kafka, json!({}), json!({}))]);
    let answer = gateway.client().get("a.test", "/kafka").expect("an answer");
    assert_eq!(answer.status(), 400);
    gateway.wait_for_log("failed to initialize pubsub module, err: bad \"upgrade\" request header: nil");
    let without_key = upgrade("kafka").replace("Sec-WebSocket-Key", "X-Key");
    assert_eq!(gateway.client().request(&without_key).expect("an answer").status(), 400);
    let old = upgrade("kafka").replace("Version: 13", "Version: 8");
    assert_eq!(gateway.client().request(&old).expect("an answer").status(), 400);

    let mut client = session(&gateway, "kafka");
    let not_found = "err: not found topic)";
    for (command, expected) in [
        (command(1, LIST, "none", 0, -1), format!("1=1 31(2(failed to list offset, topic: none, partition: 0, {not_found})")),
        (command(2, FETCH, "none", 0, 0), format!("1=2 31(2(failed to fetch message, topic: none, partition: 0, {not_found})")),
        (command(3, LIST, "events", 0, -2), "1=3 34()".to_owned()),
        (command(4, LIST, "events", 0, -1), "1=4 34(1=30)".to_owned()),
        (command(5, LIST, "events", 0, 9_999_999_999_999), "1=5 34(1=-1)".to_owned()),
        (command(6, LIST, "events", 0, 1_014_000), "1=6 34(1=14)".to_owned()),
        // The batch with it begins with offset 12.
        (
            command(-7, FETCH, "events", 0, 14),
            "1=-7 33(1(1=14 2=1014000 4(testmsg15)) 1(1=15 2=1015000 4(testmsg16)) 1(1=16 2=1016000 4(testmsg17)) \
             1(1=17 2=1017000 4(testmsg18)))"
                .to_owned(),
        ),
        (command(8, FETCH, "events", 0, 30), "1=8 33()".to_owned()),
        (
            command(9, FETCH, "events", 0, 999),
            "1=9 31(2(failed to fetch message, topic: events, partition: 0, err: OFFSET_OUT_OF_RANGE))".to_owned(),
        ),
        (
            command(0, FETCH, "events", 1, 0),
            "31(2(failed to fetch message, topic: events, partition: 1, err: not found broker))".to_owned(),
        ),
        (
            command(0, LIST, "events", 2, 0),
            "31(2(failed to list offset, topic: events, partition: 2, err: not found partition))".to_owned(),
        ),
        ([number(1, 10), field(31, b"")].concat(), "1=10 31(2(unknown command))".to_owned()),
        ([number(1, 11), field(32, &field(1, b"state"))].concat(), "1=11 32(1(state))".to_owned()),
        (vec![0xff], "31(2(wrong command))".to_owned()),
    ] {
        assert_eq!(ask(&mut client, &command), expected);
    }
    // The brokers are not made to create topics.
    assert!(kafka.creating.try_iter().all(|creates| !creates));
    gateway.wait_for_log("pubsub callback handler not registered for the command, command: cmd_empty");
    assert!(kafka.connections.load(SeqCst) <= 6, "the connection to the leader is kept");
}

#[test]
fn frames_within_their_bounds() {
    let kafka = Kafka::start(Options::default());
    let gateway = gateway(&[("kafka", &kafka, json!({}), json!({}))]);
    let mut client = session(&gateway, "kafka");
    // Texts and empty messages are passed over.
    client.send(&frame(FIN | 1, b"text")).expect("sent");
    client.send(&frame(FIN | BINARY, b"")).expect("sent");
    let ping = [number(1, 5), field(32, &field(1, b"state"))].concat();
    // A ping between two parts of a message.
    client
        .send(&[frame(BINARY, &ping[..3]), frame(FIN | 9, b"p"), frame(FIN, &ping[3..])].concat())
        .expect("sent");
    assert_eq!(received(&mut client), (FIN | 10, b"p".to_vec()));
    let (_, answer) = received(&mut client);
    assert_eq!(words(&answer), "1=5 32(1(state))");
    gateway.wait_for_log("pubsub server receive non-binary data, type: text");
    gateway.wait_for_log("pubsub server receives empty command");
    client.send(&frame(FIN | 8, &1000_u16.to_be_bytes())).expect("sent");
    assert_eq!(received(&mut client), (FIN | 8, Vec::new()));
    assert!(client.to_close().expect("the end").is_empty());
    let part = frame(BINARY, &[0; 100]);
    for (sent, code) in [
        (frame(FIN | BINARY, &[0; 65_536]), 1009_u16),
        ([frame(BINARY, &[0; 40_000]), frame(FIN, &[0; 40_000])].concat(), 1009),
        (vec![FIN | BINARY, 1, 0], 1002),
        ([part.clone(), part].concat(), 1002),
        (frame(FIN, b"of nothing"), 1002),
        (frame(FIN | 3, b""), 1002),
        (frame(9, b"a part of a ping"), 1002),
        (frame(FIN | 9, &[0; 200]), 1002),
    ] {
        let mut client = session(&gateway, "kafka");
        client.send(&sent).expect("sent");
        assert_eq!(received(&mut client), (FIN | 8, code.to_be_bytes().to_vec()));
        let _ = client.to_close();
    }
}

/// A client that says nothing is asked for a sign, and left when it gives none; a broker that says nothing holds nobody up for
/// longer than `timeout`.
#[test]
fn silence_ends() {
    let kafka = Kafka::start(Options { silent: true, ..Options::default() });
    let short = json!({"timeout": {"connect": 1, "send": 1, "read": 1}});
    let gateway = gateway(&[("kafka", &kafka, json!({}), short)]);
    let mut client = session(&gateway, "kafka");
    assert_eq!(
        ask(&mut client, &command(1, FETCH, "events", 0, 0)),
        "1=1 31(2(failed to fetch message, topic: events, partition: 0, err: timeout))"
    );
    assert_eq!(received(&mut client), (FIN | 9, Vec::new()));
    client.send(&frame(FIN | 10, b"")).expect("sent");
    assert_eq!(received(&mut client), (FIN | 9, Vec::new()));
    assert!(client.to_close().expect("the end").is_empty());
}

#[test]
fn accounts_and_certificates() {
    let sasl = |password: &str| json!({"kafka-proxy": {"sasl": {"username": "admin", "password": password}}});
    let locked = Kafka::start(Options { account: Some("\0admin\0admin-secret"), ..Options::default() });
    let secure = Kafka::start(Options { tls: Some(tls_config()), ..Options::default() });
    let gateway = gateway(&[
        ("right", &locked, sasl("admin-secret"), json!({})),
        ("wrong", &locked, sasl("guessed"), json!({})),
        ("without", &locked, json!({"kafka-proxy": {}}), json!({})),
        ("tls", &secure, json!({}), json!({"tls": {"verify": false}})),
        ("verified", &secure, json!({}), json!({"tls": {"verify": true}})),
        ("clear", &secure, json!({}), json!({"timeout": {"connect": 1, "send": 1, "read": 1}})),
    ]);
    let last = command(1, LIST, "events", 0, -1);
    for path in ["right", "tls"] {
        assert_eq!(ask(&mut session(&gateway, path), &last), "1=1 34(1=30)", "{path}");
    }
    for path in ["wrong", "without", "verified", "clear"] {
        let answer = ask(&mut session(&gateway, path), &last);
        assert!(answer.ends_with("err: not found topic))"), "{path}: {answer}");
    }
    gateway.wait_for_log("all brokers failed in fetch topic metadata");
    gateway.wait_for_log("who is that");
    gateway.wait_for_log("TLS handshake");
}

#[test]
fn leaders_move() {
    let kafka = Kafka::start(Options::default());
    let gateway = gateway(&[("kafka", &kafka, json!({}), json!({}))]);
    let mut client = session(&gateway, "kafka");
    let last = command(1, LIST, "events", 0, -1);
    kafka.moves.store(1, SeqCst);
    // Nothing was remembered, so nothing is looked up again.
    let moved = "1=1 31(2(failed to list offset, topic: events, partition: 0, err: NOT_LEADER_OR_FOLLOWER))";
    assert_eq!(ask(&mut client, &last), moved);
    assert_eq!(ask(&mut client, &last), "1=1 34(1=30)");
    kafka.moves.store(1, SeqCst);
    assert_eq!(ask(&mut client, &last), "1=1 34(1=30)");
    kafka.moves.store(2, SeqCst);
    assert_eq!(ask(&mut client, &last), moved);
}

/// What another upstream than the route's would do is not done: requests never go to a broker as HTTP.
#[test]
fn plugins_may_choose_the_brokers() {
    let kafka = Kafka::start(Options::default());
    let upstream = json!({"type": "none", "scheme": "kafka", "nodes": {kafka.address.to_string(): 1}});
    let split =
        json!({"traffic-split": {"rules": [{"weighted_upstreams": [{"upstream": upstream, "weight": 1}]}]}});
    let routes = json!({"routes": [{"id": 1, "uri": "/kafka", "plugins": split,
        "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    assert_eq!(gateway.client().get("a.test", "/kafka").expect("an answer").status(), 400);
    let mut client = session(&gateway, "kafka");
    assert_eq!(ask(&mut client, &command(1, LIST, "events", 0, -1)), "1=1 34(1=30)");
}
