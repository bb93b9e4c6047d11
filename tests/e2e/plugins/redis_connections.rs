//! Connections to redis that were idle for longer than `redis_keepalive_timeout` are not used again, and places of limit-conn
//! expire.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::upstream::Behaviour;
use tidegate_testkit::{Upstream, servers};

/// Milliseconds: longer than the time between two requests, shorter than the delay of /pause.
const IDLE: u64 = 1000;

#[test]
fn idle_connections_to_redis_end_as_configured() {
    let redis = servers::redis(&[]);
    let port = redis.address.port();
    let limits = [
        ("limit-count", json!({"count": 100, "time_window": 60, "key": "count", "key_type": "constant"})),
        ("limit-req", json!({"rate": 100, "burst": 100, "key": "remote_addr"})),
        ("limit-conn", json!({"conn": 10, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr"})),
        ("graphql-limit-count", json!({"count": 100, "time_window": 60})),
    ];
    let upstream = Upstream::start();
    let nodes = json!({"nodes": {upstream.address.to_string(): 1}});
    let route = |(name, conf): &(&str, Value)| {
        let mut conf = conf.clone();
        let more = json!({"policy": "redis", "redis_host": "127.0.0.1", "redis_port": port, "redis_keepalive_timeout": IDLE});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"id": name, "uri": format!("/{name}"), "plugins": {*name: conf}, "upstream": nodes})
    };
    let mut routes: Vec<Value> = limits.iter().map(route).collect();
    let pause = json!({"abort": {"http_status": 200}, "delay": {"duration": 1.5}});
    routes.push(json!({"id": "pause", "uri": "/pause", "plugins": {"fault-injection": pause}}));
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    for (name, _) in &limits {
        let ask = || {
            let request = format!(
                "POST /{name} HTTP/1.1\r\nHost: h\r\nContent-Type: application/graphql\r\nContent-Length: 5\r\n\r\n{{ a }}"
            );
            let answer = gateway.client().request(&request).expect("an answer");
            assert_eq!(answer.status(), 200, "{name}: {}", answer.body_text());
        };
        ask();
        ask();
        let kept = connections(redis.address);
        ask();
        assert_eq!(connections(redis.address), kept + 1, "{name}: only this test's own is new");
        assert_eq!(gateway.client().get("h", "/pause").expect("an answer").status(), 200);
        ask();
        assert!(connections(redis.address) > kept + 2, "{name}: the idle connection was used again");
    }
}

/// Connections that redis has accepted, this one included.
pub(super) fn connections(address: SocketAddr) -> u64 {
    let text = told(address, "INFO stats");
    let (_, rest) = text.split_once("total_connections_received:").expect("the count");
    rest.lines().next().and_then(|count| count.trim().parse().ok()).expect("a number")
}

/// What a gateway that died had under way is free again after that time.
#[test]
fn places_in_redis_expire_as_configured() {
    let redis = servers::redis(&[]);
    let upstream = Upstream::with(|_| Behaviour { read_body: true, steps: Vec::new() });
    let limit = json!({"conn": 10, "burst": 0, "default_conn_delay": 0.1, "key": "remote_addr", "policy": "redis",
        "redis_host": "127.0.0.1", "redis_port": redis.address.port(), "key_ttl": 500});
    let route = json!({"id": "1", "uri": "/*", "plugins": {"limit-conn": limit},
        "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": [route] }).to_string()));
    let mut client = gateway.client();
    client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("it reads");
    upstream.wait_for(1);
    let keys = told(redis.address, "KEYS *");
    let key = keys.lines().find(|line| line.contains("limit")).unwrap_or_else(|| panic!("{keys}"));
    let left = told(redis.address, &format!("TTL \"{key}\""));
    let left: u64 =
        left.lines().next().and_then(|left| left.strip_prefix(':')?.parse().ok()).expect("seconds");
    assert!((300..=500).contains(&left), "{left}");
}

/// What redis says to a command.
fn told(address: SocketAddr, command: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("redis listens");
    stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}
