//! Services that plugins ask, and mirrors: what they send without end, or do not take, costs no other request anything.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::{growth, processor_time};
use tidegate_testkit::{Gateway, Upstream};

const MEGABYTE: usize = 1 << 20;

const PLUGINS: &str = "plugins: [forward-auth, opa, openid-connect, proxy-mirror, limit-count]\n";

/// Sends these bytes again and again to whoever says something, after a start.
fn flood(start: &'static [u8], again: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(start);
                let piece = again.repeat(65_536 / again.len());
                while stream.write_all(&piece).is_ok() {}
            });
        }
    });
    address
}

fn start(lines: &str, plugins: &Value, upstream: &Upstream) -> Gateway {
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": plugins,
        "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
    }]});
    let config = YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n{lines}"), 1);
    Gateway::start(&format!("{config}{PLUGINS}"), Some(&routes.to_string()))
}

fn get(gateway: &Gateway) -> u16 {
    gateway.client().get("h", "/").expect("an answer").status()
}

#[test]
fn interim_answers_without_end_end_the_question() {
    let upstream = Upstream::start();
    let url = format!("http://{}/x", flood(b"", b"HTTP/1.1 100 C\r\n\r\n"));
    for (name, conf) in [
        ("forward-auth", json!({"uri": url, "timeout": 60_000})),
        ("opa", json!({"host": url, "policy": "p", "timeout": 60_000})),
    ] {
        let gateway = start("", &json!({name: conf}), &upstream);
        let started = Instant::now();
        assert_eq!(get(&gateway), 403, "{name}");
        assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", started.elapsed());
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_reply_of_redis_without_end_ends_the_connection() {
    let upstream = Upstream::start();
    for (what, first) in [("a text", b"$2000000000\r\n".as_slice()), ("a line", b"+")] {
        let conf = json!({
            "count": 5, "time_window": 60, "policy": "redis", "redis_host": "127.0.0.1", "redis_timeout": 60_000,
            "redis_port": flood(first, b"x").port(),
        });
        let gateway = start("", &json!({"limit-count": conf}), &upstream);
        let ((), grown) = growth(&gateway, || {
            let started = Instant::now();
            assert_eq!(get(&gateway), 500, "{what}");
            assert!(started.elapsed() < Duration::from_secs(10), "{what}: {:?}", started.elapsed());
        });
        println!("{what} of Redis without end: +{} MB", grown >> 20);
        assert!(grown < 24 << 20, "{what}: +{} MB", grown >> 20);
    }
}

#[test]
fn a_decision_of_very_many_values_is_refused() {
    let upstream = Upstream::start();
    for (members, status) in [(40_000, 200), (70_000, 503)] {
        let mut result: Map<String, Value> = (0..members).map(|key| (format!("k{key}"), 1.into())).collect();
        result.insert("allow".to_owned(), true.into());
        let decision = json!({ "result": result }).to_string();
        assert!(decision.len() > 256 << 10 && decision.len() < MEGABYTE);
        let service = Upstream::service(move |_| (200, decision.clone()));
        let conf = json!({"host": format!("http://{}", service.address), "policy": "p"});
        let gateway = start("", &json!({"opa": conf}), &upstream);
        assert_eq!(get(&gateway), status, "{members}");
        if status == 503 {
            gateway.wait_for_log("it has more than 65536 values");
        }
    }
}

/// A provider with very many keys: a token is tried with a few.
#[test]
fn few_keys_of_a_provider_are_tried() {
    let upstream = Upstream::start();
    let modulus = URL_SAFE_NO_PAD.encode([0xff; 256]);
    let keys = vec![json!({"kty": "RSA", "n": modulus, "e": "AQAB"}); 2_500];
    let keys = json!({ "keys": keys }).to_string();
    assert!(keys.len() < MEGABYTE);
    let provider = Upstream::service(move |request| {
        let at = request.header("Host").expect("a host");
        let document = json!({"issuer": format!("http://{at}"), "jwks_uri": format!("http://{at}/keys")});
        match request.target() {
            "/keys" => (200, keys.clone()),
            _ => (200, document.to_string()),
        }
    });
    let discovery = format!("http://{}/discovery", provider.address);
    let conf = json!({"client_id": "c", "client_secret": "s", "bearer_only": true, "use_jwks": true, "discovery": discovery});
    let gateway = start("", &json!({"openid-connect": conf}), &upstream);
    let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let token = |number: u8| {
        let signature = URL_SAFE_NO_PAD.encode([number; 256]);
        format!("{}.{}.{signature}", part(json!({"alg": "RS256"})), part(json!({"sub": "x"})))
    };
    let refused = |number: u8| {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\n\r\n", token(number));
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), 401);
    };
    refused(1);
    let before = processor_time(&gateway);
    (2..22).for_each(refused);
    let took = processor_time(&gateway) - before;
    println!("20 tokens at a provider with 2,500 keys: {took:?}");
    assert!(took < Duration::from_millis(1200), "{took:?}");
    gateway.wait_for_log("has 2500 keys; the first 100 count");
    gateway.wait_for_log("more than 10 keys of a JWKS fit a token");
}

/// A mirror that accepts and never reads: copies are left out, and no request is refused for them.
#[test]
fn copies_never_take_the_last_memory_for_bodies() {
    let upstream = Upstream::start();
    let mirror = TcpListener::bind("127.0.0.1:0").expect("a port");
    let host = format!("http://{}", mirror.local_addr().expect("an address"));
    // One address gets 32 MB, and copies of its requests half of that.
    let lines = "  body_memory: {total: 256m}\n";
    let gateway = start(lines, &json!({"proxy-mirror": {"host": host}}), &upstream);
    let body = vec![b'x'; 8 * MEGABYTE];
    for number in 0..8 {
        let mut client = gateway.client();
        let head = format!("POST /status/200 HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
        client.send(head.as_bytes()).expect("sends");
        client.send(&body).expect("sends");
        assert_eq!(client.response().expect("an answer").status(), 200, "request {number}");
    }
    gateway
        .wait_for_log("is not mirrored: the share of the memory for bodies that mirrored requests may take");
    assert!(upstream.take().iter().all(|seen| seen.message.body == body), "bodies arrive whole");
    drop(mirror);
}
