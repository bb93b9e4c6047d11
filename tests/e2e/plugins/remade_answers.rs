//! exit-transformer remakes what the gateway itself answers, and nothing that an upstream answers.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

const ENABLED: &str =
    "plugins: [exit-transformer, key-auth, limit-count, response-rewrite, fault-injection]\n";

fn functions(bodies: &[&str]) -> Value {
    let function = |body: &&str| {
        format!("return (function(code, body, header) do {body} end return code, body, header end)(...)")
    };
    json!({"functions": bodies.iter().map(function).collect::<Vec<_>>()})
}

fn gateway(upstream: &Upstream, global: &Value, routes: &[(&str, Value)]) -> Gateway {
    let node = |address: String| json!({"type": "roundrobin", "nodes": {address: 1}});
    let route = |(path, plugins): &(&str, Value)| {
        let address = if *path == "away" { "127.0.0.1:1".to_owned() } else { upstream.address.to_string() };
        json!({"id": path, "uris": [format!("/{path}"), format!("/{path}/*")], "plugins": plugins, "upstream": node(address)})
    };
    let objects = json!({
        "routes": routes.iter().map(route).collect::<Vec<_>>(),
        "global_rules": [{"id": "1", "plugins": {"exit-transformer": global}}],
    });
    Gateway::start(&format!("{YAML_PROVIDER}{ENABLED}"), Some(&objects.to_string()))
}

#[test]
fn who_refuses_does_not_matter() {
    let upstream = Upstream::service(|_| (404, "of the upstream".to_owned()));
    let global = functions(&[
        "if code == 404 then return 405 end",
        "if code == 503 then header['X-Was'] = {code, 'more'} return 429, 'slow down', header end",
        "if code == 401 then body.hint = core.request.header(ctx, 'X-Kind') return 402, body, {['Content-Type'] = 'application/json'} end",
        "if code == 502 then return 504, nil, {['WWW-Authenticate'] = ''} end",
    ]);
    let global = json!({"functions": global["functions"].as_array().expect("functions").iter().map(|function| {
        format!("local core = require('apisix.core') {}", function.as_str().expect("a text"))
    }).collect::<Vec<_>>()});
    let rewrite = json!({"response-rewrite": {"headers": {"set": {"X-Late": "$status"}}}, "key-auth": {}});
    let gateway = gateway(
        &upstream,
        &global,
        &[
            ("key", rewrite),
            ("limited", json!({"limit-count": {"count": 1, "time_window": 60, "rejected_code": 503}})),
            ("away", json!({})),
            ("here", json!({})),
        ],
    );
    let get = |target: &str| {
        let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-Kind: k\r\n\r\n");
        gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
    };
    let nothing = get("/nothing");
    assert_eq!((nothing.status(), nothing.header("Content-Type")), (405, Some("text/html; charset=utf-8")));
    let refused = get("/key");
    let body: Value = serde_json::from_str(&refused.body_text()).expect("JSON");
    assert_eq!((refused.status(), refused.header("Content-Type")), (402, Some("application/json")));
    assert_eq!(body, json!({"message": "Missing API key in request", "hint": "k"}));
    assert!(refused.header("X-Late").is_some(), "filters of the chain follow");
    assert_eq!((get("/limited").status(), get("/here").body_text().as_str()), (404, "of the upstream"));
    let limited = get("/limited");
    assert_eq!((limited.status(), limited.body_text().as_str()), (429, "slow down"));
    assert_eq!((limited.count("X-Was"), limited.header("X-RateLimit-Limit")), (2, Some("1")));
    assert_eq!(get("/away").status(), 504);
}

#[test]
fn a_function_that_fails_changes_nothing() {
    let upstream = Upstream::start();
    let global = functions(&["return code()", "if code == 404 then return 410 end", "return 'no status'"]);
    let gateway = gateway(
        &upstream,
        &global,
        &[("aborted", json!({"fault-injection": {"abort": {"http_status": 418, "body": "tea"}}}))],
    );
    let answer = gateway.client().get("h", "/aborted").expect("an answer");
    assert_eq!((answer.status(), answer.body_text().as_str()), (418, "tea"));
    gateway.wait_for_log("attempt to call local 'code' (a number value)");
    gateway.wait_for_log("the status that was returned is not a number");
}

#[test]
fn global_rules_come_first() {
    let upstream = Upstream::start();
    let global = functions(&["body = 'global'"]);
    let plugins = json!({"key-auth": {}, "exit-transformer": functions(&["body = body .. ' route'"])});
    let gateway = gateway(&upstream, &global, &[("key", plugins)]);
    assert_eq!(gateway.client().get("h", "/key").expect("an answer").body_text(), "global route");
}
