//! http-dubbo, with a service that speaks Dubbo's protocol: what it is called with, and what becomes of its results.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

/// Answers by the name of the method; the lines of each call.
fn service() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (called, receiver) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 16];
            if stream.read_exact(&mut head).is_err() {
                continue;
            }
            assert_eq!(head[..4], [0xda, 0xbb, 0xc6, 0]);
            let mut data = vec![0; u32::from_be_bytes([head[12], head[13], head[14], head[15]]) as usize];
            stream.read_exact(&mut data).expect("a call");
            let lines = String::from_utf8(data).expect("text");
            let (status, result): (u8, &str) = match lines.lines().nth(3).unwrap_or_default() {
                "\"value\"" => (20, "1\n{\"a\":[1,2]}\n"),
                "\"attached\"" => (20, "4\n\"x\"\n{\"k\":\"v\"}\n"),
                "\"nothing\"" => (20, "2\n"),
                "\"fails\"" => (20, "0\n{\"message\":\"no\"}\n"),
                _ => (40, "no such service"),
            };
            let _ = called.send(lines);
            let mut answer = vec![0xda, 0xbb, 0x06, status, 0, 0, 0, 0, 0, 0, 0, 1];
            answer.extend((result.len() as u32).to_be_bytes());
            answer.extend(result.as_bytes());
            let _ = stream.write_all(&answer);
        }
    });
    (address, receiver)
}

fn gateway(routes: &[(&str, SocketAddr, Value)]) -> Gateway {
    let route = |(method, address, more): &(&str, SocketAddr, Value)| {
        let mut conf = json!({"service_name": "org.test.S", "service_version": "1.2.3", "method": method});
        conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let node = json!({"type": "roundrobin", "nodes": {address.to_string(): 1}});
        json!({"id": method, "uri": format!("/{method}"), "plugins": {"http-dubbo": conf}, "upstream": node})
    };
    let routes = json!({"routes": routes.iter().map(route).collect::<Vec<_>>()});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

fn send(gateway: &Gateway, target: &str, fields: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let text = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    let answer = gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"));
    (answer.status(), answer.body_text())
}

#[test]
fn calls_and_results() {
    let (address, called) = service();
    let away = SocketAddr::from(([127, 0, 0, 1], 1));
    let gateway = gateway(&[
        (
            "value",
            address,
            json!({"params_type_desc": "Ljava/lang/String;I", "serialization_header_key": "X-Done", "max_req_body_size": 50}),
        ),
        ("attached", address, json!({"params_type_desc": "[I", "serialized": true})),
        ("nothing", address, json!({})),
        ("fails", address, json!({})),
        ("unknown", address, json!({})),
        ("away", away, json!({})),
    ]);
    assert_eq!(send(&gateway, "/value", "", r#"["a\n\"", 7]"#), (200, r#"{"a":[1,2]}"#.to_owned()));
    let start = "\"2.0.2\"\n\"org.test.S\"\n\"1.2.3\"\n";
    let expected = format!("{start}\"value\"\n\"Ljava/lang/String;I\"\n\"a\\n\\\"\"\n7\n{{}}\n");
    assert_eq!(called.recv().as_deref(), Ok(expected.as_str()));
    assert_eq!(send(&gateway, "/value", "X-Done: true\r\n", "\"b\"\n8\n").0, 200);
    assert_eq!(called.recv().as_deref(), Ok(expected.replace("\"a\\n\\\"\"\n7", "\"b\"\n8").as_str()));
    assert_eq!(send(&gateway, "/attached", "", "[1,2]"), (200, "\"x\"".to_owned()));
    assert_eq!(called.recv().as_deref(), Ok(format!("{start}\"attached\"\n\"[I\"\n[1,2]\n{{}}\n").as_str()));
    assert_eq!(send(&gateway, "/nothing", "", ""), (200, String::new()));
    assert_eq!(called.recv().as_deref(), Ok(format!("{start}\"nothing\"\n\"\"\n{{}}\n").as_str()));
    for (target, fields, body, status) in [
        ("/fails", "", "", 500),
        ("/unknown", "", "", 500),
        ("/away", "", "", 502),
        ("/value", "", "{", 400),
        ("/value", "", "[1]", 400),
        ("/value", "X-Done: true\r\n", "1\n2\n{\"token\":\"x\"}", 400),
        ("/attached", "", "[1]\n{}", 400),
        ("/nothing", "", "[1]", 400),
        ("/value", "", &format!("[\"{}\", 1]", "x".repeat(50)), 413),
    ] {
        assert_eq!(send(&gateway, target, fields, body).0, status, "{target} {body}");
    }
    gateway.wait_for_log("the method failed: {\"message\":\"no\"}");
    gateway.wait_for_log("failed to connect to upstream");
}
