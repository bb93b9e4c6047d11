//! Answers that a plugin holds until they are whole: in counted memory, in bounded time, beside the worker, and not sent
//! where the plugin could not do its work.

use std::io::Write;
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::usage::{assert_done_in_pieces, growth};
use tidegate_testkit::{Gateway, Message, Upstream};

use crate::plugins::body_work::cpu;

const MEGABYTE: u64 = 1 << 20;
const SECRET: &str = "secret=a1b2";

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// 200 MiB of one letter in some 200 KB.
fn bomb() -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    for _ in 0..200 {
        encoder.write_all(&[b'a'; 1 << 20]).expect("memory takes all");
    }
    encoder.finish().expect("memory takes all")
}

fn answer(status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} Status\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// What the upstream sends, by the path.
fn upstream() -> Upstream {
    let (bomb, gzip_field) =
        (answer(200, "Content-Encoding: gzip\r\n", &bomb()), "Content-Encoding: gzip\r\n");
    let mut large = format!("{SECRET};{}", "words ".repeat(1_300_000)).into_bytes();
    large.extend_from_slice(SECRET.as_bytes());
    let damaged = gzip(SECRET.repeat(1000).as_bytes()).split_at(40).0.to_vec();
    let members = (0..100_000).map(|at| (format!("k{at}"), json!(at))).collect::<serde_json::Map<_, _>>();
    let members = Value::Object(members).to_string();
    Upstream::with(move |request| {
        let bytes = match request.target() {
            "/bomb" => bomb.clone(),
            "/large" | "/budget" | "/cached" => answer(200, "", &large),
            "/large-gzip" => answer(200, gzip_field, &gzip(&large)),
            "/too-large" => answer(200, "", SECRET.repeat(200_000).as_bytes()),
            "/damaged" => answer(200, gzip_field, &damaged),
            "/unknown" => answer(200, "Content-Encoding: zstd\r\n", SECRET.as_bytes()),
            "/of-a-failure" => answer(404, "Content-Encoding: zstd\r\n", SECRET.as_bytes()),
            "/members" => answer(200, "Content-Type: application/json\r\n", members.as_bytes()),
            "/cut" | "/silent" => b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsecret=a1".to_vec(),
            "/empty" => answer(200, gzip_field, b""),
            "/slow" => answer(200, "", format!("{}!{SECRET}", "a".repeat(40)).as_bytes()),
            _ if request.header("Range").is_some() => answer(206, "", b"ret=a1b2"),
            _ => answer(200, "", format!("{SECRET} and {SECRET}").as_bytes()),
        };
        let close = match request.target() {
            "/cut" => Some(Step::Close),
            "/silent" => Some(Step::Silence),
            _ => None,
        };
        let bytes = if request.method() == "HEAD" {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
            bytes.get(..end).unwrap_or_default().to_vec()
        } else {
            bytes
        };
        Behaviour { read_body: true, steps: [Some(Step::Send(bytes)), close].into_iter().flatten().collect() }
    })
}

fn gateway(upstream: &Upstream, config: &str) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let hasty = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}, "timeout": {"connect": 5, "send": 5, "read": 0.3}});
    let filters = |regex: &str, replace: &str, limit: usize| {
        let filter = json!({"regex": regex, "replace": replace, "scope": "global"});
        json!({"response-rewrite": {"filters": [filter], "max_resp_body_size": limit}})
    };
    let hides = |limit| filters("secret=[a-z0-9]+", "-", limit);
    let looks = || filters("(?<=secret=)\\w+(?!x)", "-", 64 << 20);
    let transforms = |template: &str| json!({"body-transformer": {"response": {"input_format": "json", "template": template}}});
    let route = |uri: &str, plugins: Value| {
        let id = uri.trim_matches(['/', '*']).replace('/', "-");
        json!({"id": if id.is_empty() { "all" } else { &id }, "uri": uri, "plugins": plugins, "upstream": target})
    };
    let routes = json!({"routes": [
        route("/*", hides(64 << 20)),
        route("/bomb", looks()),
        route("/large", looks()),
        route("/large-gzip", hides(64 << 20)),
        route("/too-large", hides(1 << 20)),
        route("/slow", filters("(a*)*\\1b|secret", "-", 64 << 20)),
        route("/grows", filters("secret=[a-z0-9]+", &"x".repeat(1000), 1_500)),
        route("/no-json", transforms("{{name}}")),
        route("/members", transforms("{{k1}} {{k99999}}")),
        json!({"id": "silent", "uri": "/silent", "plugins": hides(64 << 20), "upstream": hasty}),
        route("/cached", json!({"proxy-cache": {"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60}})),
    ]});
    Gateway::start(config, Some(&routes.to_string()))
}

fn ask(gateway: &Gateway, path: &str) -> Message {
    gateway.client().get("h", path).expect("an answer")
}

#[test]
fn what_cannot_be_worked_on_is_not_sent() {
    let upstream = upstream();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    for (path, status, says) in [
        ("/bomb", 502, "more than 67108864 bytes when it is unpacked"),
        ("/too-large", 502, "it has more than 1048576 bytes"),
        ("/grows", 502, "more than 1500 bytes when it is unpacked and filtered"),
        ("/damaged", 502, "it cannot be unpacked"),
        ("/unknown", 502, "unsupported compression encoding type: zstd"),
        ("/of-a-failure", 404, "unsupported compression encoding type: zstd"),
        ("/slow", 502, "one of its patterns gave up"),
        ("/no-json", 502, "failed to transform response body: response body decode"),
        ("/cut", 502, "upstream closed the connection"),
    ] {
        let (answer, grown) = growth(&gateway, || ask(&gateway, path));
        println!("{path}: {}, +{} MB", answer.status(), grown / MEGABYTE);
        assert_eq!(answer.status(), status, "{path}");
        assert!(!answer.body_text().contains("secret"), "{path}: {:.200}", answer.body_text());
        assert!(grown < 160 * MEGABYTE, "{path}: +{} MB", grown / MEGABYTE);
        gateway.wait_for_log(says);
    }
    assert_eq!(ask(&gateway, "/fine").body_text(), "- and -");
    assert_eq!(ask(&gateway, "/empty").body_text(), "");
    let part = gateway.client().request("GET /fine HTTP/1.1\r\nHost: h\r\nRange: bytes=3-10\r\n\r\n");
    assert_eq!(part.expect("an answer").body_text(), "- and -");
    // What says nothing of a body has none that could not be read.
    for path in ["/unknown", "/no-json", "/bomb"] {
        let answer = gateway.client().request(&format!("HEAD {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        assert_eq!(answer.expect("an answer").status(), 200, "{path}");
    }
    // Over HTTP/2 the head waits as well.
    for (path, expected) in [("/unknown", "502"), ("/fine", "200- and -")] {
        let url = format!("http://{}{path}", gateway.http);
        let mut curl = Command::new("curl");
        curl.args(["-s", "--http2-prior-knowledge", "--max-time", "20", "-w", "%{stderr}%{http_code}", &url]);
        let output = curl.output().expect("curl runs");
        let (status, body) =
            (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
        assert!(
            format!("{status}{body}").starts_with(expected) && !body.contains("secret"),
            "{status} {body}"
        );
    }
}

/// A node that stops in the middle of a held answer has timed out, as one that sends no head.
#[test]
fn a_held_answer_that_stops_is_a_timeout() {
    let upstream = upstream();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let answer = ask(&gateway, "/silent");
    assert_eq!(answer.status(), 504);
    assert!(!answer.body_text().contains("secret"));
}

/// Patterns that go back have steps enough for a large body, and a worker does not do it.
#[test]
fn large_answers_are_filtered_to_their_end() {
    let upstream = upstream();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    for path in ["/large", "/large-gzip"] {
        let before = cpu(&gateway);
        // The 2 s that a filter has are little for a debug build beside other tests.
        let asked = || gateway.client().get("h", path).expect("an answer");
        let mut answers = (0..4).map(|_| asked());
        let answer = answers.find(|answer| answer.status() == 200).expect("an answer with the whole body");
        println!("{path}: {:?}", cpu(&gateway) - before);
        let text = answer.body_text();
        let ends =
            if path == "/large" { ("secret=-;words ", "words secret=-") } else { ("-;words ", "words -") };
        assert!(text.starts_with(ends.0) && text.ends_with(ends.1), "{path}: {:.40}", text);
        assert!(text.len() > 7_800_000, "{path}: {} bytes", text.len());
    }
    assert_done_in_pieces(&gateway);
}

/// A document of many values becomes Lua values in slices.
#[test]
fn a_document_of_many_values_keeps_nobody_waiting() {
    let upstream = upstream();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let answer = ask(&gateway, "/members");
    assert_eq!((answer.status(), answer.body_text()), (200, "1 99999".to_owned()));
    assert_done_in_pieces(&gateway);
}

/// The same for bodies of requests, in each format.
#[test]
fn a_body_of_many_values_keeps_nobody_waiting() {
    let upstream = Upstream::start();
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let template = |text: &str| json!({"body-transformer": {"request": {"template": text}}});
    let route = |id: &str, text: &str| json!({"id": id, "uri": format!("/{id}"), "plugins": template(text), "upstream": target});
    let routes = json!({"routes": [
        route("members", "{{k1}} {{k99999}}"),
        route("list", "{{b[1]}} {{#b}}"),
        route("xml", "{{r._attr.k1}} {{r._attr.k99999}}"),
        route("elements", "{{#r.a}} {{r.a[40000]}}"),
        route("form", "{{k1}} {{k59999}}"),
        route("multipart", "{{k1}} {{k49999}}"),
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let joined = |count: u32, each: &dyn Fn(u32) -> String| (0..count).map(each).collect::<String>();
    let part = |at| format!("--b\r\nContent-Disposition: form-data; name=\"k{at}\"\r\n\r\n{at}\r\n");
    for (path, content_type, body, expected) in [
        (
            "/members",
            "application/json",
            format!("{{{}\"\":0}}", joined(100_000, &|at| format!("\"k{at}\":{at},"))),
            "1 99999",
        ),
        ("/list", "application/json", format!("{{\"b\":[{}1]}}", "1,".repeat(119_999)), "1 120000"),
        ("/xml", "text/xml", format!("<r{}/>", joined(100_000, &|at| format!(" k{at}='{at}'"))), "1 99999"),
        (
            "/elements",
            "text/xml",
            format!("<r>{}</r>", joined(40_000, &|at| format!("<a>{at}</a>"))),
            "40000 39999",
        ),
        (
            "/form",
            "application/x-www-form-urlencoded",
            joined(60_000, &|at| format!("k{at}={at}&")),
            "1 59999",
        ),
        ("/multipart", "multipart/form-data; boundary=b", joined(50_000, &part) + "--b--", "1 49999"),
    ] {
        let mut client = gateway.client();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.send(head.as_bytes()).expect("sends the head");
        client.send(body.as_bytes()).expect("sends the body");
        let answer = client.response().expect("an answer");
        let text = answer.body_text();
        assert!(answer.status() == 200 && text.ends_with(&format!("\n{expected}")), "{path}: {text:.500}");
    }
    assert_done_in_pieces(&gateway);
}

/// What is held counts in the budget of all bodies, by its client.
#[test]
fn held_answers_have_a_budget() {
    let upstream = upstream();
    let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  body_memory: {total: 32m}\n", 1);
    let gateway = gateway(&upstream, &config);
    let answer = ask(&gateway, "/budget");
    assert_eq!(answer.status(), 503);
    assert!(!answer.body_text().contains("secret"));
    gateway.wait_for_log("the memory for bodies (apisix.body_memory.total, 33554432 bytes)");
    assert_eq!(ask(&gateway, "/fine").body_text(), "- and -");
    // What there is no room for is not cached.
    for expected in ["MISS", "MISS"] {
        let answer = ask(&gateway, "/cached");
        assert_eq!((answer.status(), answer.header("Apisix-Cache-Status")), (200, Some(expected)));
    }
    let gateway = self::gateway(&upstream, YAML_PROVIDER);
    for expected in ["MISS", "HIT"] {
        assert_eq!(ask(&gateway, "/cached").header("Apisix-Cache-Status"), Some(expected));
    }
}
