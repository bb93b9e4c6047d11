//! `tidegate bench --grpc`: what it sends, and what it makes of codes, streams and answers that are not gRPC.

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, Upstream, free_port, gateway::YAML_PROVIDER};

use super::bench::{bench, outcome, url};
use crate::protocols::grpc_peer::Server;

fn called(server: &Server, method: &str) -> String {
    format!("http://{}/e.Echo/{method}", server.address)
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("message");
    std::fs::write(&file, bytes).expect("written");
    let name = format!("@{}", file.display());
    (folder, name)
}

#[test]
fn unary_calls_carry_bytes_as_they_are() {
    let server = Server::start();
    // No UTF-8, and what would be a placeholder elsewhere.
    let (_folder, body) = file(b"\x0a\x80\xff{{seq}}");
    let words = ["--grpc", "--body", &body, "-n", "40", "-c", "2", "-t", "1", "--pipeline", "2"];
    let url = called(&server, "Unary");
    let found = outcome(&[&[url.as_str()][..], &words].concat());
    assert_eq!((&found["requests"], &found["failures"]), (&json!(40), &json!([])), "{}", found["messages"]);
    assert_eq!(found["grpc"]["statuses"], json!([{"code": 0, "name": "OK", "calls": 40}]));
    // The server sends back what it got: 10 bytes and the 5 before them.
    assert_eq!((&found["grpc"]["messages"], &found["body_bytes"]), (&json!(40), &json!(40 * 15)));
    assert_eq!((server.calls(), found["protocol"].as_str()), (40, Some("gRPC over HTTP/2")));
    let run = bench(&[&[url.as_str()][..], &words].concat());
    assert_eq!(run.code, Some(0), "{} {}", run.out, run.err);
    let has = |line: &str| run.out.lines().any(|one| one.starts_with(line));
    assert!(has("  gRPC        0 OK: 40") && has("  messages    40 ("), "{}", run.out);
    let found = outcome(&[&url, "--grpc", "-R", "200", "-n", "20", "-c", "2"]);
    assert_eq!(
        (&found["corrected"]["count"], &found["body_bytes"]),
        (&json!(20), &json!(100)),
        "{}",
        found["messages"]
    );
}

#[test]
fn messages_of_a_stream_are_counted() {
    let server = Server::start();
    let found = outcome(&[&called(&server, "Ten"), "--grpc", "-n", "30", "-c", "3"]);
    assert_eq!(
        (&found["requests"], &found["grpc"]["messages"]),
        (&json!(30), &json!(300)),
        "{}",
        found["messages"]
    );
    let run = bench(&[&called(&server, "Ten"), "--grpc", "-n", "30", "-c", "3"]);
    assert!(run.out.contains("/s), 10 a call\n"), "{}", run.out);
    // Streams that are not over when the run is have messages all the same.
    let run = bench(&[&called(&server, "Watch"), "--grpc", "-d", "300ms", "-c", "2"]);
    assert_eq!(run.code, Some(0), "{} {}", run.out, run.err);
    assert!(run.out.contains("  messages    2 ("), "{}", run.out);
}

#[test]
fn calls_fail_by_their_code() {
    let server = Server::start();
    let found = outcome(&[&called(&server, "FailSome"), "--grpc", "-n", "40", "-c", "1"]);
    assert_eq!((&found["requests"], &found["latency"]["count"]), (&json!(30), &json!(30)));
    assert_eq!(found["failures"], json!([["grpc-status 5 NOT_FOUND", 10]]));
    assert_eq!(found["messages"], json!([["grpc-status 5 NOT_FOUND: not here", 10]]));
    let ok = json!({"code": 0, "name": "OK", "calls": 30});
    assert_eq!(found["grpc"]["statuses"], json!([ok, {"code": 5, "name": "NOT_FOUND", "calls": 10}]));
    let run = bench(&[&called(&server, "FailSome"), "--grpc", "-n", "40", "-c", "1"]);
    assert_eq!(run.code, Some(3), "{}", run.err);
    assert!(run.out.contains("0 OK: 30, 5 NOT_FOUND: 10\n"), "{}", run.out);
    assert!(run.out.contains("10 x grpc-status 5 NOT_FOUND: not here\n"), "{}", run.out);
    let words = ["--grpc", "-n", "40", "-c", "1", "--fail-if", "errors>=25%"];
    assert_eq!(bench(&[&[called(&server, "FailSome").as_str()][..], &words].concat()).code, Some(4));
    let run = bench(&[&called(&server, "Fail"), "--grpc", "-n", "4", "-c", "1"]);
    assert_eq!(run.code, Some(1), "{}", run.out);
    assert!(run.err.contains("grpc-status 9 FAILED_PRECONDITION: as asked"), "{}", run.err);
    let found = outcome(&[&called(&server, "Cut"), "--grpc", "-n", "4", "-c", "1"]);
    assert_eq!(found["failures"], json!([["malformed", 4]]), "{}", found["messages"]);
    assert_eq!(found["messages"], json!([["grpc: the stream ended within a message", 4]]));
}

/// Through the gateway, and what the gateway answers of its own.
#[test]
fn answers_without_a_code_are_failures() {
    let server = Server::start();
    let upstream =
        format!("upstream: {{scheme: grpc, type: roundrobin, nodes: {{\"{}\": 1}}}}", server.address);
    let routes = format!("routes:\n- {{id: all, uri: /e.Echo/*, {upstream}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let at = |path: &str| format!("http://{}{path}", gateway.http);
    let found = outcome(&[&at("/e.Echo/Ten"), "--grpc", "-n", "20", "-c", "2"]);
    assert_eq!(
        (&found["requests"], &found["grpc"]["messages"]),
        (&json!(20), &json!(200)),
        "{}",
        found["messages"]
    );
    let found = outcome(&[&at("/e.Other/Ten"), "--grpc", "-n", "20", "-c", "2"]);
    let failures: &Value = &found["failures"];
    assert_eq!(failures, &json!([["grpc-status 12 UNIMPLEMENTED", 20]]), "{}", found["messages"]);
}

#[test]
fn what_is_no_call_is_refused_before_the_run() {
    let upstream = Upstream::start();
    let check = |words: &[&str], reason: &str| {
        let run = bench(words);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{words:?}: {}", run.err);
        assert!(run.err.contains(reason), "{words:?}: {}", run.err);
    };
    let call = url(&upstream, "/e.Echo/Unary");
    for path in ["/", "/e.Echo", "/e.Echo/a/b", "/e.Echo/a?b=1"] {
        check(&[&url(&upstream, path), "--grpc", "-n", "1"], "is not a gRPC method; give a URL");
    }
    check(&[&call, "--grpc", "-m", "GET"], "cannot be used with");
    check(&[&call, "--grpc", "--http1.0"], "cannot be used with");
    check(&[&call, "--grpc", "--accept-status", "404"], "cannot be used with");
    check(&[&call, "--grpc", "--body", "@/no/such/file"], "/no/such/file: No such file");
    let (_folder, list) = file(b"GET /e.Echo/Unary\n");
    check(&[&call, "--grpc", "--urls-from", list.trim_start_matches('@')], "a call of gRPC is a POST");
    assert_eq!(upstream.connections(), 0);
    let closed = format!("http://127.0.0.1:{}/e.Echo/Unary", free_port());
    assert_eq!(bench(&[&closed, "--grpc", "-n", "1"]).code, Some(1));
}
