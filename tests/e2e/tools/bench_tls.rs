//! `tidegate bench` speaks gRPC, server-sent events and WebSocket over TLS as well.

use serde_json::json;
use tidegate_testkit::{Gateway, free_port, gateway::YAML_PROVIDER};

use super::bench::{bench, outcome};
use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::grpc_peer::Server;
use crate::{tools::bench_events, tools::bench_websocket};

#[test]
fn all_of_them_over_tls() {
    let (calls, events, echo) = (Server::start(), bench_events::server(), bench_websocket::server());
    let port = free_port();
    let pair = self_signed("a.test");
    let node = |scheme: &str, address| {
        format!("upstream: {{scheme: {scheme}, type: roundrobin, nodes: {{\"{address}\": 1}}}}")
    };
    let routes = format!(
        "routes:\n- {{id: 1, uri: /e.Echo/*, {}}}\n- {{id: 2, uri: /quiet, {}}}\n\
         - {{id: 3, uri: /echo, enable_websocket: true, {}}}\nssls:\n- {{id: 1, sni: a.test, cert: {}, key: {}}}\n",
        node("grpc", calls.address),
        node("http", events.address),
        node("http", echo),
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let ssl = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {port}}}]}}");
    let _gateway = Gateway::start(&YAML_PROVIDER.replace("ssl: {enable: false}", &ssl), Some(&routes));
    let resolve = format!("a.test:{port}:127.0.0.1");
    let run = |path: &str, words: &[&str]| {
        let url = format!("https://a.test:{port}{path}");
        let common = [url.as_str(), "-k", "--resolve", &resolve, "-c", "2"];
        let found = outcome(&[&common, words].concat());
        assert_eq!(found["failures"], json!([]), "{path}: {}", found["messages"]);
        assert_eq!(found["tls_handshake"]["count"], 2, "{path}");
        found
    };
    assert_eq!(run("/e.Echo/Ten", &["--grpc", "-n", "20"])["grpc"]["messages"], 200);
    assert_eq!(run("/quiet", &["--sse", "-d", "600ms"])["events"]["count"], 6);
    assert_eq!(run("/echo", &["--websocket", "-n", "20"])["requests"], 20);
    // The engines of these have no TLS over a socket of the machine.
    for flag in ["--grpc", "--sse", "--websocket"] {
        let run = bench(&["https://a.test/e.Echo/Ten", flag, "-k", "--unix", "/tmp/none", "-d", "1s"]);
        assert_eq!((run.code, run.err.contains("are without TLS")), (Some(2), true), "{flag}: {}", run.err);
    }
}
