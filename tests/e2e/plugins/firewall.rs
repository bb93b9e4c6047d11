//! chaitin-waf, with a firewall that speaks T1K: what it is asked, and what becomes of its verdicts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

fn frame(tag: u8, data: &str) -> Vec<u8> {
    let mut frame = vec![tag];
    frame.extend((data.len() as u32).to_le_bytes());
    frame.extend(data.as_bytes());
    frame
}

fn pass() -> Vec<u8> {
    [frame(0x41, "."), frame(0xa5, r#"{"event_id":"1e90"}"#)].concat()
}

fn reject() -> Vec<u8> {
    let cookie = "Set-Cookie:sl-session=ulg==; Path=/\n";
    let event = "<!-- event_id: b3c6ce57 -->";
    [frame(0x41, "?"), frame(0x02, "403"), frame(0x25, "{}"), frame(0x23, cookie), frame(0xa4, event)]
        .concat()
}

/// Reads the frames of one question, by tag.
fn question(stream: &mut impl Read) -> Option<Vec<(u8, Vec<u8>)>> {
    let mut frames = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).ok()?;
        let mut data = vec![0; u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize];
        stream.read_exact(&mut data).ok()?;
        frames.push((head[0] & 0x3f, data));
        if head[0] & 0x80 != 0 {
            return Some(frames);
        }
    }
}

/// Answers by the target: `/attack…` is refused, `/mute` gets no answer, `/garbage` one that is not T1K.
fn serve(mut stream: impl Read + Write, asked: &Sender<Vec<(u8, Vec<u8>)>>) {
    while let Some(frames) = question(&mut stream) {
        let head = String::from_utf8_lossy(&frames[0].1).into_owned();
        let _ = asked.send(frames);
        let answer = match head.split(' ').nth(1).unwrap_or_default() {
            target if target.starts_with("/attack") => reject(),
            "/mute" => continue,
            "/garbage" => b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
            _ => pass(),
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

struct Firewall {
    address: SocketAddr,
    node: Value,
    opened: Arc<AtomicUsize>,
    asked: Receiver<Vec<(u8, Vec<u8>)>>,
}

fn firewall() -> Firewall {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let (asked, receiver) = channel();
    let opened = Arc::new(AtomicUsize::new(0));
    let counted = opened.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, SeqCst);
            let asked = asked.clone();
            thread::spawn(move || serve(stream, &asked));
        }
    });
    let node = json!({"host": "127.0.0.1", "port": address.port()});
    Firewall { address, node, opened, asked: receiver }
}

fn gateway(upstream: &Upstream, node: &Value, routes: &[(&str, Value)]) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |(id, conf): &(&str, Value)| json!({"id": id, "host": id, "uri": "/*", "plugins": {"chaitin-waf": conf}, "upstream": target});
    let metadata = json!({"id": "chaitin-waf", "nodes": [node], "config": {"read_timeout": 200}});
    let metadata = if node.is_null() { json!([]) } else { json!([metadata]) };
    let objects =
        json!({"routes": routes.iter().map(route).collect::<Vec<_>>(), "plugin_metadata": metadata});
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

fn send(gateway: &Gateway, host: &str, target: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let text =
        format!("POST {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
}

fn told<'m>(answer: &'m Message, name: &str) -> Option<&'m str> {
    answer.header(&format!("X-APISIX-CHAITIN-WAF{name}"))
}

#[test]
fn verdicts() {
    let (upstream, firewall) = (Upstream::start(), firewall());
    let rule = json!([{"vars": [["http_waf", "==", "true"]]}]);
    let gateway = gateway(
        &upstream,
        &firewall.node,
        &[
            ("block", json!({"mode": "block"})),
            ("monitor", json!({})),
            ("off", json!({"mode": "off"})),
            ("some", json!({"mode": "block", "match": rule, "append_waf_debug_header": true})),
            ("quiet", json!({"mode": "block", "append_waf_resp_header": false})),
        ],
    );
    let answer = send(&gateway, "block", "/fine", "", "a=1");
    assert_eq!(
        (answer.status(), told(&answer, ""), told(&answer, "-ACTION")),
        (200, Some("yes"), Some("pass"))
    );
    assert_eq!((told(&answer, "-STATUS"), told(&answer, "-SERVER")), (Some("200"), None));
    assert!(told(&answer, "-TIME").is_some_and(|time| time.parse::<u32>().is_ok()));
    let frames = firewall.asked.recv().expect("a question");
    let texts: Vec<(u8, String)> =
        frames.into_iter().map(|(tag, data)| (tag, String::from_utf8_lossy(&data).into_owned())).collect();
    assert!(
        texts[0].1.starts_with("POST /fine HTTP/1.1\r\nHost: block\r\n") && texts[0].1.ends_with("\r\n\r\n")
    );
    assert_eq!((texts[1].0, texts[1].1.as_str()), (2, "a=1"));
    assert!(texts[2].0 == 3 && texts[2].1.contains("\x13127.0.0.1\n"), "{texts:?}");
    assert_eq!((texts[3].0, texts[3].1.as_str()), (0x20, "Proto:3\n"));

    let refused = send(&gateway, "block", "/attack", "", "a=1 and 1=1");
    let body = r#"{"code": 403, "success":false, "message": "blocked by Chaitin SafeLine Web Application Firewall", "event_id": "b3c6ce57"}"#;
    assert_eq!((refused.status(), refused.body_text().trim_end()), (403, body));
    assert_eq!((told(&refused, "-ACTION"), told(&refused, "-STATUS")), (Some("reject"), Some("403")));
    assert_eq!(refused.header("Set-Cookie"), Some("sl-session=ulg==; Path=/"));

    let watched = send(&gateway, "monitor", "/attack", "", "");
    assert_eq!((watched.status(), told(&watched, "-ACTION")), (200, Some("reject")));
    assert_eq!(watched.header("Set-Cookie"), None);
    gateway.wait_for_log("request would have been rejected, event_id: b3c6ce57");

    let off = send(&gateway, "off", "/attack", "", "");
    assert_eq!((off.status(), told(&off, "")), (200, Some("off")));
    let other = send(&gateway, "some", "/attack", "", "");
    assert_eq!((other.status(), told(&other, "")), (200, Some("no")));
    let some = send(&gateway, "some", "/attack", "waf: true\r\n", "");
    assert_eq!((some.status(), told(&some, "-SERVER")), (403, Some("127.0.0.1")));
    let quiet = send(&gateway, "quiet", "/attack", "", "");
    assert_eq!((quiet.status(), told(&quiet, "")), (403, None));
}

#[test]
fn a_firewall_that_does_not_answer() {
    let (upstream, firewall) = (Upstream::start(), firewall());
    let routes = [
        ("block", json!({"mode": "block", "append_waf_debug_header": true})),
        ("monitor", json!({"append_waf_debug_header": true})),
    ];
    let here = gateway(&upstream, &firewall.node, &routes);
    let away = gateway(&upstream, &json!({"host": "127.0.0.1", "port": 1}), &routes);
    let none = gateway(&upstream, &Value::Null, &routes);
    for (gateway, target, state) in
        [(&here, "/mute", "timeout"), (&here, "/garbage", "waf-err"), (&away, "/", "waf-err")]
    {
        for (host, status) in [("block", 500), ("monitor", 200)] {
            let answer = send(gateway, host, target, "", "");
            assert_eq!((answer.status(), told(&answer, "")), (status, Some(state)), "{host} {target}");
            assert!(told(&answer, "-ERROR").is_some_and(|reason| reason.contains("t1k server")));
        }
    }
    for host in ["block", "monitor"] {
        let answer = send(&none, host, "/", "", "");
        assert_eq!(
            (answer.status(), told(&answer, ""), told(&answer, "-ERROR")),
            (500, Some("err"), Some("missing metadata"))
        );
    }
}

#[test]
fn over_a_socket_of_unix() {
    let upstream = Upstream::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("waf.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let (asked, receiver) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let asked = asked.clone();
            thread::spawn(move || serve(stream, &asked));
        }
    });
    let node = json!({"host": format!("unix:{}", path.display()), "port": 8000});
    let conf = json!({"mode": "block", "config": {"req_body_size": 1}});
    let gateway = gateway(&upstream, &node, &[("block", conf)]);
    assert_eq!(send(&gateway, "block", "/fine", "", &"x".repeat(2000)).status(), 200);
    assert_eq!(receiver.recv().expect("a question")[1].1.len(), 1024, "no more of the body is judged");
    assert_eq!(upstream.take()[0].message.body.len(), 2000, "all of it goes on");
    assert_eq!(send(&gateway, "block", "/attack", "", "").status(), 403);
}

#[test]
fn what_routes_do_not_say_is_in_the_metadata() {
    let (upstream, firewall) = (Upstream::start(), firewall());
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, conf: Value| json!({"id": id, "host": id, "uri": "/*", "plugins": {"chaitin-waf": conf}, "upstream": target});
    let objects = json!({
        "routes": [
            route("silent", json!({})),
            route("watching", json!({"mode": "monitor"})),
            route("own", json!({"config": {"read_timeout": 200, "real_client_ip": true}})),
        ],
        "plugin_metadata": [{"id": "chaitin-waf", "nodes": [firewall.node], "mode": "block",
            "config": {"read_timeout": 60_000, "req_body_size": 1, "real_client_ip": false}}],
    });
    let gateway = Gateway::start(YAML_PROVIDER, Some(&objects.to_string()));
    assert_eq!(send(&gateway, "silent", "/attack", "", "").status(), 403);
    assert_eq!(send(&gateway, "watching", "/attack", "", "").status(), 200);
    assert_eq!(send(&gateway, "own", "/mute", "", "").status(), 500);
    firewall.asked.try_iter().for_each(drop);
    let asked = |host: &str| {
        let body = "x".repeat(2000);
        assert_eq!(send(&gateway, host, "/fine", "X-Real-IP: 192.0.2.7\r\n", &body).status(), 200);
        let frames = firewall.asked.recv().expect("a question");
        let about = frames.iter().find(|(tag, _)| *tag == 3).expect("who asks");
        (frames[1].1.len(), String::from_utf8_lossy(&about.1).contains("192.0.2.7"))
    };
    assert_eq!(asked("silent"), (1024, false));
    assert_eq!(asked("own"), (1024, true));
}

/// A gateway whose metadata has `config`, and whose route `own` another one.
fn two_configs(upstream: &Upstream, node: SocketAddr, config: Value, own: Value) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, conf: Value| json!({"id": id, "host": id, "uri": "/*", "plugins": {"chaitin-waf": conf}, "upstream": target});
    let node = json!({"host": node.ip().to_string(), "port": node.port()});
    let objects = json!({
        "routes": [route("shared", json!({})), route("own", json!({"config": own}))],
        "plugin_metadata": [{"id": "chaitin-waf", "nodes": [node], "mode": "block", "config": config}],
    });
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

/// All are longer than the default of 1 s.
#[test]
fn a_firewall_is_waited_for_as_configured() {
    let upstream = Upstream::start();
    let (full, _kept) = super::fields::full();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    let times = |name: &str, more: Value| {
        let with = |time: u32| {
            let mut config = more.clone();
            config[name] = json!(time);
            config
        };
        (with(1300), with(1800))
    };
    let (shared, own) = times("connect_timeout", json!({}));
    let unreachable = two_configs(&upstream, full, shared, own);
    let (shared, own) = times("send_timeout", json!({"req_body_size": 16_000}));
    let deaf = two_configs(&upstream, address, shared, own);
    let large = "x".repeat(16_000_000);
    let time = |gateway: &Gateway, host: &str, body: &str| {
        let answer = send(gateway, host, "/", "", body);
        assert_eq!((answer.status(), told(&answer, "")), (500, Some("timeout")), "{answer:?}");
        told(&answer, "-TIME").and_then(|time| time.parse::<u32>().ok()).expect("milliseconds")
    };
    thread::scope(|scope| {
        for (gateway, body) in [(&unreachable, ""), (&deaf, large.as_str())] {
            for (host, least) in [("shared", 1300), ("own", 1800)] {
                scope.spawn(move || {
                    let took = time(gateway, host, body);
                    assert!(took >= least, "{host}: {took} ms");
                });
            }
        }
    });
}

#[test]
fn connections_to_a_firewall_are_kept_as_configured() {
    let upstream = Upstream::start();
    for (name, none, many) in [("keepalive_size", 0, 8), ("keepalive_timeout", 0, 60_000)] {
        let firewall = firewall();
        let gateway = two_configs(&upstream, firewall.address, json!({ name: none }), json!({ name: many }));
        // The last connection of `own` may serve once more.
        for (host, expected) in [("own", 1..=1), ("shared", 3..=4)] {
            let before = firewall.opened.load(SeqCst);
            for _ in 0..4 {
                assert_eq!(send(&gateway, host, "/fine", "", "").status(), 200, "{host}");
            }
            let opened = firewall.opened.load(SeqCst) - before;
            assert!(expected.contains(&opened), "{name} {host}: {opened}");
        }
    }
}
