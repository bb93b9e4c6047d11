//! `apisix.normalize_uri_like_servlet` beside a real servlet container: `tests/servlet/tomcat10.tsv` holds the path that
//! Tomcat 10 gave a servlet for each spelling.

use std::fs;

use serde_json::json;
use tidegate_testkit::gateway::{YAML_PROVIDER, workspace_root};
use tidegate_testkit::{Gateway, Upstream};

/// Refused though Tomcat resolves them: APISIX refuses them too, because containers and proxies read them differently.
const REFUSED: &[&str] = &[
    "/;/admin/x",
    "/;a=1/admin/x",
    "/admin/;/x",
    "/admin/;a=1//x",
    "//;/admin/x",
    "/admin;a=1/;b=2/x",
    "/.;/admin/x",
    "/.;a=1/admin/x",
    "/%2e;/admin/x",
    "/%2E;a=1/admin/x",
    "/public/..;/admin/x",
    "/public/..;a=1/admin/x",
    "/public/;/../admin/x",
    "/public/.;a/../admin/x",
    "/public/%2e%2e;/admin/x",
    "/public/.%2e;/admin/x",
    "/public/%2E.;a/admin/x",
    "/public/..%3b/admin/x",
    "/public/..%3B/admin/x",
    "/public/%2e%2e%3b/admin/x",
    "/public/%252e%252e;/admin/x",
    "/%3b/admin/x",
    "/admin/x/.;",
    "/admin/x/..;",
    "/admin/..;",
];

/// Forwarded as they came though Tomcat refuses them unless it is told otherwise; `%2F` is a slash here, as in APISIX.
const FORWARDED: &[(&str, &str)] = &[
    ("/public/..%2fadmin/x", "/admin/x"),
    ("/public%2f..%2fadmin/x", "/admin/x"),
    ("/admin%2Fx", "/admin/x"),
    ("/%c0%ae%c0%ae/admin/x", "/\u{fffd}\u{fffd}\u{fffd}\u{fffd}/admin/x"),
];

/// Status and path that the gateway must come to.
fn expected(spelling: &str, status: &str, path: &str) -> (u16, String) {
    if REFUSED.contains(&spelling) {
        assert_eq!(status, "200", "{spelling} stands among the exceptions, and is none");
        return (400, String::new());
    }
    if let Some((_, path)) = FORWARDED.iter().find(|(forwarded, _)| *forwarded == spelling) {
        assert_eq!(status, "400", "{spelling} stands among the exceptions, and is none");
        return (200, (*path).to_owned());
    }
    match status {
        "200" => (200, path.to_owned()),
        _ => (400, String::new()),
    }
}

fn gateway(route: serde_json::Value) -> Gateway {
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  normalize_uri_like_servlet: true\n");
    Gateway::start(&config, Some(&json!({ "routes": [route] }).to_string()))
}

#[test]
fn paths_are_those_that_tomcat_serves() {
    let recorded = workspace_root().join("tests/servlet/tomcat10.tsv");
    let recorded = fs::read_to_string(recorded).expect("the recording");
    let show_path = json!({"abort": {"http_status": 200, "body": "$uri"}});
    let gateway = gateway(json!({"id": 1, "uri": "/*", "plugins": {"fault-injection": show_path}}));
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in recorded.lines().filter(|line| !line.starts_with('#')) {
        let [spelling, status, path] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("not a row of the recording: {line:?}");
        };
        rows += 1;
        let answer = gateway.client().get("h", spelling).expect("an answer");
        let body = if answer.status() == 200 { answer.body_text() } else { String::new() };
        let (status, path) = expected(spelling, status, path);
        if (answer.status(), body.as_str()) != (status, path.as_str()) {
            wrong.push(format!("{spelling}: {} {body:?}, not {status} {path:?}", answer.status()));
        }
    }
    assert!(rows >= 40, "{rows} rows");
    assert!(wrong.is_empty(), "{} of {rows}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Parameters are the servlet's: it gets the path as the client wrote it.
#[test]
fn servlets_get_the_path_as_it_came() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let gateway = gateway(json!({"id": 1, "uri": "/admin/x", "upstream": node}));
    for target in ["/admin;a=1/x;b", "/admin/x/.", "/public/%2e%2e/admin/x"] {
        let answer = gateway.client().get("h", target).expect("an answer");
        assert_eq!(answer.status(), 200, "{target}");
        let seen = upstream.take();
        assert_eq!(seen.first().map(|seen| seen.message.target().to_owned()).as_deref(), Some(target));
    }
}
