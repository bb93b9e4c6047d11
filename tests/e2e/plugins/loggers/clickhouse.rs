//! The HTTP interface of ClickHouse.

use serde_json::{Value, json};
use tidegate_testkit::{Message, Upstream};

use super::{Logged, only, parsed, receiver, url, with};

const START: &str = "INSERT INTO logs FORMAT JSONEachRow ";

fn conf(more: Value) -> Value {
    with(json!({"user": "u", "password": "p", "database": "d", "logtable": "logs"}), more)
}

fn rows(message: &Message) -> Vec<Value> {
    let body = message.body_text();
    let rows = body.strip_prefix(START).unwrap_or_else(|| panic!("{body}"));
    serde_json::Deserializer::from_str(rows).into_iter().map(|row| row.expect("JSON")).collect()
}

#[test]
fn rows_with_bodies() {
    let sink = receiver();
    let conf = conf(json!({
        "endpoint_addr": url(&sink) + "/?async_insert=1", "include_req_body": true, "max_req_body_bytes": 3,
        "include_resp_body": true, "include_resp_body_expr": [["arg_show", "==", "1"]],
    }));
    let logged = Logged::start("clickhouse-logger", conf, Value::Null);
    logged.post("/a", "", "abcdef");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /?async_insert=1 HTTP/1.1");
    let headers = ["User", "Key", "Database"].map(|name| message.header(&format!("X-ClickHouse-{name}")));
    assert_eq!(headers, [Some("u"), Some("p"), Some("d")]);
    let rows = rows(&message);
    assert_eq!(rows[0]["request"]["body"], "abc");
    assert_eq!(rows[0]["response"].get("body"), None);
    sink.take();
    logged.post("/a?show=1", "", "abcdef");
    let body = only(&sink).body_text();
    let row = parsed(body.strip_prefix(START).expect("a statement"));
    assert!(row["response"]["body"].as_str().is_some_and(|body| body.ends_with("abcdef")), "{row}");
}

#[test]
fn rows_of_a_batch_go_to_one_of_the_servers() {
    let sinks = [receiver(), receiver()];
    let addresses: Vec<String> = sinks.iter().map(url).collect();
    let conf = conf(json!({"endpoint_addrs": addresses, "batch_max_size": 2, "log_format": {"uri": "$uri"}}));
    let logged = Logged::start("clickhouse-logger", conf, Value::Null);
    let seen = || sinks.iter().map(|sink| sink.seen().len()).collect::<Vec<_>>();
    let expected = |uri: &str| json!({"uri": uri, "route_id": "r1", "service_id": "s1"});
    for round in 1.. {
        logged.get("/1");
        logged.get("/2");
        tidegate_testkit::eventually("a batch", || seen().iter().sum::<usize>() == round);
        if seen().iter().all(|count| *count > 0) {
            break;
        }
        assert!(round < 100, "one of them gets all: {:?}", seen());
    }
    assert_eq!(rows(&sinks[0].seen()[0].message), [expected("/1"), expected("/2")]);
}

#[test]
fn what_the_server_says_is_in_the_log() {
    let sink = Upstream::service(|_| (404, "Code: 60. Table logs does not exist".to_owned()));
    let logged = Logged::start("clickhouse-logger", conf(json!({"endpoint_addr": url(&sink)})), Value::Null);
    logged.get("/");
    logged.gateway.wait_for_log("server returned status code[404] host[127.0.0.1]");
    logged.gateway.wait_for_log("body[Code: 60. Table logs does not exist]");
}
