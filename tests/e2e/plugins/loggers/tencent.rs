//! The Cloud Log Service of Tencent Cloud: signed requests with logs in protobuf.

use std::collections::BTreeMap;

use aws_lc_rs::{digest, hmac};
use serde_json::{Value, json};
use tidegate_testkit::{Message, Upstream};

use super::{Logged, only, parsed, receiver, with};

fn conf(sink: &Upstream, more: Value) -> Value {
    let conf = json!({
        "cls_host": sink.address.to_string(), "cls_topic": "topic/1", "scheme": "http", "secret_id": "ID", "secret_key": "KEY",
    });
    with(conf, more)
}

/// Number and content of the fields of a message; numbers as eight bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = bytes.split_first().expect("more of a number");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = varint(&mut bytes);
        match tag & 7 {
            0 => found.push((tag >> 3, value.to_le_bytes().to_vec())),
            2 => {
                let (content, rest) = bytes.split_at(value as usize);
                found.push((tag >> 3, content.to_vec()));
                bytes = rest;
            }
            kind => panic!("wire type {kind}"),
        }
    }
    found
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The logs of a request, each with its time, and their source.
pub(super) fn logs(body: &[u8]) -> (Vec<(u64, BTreeMap<String, String>)>, String) {
    let [(1, group)] = &fields(body)[..] else { panic!("one group") };
    let (mut logs, mut source) = (Vec::new(), String::new());
    for (number, bytes) in fields(group) {
        match number {
            1 => {
                let (mut time, mut contents) = (0, BTreeMap::new());
                for (number, bytes) in fields(&bytes) {
                    match number {
                        1 => time = u64::from_le_bytes(bytes.try_into().expect("a number")),
                        2 => {
                            let [(1, name), (2, value)] = &fields(&bytes)[..] else {
                                panic!("a name and a value")
                            };
                            contents.insert(text(name), text(value));
                        }
                        other => panic!("field {other}"),
                    }
                }
                logs.push((time, contents));
            }
            4 => source = text(&bytes),
            other => panic!("field {other}"),
        }
    }
    (logs, source)
}

/// As the service computes it.
fn is_signed(message: &Message) -> bool {
    let authorization = message.header("Authorization").expect("a signature");
    let arguments: BTreeMap<&str, &str> =
        authorization.split('&').filter_map(|argument| argument.split_once('=')).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let sign = |key: &str, text: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
        hex(hmac::sign(&key, text.as_bytes()).as_ref())
    };
    let times = arguments["q-sign-time"];
    let (start, end) = times.split_once(';').expect("two times");
    let lasts = end.parse::<u64>().expect("a time") - start.parse::<u64>().expect("a time");
    let request = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, b"post\n/structuredlog\n\n\n");
    let key = sign("KEY", times);
    let expected = sign(&key, &format!("sha1\n{times}\n{}\n", hex(request.as_ref())));
    arguments["q-signature"] == expected
        && (arguments["q-ak"], arguments["q-sign-algorithm"], arguments["q-key-time"])
            == ("ID", "sha1", times)
        && (arguments["q-header-list"], arguments["q-url-param-list"], lasts) == ("", "", 60)
}

#[test]
fn signed_requests_with_logs() {
    let sink = receiver();
    let more = json!({
        "global_tag": {"env": "test", "client_ip": "hidden"}, "include_req_body": true, "batch_max_size": 2,
    });
    let logged = Logged::start("tencent-cloud-cls", conf(&sink, more), Value::Null);
    logged.post("/a", "", "question");
    logged.get("/status/404");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /structuredlog?topic_id=topic%2F1 HTTP/1.1");
    assert_eq!(message.header("Content-Type"), Some("application/x-protobuf"));
    assert!(is_signed(&message), "{message:?}");
    let (logs, source) = logs(&message.body);
    assert!(source.parse::<std::net::IpAddr>().is_ok(), "{source}");
    assert_eq!(logs.len(), 2);
    let (time, first) = &logs[0];
    assert!(*time > 1_000_000_000_000, "{time}");
    assert_eq!((first["env"].as_str(), first["client_ip"].as_str()), ("test", "hidden"));
    assert_eq!(first["route_id"], "r1");
    assert!(first["latency"].parse::<f64>().is_ok(), "{}", first["latency"]);
    assert_eq!(parsed(&first["request"])["body"], "question");
    assert_eq!(parsed(&logs[1].1["response"])["status"], 404);
}

/// The service may take it later, or never.
#[test]
fn refused_logs_are_sent_again_unless_that_is_in_vain() {
    for (status, requests) in [(500, 3), (429, 3), (401, 1), (403, 1), (404, 1), (413, 1)] {
        let sink = Upstream::service(move |_| (status, "no".to_owned()));
        let more = json!({"max_retry_count": 2, "retry_delay": 0, "log_format": {"uri": "$uri"}});
        let logged = Logged::start("tencent-cloud-cls", conf(&sink, more), Value::Null);
        logged.get("/1");
        let reason = format!("got wrong status: {status}, body, no");
        match requests {
            1 => logged.gateway.wait_for_log(&format!("{reason}, not retryable")),
            _ => logged.gateway.wait_for_log("exceeded the max_retry_count[3] dropping the entries"),
        }
        assert_eq!(sink.seen().len(), requests, "{status}");
    }
}

#[test]
fn long_batches_are_several_requests() {
    let sink = receiver();
    let more = json!({
        "batch_max_size": 6, "include_req_body": true, "max_req_body_bytes": 1_100_000,
        "log_format": {"body": "$request_body"},
    });
    let logged = Logged::start("tencent-cloud-cls", conf(&sink, more), Value::Null);
    for _ in 0..6 {
        logged.post("/", "", &"x".repeat(1_100_000));
    }
    let seen = sink.wait_for(2);
    let lengths = seen.iter().map(|seen| {
        let (logs, _) = logs(&seen.message.body);
        assert!(logs.iter().all(|(_, log)| log["body"].len() == 1 << 20), "longer texts are cut");
        logs.len()
    });
    assert_eq!(lengths.collect::<Vec<_>>(), [4, 2]);
}

#[test]
fn a_part_of_the_requests() {
    let sink = receiver();
    let more = json!({"sample_ratio": 0.00001, "include_resp_body": true});
    let logged = Logged::start("tencent-cloud-cls", conf(&sink, more), Value::Null);
    for _ in 0..20 {
        logged.get("/");
    }
    drop(logged);
    assert!(sink.seen().len() < 3, "{:?}", sink.seen());
}
