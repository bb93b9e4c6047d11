//! dubbo-proxy, with a service that takes and gives maps in Hessian 2: what reaches it, and what becomes of its results.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message};

/// Texts of a call in their order, then its first map.
#[derive(Debug)]
struct Called {
    names: Vec<String>,
    map: BTreeMap<String, String>,
}

/// A short text, one of up to 1023 signs, or bytes of these lengths; all that a call here has.
fn word(data: &mut &[u8]) -> String {
    let code = data[0];
    let (length, start) = match code {
        0x00..=0x1f => (usize::from(code), 1),
        0x20..=0x2f => (usize::from(code - 0x20), 1),
        0x30..=0x33 => (usize::from(code - 0x30) << 8 | usize::from(data[1]), 2),
        other => panic!("code {other:#x}"),
    };
    let text = String::from_utf8(data[start..start + length].to_vec()).expect("ASCII");
    *data = &data[start + length..];
    text
}

fn called(mut data: &[u8]) -> Called {
    let names = (0..5).map(|_| word(&mut data)).collect();
    assert_eq!(data[0], b'H');
    data = &data[1..];
    let mut map = BTreeMap::new();
    while data[0] != b'Z' {
        let key = word(&mut data);
        map.insert(key, word(&mut data));
    }
    Called { names, map }
}

fn text(text: &str) -> Vec<u8> {
    assert!(text.len() < 32);
    [&[text.len() as u8], text.as_bytes()].concat()
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = entries.iter().flat_map(|(name, value)| [text(name), value.clone()]);
    [vec![0x91, b'H'], entries.flatten().collect(), vec![b'Z']].concat()
}

/// Answers by the name of the method.
fn service() -> (SocketAddr, Receiver<Called>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 16];
            if stream.read_exact(&mut head).is_err() {
                continue;
            }
            assert_eq!(head[..4], [0xda, 0xbb, 0xc2, 0]);
            let mut data = vec![0; u32::from_be_bytes([head[12], head[13], head[14], head[15]]) as usize];
            stream.read_exact(&mut data).expect("a call");
            let called = called(&data);
            let body = ("body", text("dubbo success\n"));
            let (status, result) = match called.names[3].as_str() {
                "hello" => (
                    20,
                    map(&[body, ("status", text("200")), ("Got", text("x")), ("Content-Length", text("1"))]),
                ),
                "bytes" => (20, map(&[("body", b"\x22\xff\x00".to_vec())])),
                "fail" => (20, map(&[("body", text("dubbo fail\n")), ("status", text("503"))])),
                "number" => (20, map(&[("body", text("ok\n")), ("status", b"\xc8\xc8".to_vec())])),
                "bad" => (20, map(&[("status", text("99"))])),
                "split" => (20, map(&[("X", text("a\r\nY: b"))])),
                "nothing" => (20, vec![0x92]),
                "throws" => (20, [vec![0x90], text("no such user")].concat()),
                "list" => (20, vec![0x91, 0x78]),
                "silent" => {
                    let _ = sender.send(called);
                    let _ = stream.read(&mut head);
                    continue;
                }
                _ => (70, text("version or group mismatch")),
            };
            let _ = sender.send(called);
            let length = (result.len() as u32).to_be_bytes();
            let _ = stream.write_all(
                &[&[0xda, 0xbb, 0x02, status, 0, 0, 0, 0, 0, 0, 0, 1][..], &length, &result].concat(),
            );
        }
    });
    (address, receiver)
}

fn gateway(address: SocketAddr) -> Gateway {
    let route = |id: &str, conf: Value, nodes: Value| {
        let mut dubbo = json!({"service_name": "org.test.Demo", "service_version": "1.0.0"});
        dubbo.as_object_mut().expect("an object").extend(conf.as_object().expect("an object").clone());
        json!({"id": id, "uris": [format!("/{id}"), format!("/{id}/*")], "plugins": {"dubbo-proxy": dubbo, "proxy-rewrite": {"headers": {"set": {"X-Set": "1"}}}},
               "upstream": {"type": "roundrobin", "nodes": nodes, "timeout": {"connect": 1, "send": 1, "read": 0.3}}})
    };
    let names = ["bytes", "fail", "number", "bad", "split", "nothing", "throws", "list", "silent", "unknown"];
    let mut routes: Vec<Value> = names
        .iter()
        .map(|name| route(name, json!({"method": name}), json!({address.to_string(): 1})))
        .collect();
    routes.push(route("hello", json!({}), json!({address.to_string(): 1})));
    routes.push(route("away", json!({"method": "hello"}), json!({"127.0.0.1:1": 1})));
    let nodes = json!([{"host": "127.0.0.1", "port": 1, "weight": 1, "priority": 1}, {"host": "127.0.0.1", "port": address.port(), "weight": 1}]);
    routes.push(route("retry", json!({"method": "hello"}), nodes));
    let config = format!("{YAML_PROVIDER}plugins: [dubbo-proxy, proxy-rewrite]\n");
    Gateway::start(&config, Some(&json!({ "routes": routes }).to_string()))
}

fn send(gateway: &Gateway, target: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let text = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
}

#[test]
fn maps_go_and_come() {
    let (address, calls) = service();
    let gateway = gateway(address);
    let long = "l".repeat(200);
    let answer = send(
        &gateway,
        "/hello?x=1",
        &format!("Extra-Arg: V\r\nBody: forged\r\nX-Long: {long}\r\n"),
        "the body",
    );
    assert_eq!((answer.status(), answer.body_text().as_str()), (200, "dubbo success\n"));
    assert_eq!((answer.header("Got"), answer.header("Content-Length")), (Some("x"), Some("14")));
    let called = calls.recv().expect("a call");
    assert_eq!(called.names, ["2.0.2", "org.test.Demo", "1.0.0", "hello", "Ljava/util/Map;"]);
    let has = |name: &str, value: &str| called.map.get(name).map(String::as_str) == Some(value);
    assert!(
        has("extra-arg", "V")
            && has("body", "the body")
            && has("x-long", &long)
            && has("host", "h")
            && has("x-set", "1"),
        "{called:?}"
    );
    assert_eq!(send(&gateway, "/bytes", "", "").body, b"\xff\0");
    for (target, status, body) in [
        ("/fail", 503, "dubbo fail\n"),
        ("/number", 200, "ok\n"),
        ("/nothing", 200, ""),
        ("/retry", 200, "dubbo success\n"),
    ] {
        let answer = send(&gateway, target, "", "");
        assert_eq!((answer.status(), answer.body_text().as_str()), (status, body), "{target}");
    }
    for (target, status) in [
        ("/bad", 502),
        ("/split", 502),
        ("/throws", 502),
        ("/list", 502),
        ("/unknown", 502),
        ("/away", 502),
        ("/silent", 504),
    ] {
        assert_eq!(send(&gateway, target, "", "").status(), status, "{target}");
    }
    gateway.wait_for_log("version or group mismatch");
    gateway.wait_for_log("the method failed: ");
    gateway.wait_for_log("upstream timed out");
}
