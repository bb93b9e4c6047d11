//! Trailers toward gRPC: what belongs in a head, and what a schema has judged there, does not pass behind the body.

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

use super::{Attack, SPOOFED, recorder::Recorder, send_http1, send_http2};

/// RFC 9110 section 6.5.1, and what servers take for such.
const ELSEWHERE: [&str; 21] = [
    "Max-Forwards",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "If-Range",
    "If",
    "Proxy",
    "Proxy-Authorization",
    "CDN-Loop",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
    "X_HTTP_Method_Override",
    "X-Original-URL",
    "X-Rewrite-URL",
    "Grpc-Timeout",
    "Content-Encoding",
    "Content_Type",
    "Content-Range",
    "Pragma",
];

fn trailers(names: &[&str]) -> Attack {
    Attack { fields: Vec::new(), trailers: names.iter().map(|name| (*name).to_owned()).collect() }
}

/// The names of what the upstream gets of such trailers, over both protocols.
fn passed(gateway: &Gateway, grpc: &Recorder, path: &str, names: &[&str]) -> Vec<String> {
    let attack = trailers(names);
    send_http1(&mut gateway.client(), path, &attack);
    send_http2(gateway.http, path, &attack);
    let calls = grpc.take();
    assert_eq!(calls.len(), 2, "{path} {names:?}");
    let fields = calls.into_iter().flat_map(|(_, fields)| fields);
    let mut found: Vec<String> = fields.filter(|(_, value)| value == SPOOFED).map(|(name, _)| name).collect();
    found.sort();
    found.dedup();
    found
}

#[test]
fn what_belongs_into_a_head_does_not_follow_the_body() {
    let grpc = Recorder::start();
    let address = grpc.address;
    let routes =
        format!("routes:\n- {{id: 1, uri: /*, upstream: {{scheme: grpc, nodes: {{\"{address}\": 1}}}}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for name in ELSEWHERE {
        assert_eq!(passed(&gateway, &grpc, "/a", &[name, "X-Sum"]), ["x-sum"], "{name}");
    }
    assert_eq!(
        passed(&gateway, &grpc, "/a", &["Proxy-Status", "X-If-Match"]),
        ["proxy-status", "x-if-match"]
    );
}

#[test]
fn what_a_schema_judges_in_a_head_does_not_follow_the_body() {
    let grpc = Recorder::start();
    let address = grpc.address;
    let named = "{type: object, properties: {x-need: {enum: [a]}}, anyOf: [{properties: {X_Other: {type: string}}}, {}]}";
    let closed = "{type: object, patternProperties: {\"^x-\": {enum: [a]}}}";
    let mut routes = "routes:\n".to_owned();
    for (id, schema) in [("named", named), ("closed", closed)] {
        routes += &format!(
            "- {{id: {id}, uri: /{id}, plugins: {{request-validation: {{header_schema: {schema}}}}}, \
             upstream: {{scheme: grpc, nodes: {{\"{address}\": 1}}}}}}\n"
        );
    }
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let names = ["X-Need", "x_need", "X-Other", "X-Sum"];
    assert_eq!(passed(&gateway, &grpc, "/named", &names), ["x-sum"]);
    assert!(passed(&gateway, &grpc, "/closed", &names).is_empty());
}
