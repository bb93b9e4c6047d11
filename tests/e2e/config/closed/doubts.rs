//! Requests of which nobody can say what they are: a guard that asks about them lets none of them through.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

use super::{OPEN, put};

const JSON: &str = "Content-Type: application/json\r\n";

/// One route at `/<name>` for each plugin list.
fn gateway(upstream: &Upstream, routes: &[(&str, Value)]) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes = routes.iter().map(
        |(name, plugins)| json!({"id": name, "uri": format!("/{name}"), "plugins": plugins, "upstream": target}),
    );
    let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  max_post_args_readable_size: 1\n", 1);
    Gateway::start(&config, Some(&json!({"routes": routes.collect::<Vec<_>>()}).to_string()))
}

fn send(gateway: &Gateway, method: &str, target: &str, fields: &str, body: &[u8]) -> u16 {
    let mut client = gateway.client();
    let head =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    // A refusal may come before the whole body is read.
    let _ = client.send(head.as_bytes()).and_then(|()| client.send(body));
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {target}: {error}")).status()
}

/// The plugins that refuse where a condition holds.
fn conditional(condition: &Value) -> Vec<(&'static str, Value)> {
    vec![
        (
            "workflow",
            json!({"workflow": {"rules": [{"case": condition, "actions": [["return", {"code": 403}]]}]}}),
        ),
        ("filter", json!({"key-auth": {"_meta": {"filter": condition}}})),
        ("fault", json!({"fault-injection": {"abort": {"http_status": 403, "vars": [condition]}}})),
        (
            "split",
            json!({"traffic-split": {"rules": [{"match": [{"vars": condition}],
            "weighted_upstreams": [{"upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}]}]}}),
        ),
    ]
}

#[test]
fn bodies_that_cannot_be_read_pass_no_condition() {
    let upstream = Upstream::start();
    let routes = conditional(&json!([["post_arg.role", "==", "admin"]]));
    let gateway = gateway(&upstream, &routes);
    let long = format!("{{\"x\":\"{}\",\"role\":\"admin\"}}", "y".repeat(1 << 20));
    for (name, _) in &routes {
        let status = |fields: &str, body: &[u8]| send(&gateway, "POST", &format!("/{name}"), fields, body);
        assert!(matches!(status(JSON, br#"{"role":"admin"}"#), 401 | 403 | 502), "{name}");
        assert_eq!(status(JSON, br#"{"role":"user"}"#), 200, "{name}");
        let unreadable: [&[u8]; 7] = [
            br#"{"role":"admin"}x"#,
            br#"{"role":"admin","n":NaN}"#,
            b"\xef\xbb\xbf{\"role\":\"admin\"}",
            b"{\"n\":\"\xff\",\"role\":\"admin\"}",
            br#"/**/{"role":"admin"}"#,
            br#"{'role':'admin'}"#,
            b"\x1f\x8b\x08\x00",
        ];
        for body in unreadable {
            assert_eq!(status(JSON, body), 400, "{name}: {}", String::from_utf8_lossy(body));
        }
        let two = format!("Content-Type: text/plain\r\n{JSON}");
        assert_eq!(status(&two, br#"{"role":"admin"}"#), 400, "{name}: two media types");
        assert_eq!(status(JSON, long.as_bytes()), 413, "{name}");
    }
    assert!(upstream.seen().iter().all(|seen| !seen.text().contains("admin")), "{:?}", upstream.seen().len());
}

#[test]
fn whole_bodies_are_read_or_refused() {
    let upstream = Upstream::start();
    let routes = conditional(&json!([["request_body", "~~", "admin"]]));
    let gateway = gateway(&upstream, &routes);
    let (short, long) =
        ("role=admin".to_owned() + &"x".repeat(100_000), "role=admin".to_owned() + &"x".repeat(1 << 20));
    for (name, _) in &routes {
        let status = |body: &str| send(&gateway, "POST", &format!("/{name}"), "", body.as_bytes());
        assert!(matches!(status(&short), 401 | 403 | 502), "{name}");
        assert_eq!((status("role=user"), status(&long)), (200, 413), "{name}");
    }
}

#[test]
fn the_operation_that_runs_is_judged() {
    let upstream = Upstream::start();
    let kind = conditional(&json!([["graphql_operation", "==", "mutation"]]));
    let fields = conditional(&json!([["graphql_root_fields", "has", "drop"]]));
    for routes in [&kind[..2], &fields[..2]] {
        let gateway = gateway(&upstream, routes);
        for (name, _) in routes {
            let post = |target: &str, body: &Value| {
                send(&gateway, "POST", target, JSON, body.to_string().as_bytes())
            };
            let path = format!("/{name}");
            let two = "query q { a } mutation m { drop }";
            let spread = "mutation { ...F } fragment F on T { ... on U { drop } }";
            for (body, expected) in [
                (json!({"query": "mutation { drop }"}), 0),
                (json!({"query": two, "operationName": "m"}), 0),
                (json!({ "query": spread }), 0),
                (json!({"query": two, "operationName": "q"}), 200),
                (json!({"query": "query q { a }"}), 200),
                (json!({ "query": two }), 400),
                (json!([{"query": "mutation { drop }"}]), 400),
                (json!({"query": "mutation { drop"}), 400),
                (json!({"query": ["mutation { drop }"]}), 400),
            ] {
                let status = post(&path, &body);
                let is_right = if expected == 0 { matches!(status, 401 | 403) } else { status == expected };
                assert!(is_right, "{name}: {body}: {status}");
            }
            let target = format!("{path}?query=mutation%7Bdrop%7D");
            assert_eq!(post(&target, &json!({"query": "{a}"})), 400, "{name}: two queries");
            assert_eq!(send(&gateway, "POST", &target, "", b""), 400, "{name}: in the target of POST");
            let status = send(&gateway, "GET", &target, "", b"");
            assert!(matches!(status, 401 | 403), "{name}: in the target of GET: {status}");
        }
    }
}

/// Only a service that is away is passed over, not one that cannot be asked because of what the client sent.
#[test]
fn a_client_cannot_make_an_authorisation_service_unreachable() {
    let (service, upstream) = (Upstream::service(|_| (403, "no".to_owned())), Upstream::start());
    let conf = |value: &str| {
        json!({"forward-auth": {"uri": format!("http://{}/", service.address), "allow_degradation": true,
                                "request_headers": ["X-Any"], "extra_headers": {"X-C": value}}})
    };
    let gateway = gateway(
        &upstream,
        &[("arg", conf("$arg_c")), ("uri", conf("$uri")), ("body", conf("$request_body"))],
    );
    for target in ["/arg", "/arg?c=a", "/uri", "/body"] {
        assert_eq!(send(&gateway, "GET", target, "", b""), 403, "{target}");
    }
    for target in ["/arg?c=%0a", "/arg?c=%0d%0aX:y", "/arg?c=%00", "/arg?c=%7f"] {
        assert_eq!(send(&gateway, "GET", target, "", b""), 403, "{target}");
    }
    assert_eq!(send(&gateway, "POST", "/body", "", b"a\nb"), 403);
    assert!(service.seen().iter().all(|seen| !seen.text().contains("X:y")));
}

#[test]
fn a_credential_that_is_switched_off_identifies_nobody() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/1", &format!(r#"{{"uri":"/*","plugins":{{"key-auth":{{}},{OPEN}}}}}"#));
    put(
        &gateway,
        "consumers/a",
        r#"{"username":"a","plugins":{"key-auth":{"key":"ka","_meta":{"disable":true}}}}"#,
    );
    put(
        &gateway,
        "consumers/a/credentials/c",
        r#"{"plugins":{"key-auth":{"key":"kc","_meta":{"disable":true}}}}"#,
    );
    put(
        &gateway,
        "consumers/b",
        r#"{"username":"b","plugins":{"key-auth":{"key":"kb","_meta":{"disable":false}}}}"#,
    );
    for (key, expected) in [("ka", 401), ("kc", 401), ("kb", 200)] {
        assert_eq!(send(&gateway, "GET", "/", &format!("apikey: {key}\r\n"), b""), expected, "{key}");
    }
}

#[test]
fn each_of_several_fields_has_to_pass() {
    let upstream = Upstream::start();
    let gateway = gateway(
        &upstream,
        &[
            ("referer", json!({"referer-restriction": {"whitelist": ["*.ok.example", "ok.example"]}})),
            ("agent", json!({"ua-restriction": {"allowlist": ["^good$"]}})),
        ],
    );
    for (path, fields, expected) in [
        ("/referer", "Referer: https://a.ok.example/x\r\n", 200),
        ("/referer", "Referer: http://OK.example:80\r\n", 200),
        ("/referer", "Referer: http://evil.com#.ok.example\r\n", 403),
        ("/referer", "Referer: http://evil.com\\.ok.example\r\n", 403),
        ("/referer", "Referer: http://evil.com%2f.ok.example\r\n", 403),
        ("/referer", "Referer: http://ok.example:1@evil/\r\n", 403),
        ("/referer", "Referer: http://ok.example/\r\nReferer: http://evil/\r\n", 403),
        ("/agent", "User-Agent: good\r\n", 200),
        ("/agent", "User-Agent: good\r\nUser-Agent: bad\r\n", 403),
        ("/agent", "User-Agent: bad\r\nUser-Agent: good\r\n", 403),
    ] {
        assert_eq!(send(&gateway, "GET", path, fields, b""), expected, "{path} {fields}");
    }
}

/// A member that is there twice says nothing that everybody would understand in the same way.
#[test]
fn a_decision_that_is_given_twice_is_none() {
    let service = Upstream::service(|request| {
        let body = match request.target() {
            "/v1/data/good" => r#"{"result":{"allow":true}}"#,
            _ => r#"{"result":{"allow":false,"allow":true}}"#,
        };
        (200, body.to_owned())
    });
    let upstream = Upstream::start();
    let conf =
        |policy: &str| json!({"opa": {"host": format!("http://{}", service.address), "policy": policy}});
    let gateway = gateway(&upstream, &[("good", conf("good")), ("twice", conf("twice"))]);
    assert_eq!(send(&gateway, "GET", "/good", "", b""), 200);
    assert_eq!(send(&gateway, "GET", "/twice", "", b""), 503);
}

/// What a function makes of a request stays in the line it is for: another request could begin behind it.
#[test]
fn no_function_splits_a_request() {
    let upstream = Upstream::start();
    let lua = |code: &str| {
        let function = format!("return function() local p = ngx.req.get_uri_args().p {code} end");
        json!({"serverless-pre-function": {"phase": "rewrite", "functions": [function]}})
    };
    let routes = [
        ("uri", lua("ngx.var.upstream_uri = '/u/' .. p")),
        ("host", lua("ngx.var.upstream_host = p")),
        ("method", lua("ngx.req.set_method(p)")),
    ];
    let gateway = gateway(&upstream, &routes);
    for (name, _) in &routes {
        assert_eq!(send(&gateway, "GET", &format!("/{name}?p=GET"), "", b""), 200, "{name}");
        for text in
            ["x%0d%0aInjected:%20b", "x%0aInjected:b", "x%20HTTP/1.1%0d%0aInjected:b", "x%00", "x%09y"]
        {
            let status = send(&gateway, "GET", &format!("/{name}?p={text}"), "", b"");
            assert!(matches!(status, 400 | 500), "{name} {text}: {status}");
        }
    }
    assert!(upstream.seen().iter().all(|seen| !seen.text().contains("Injected")));
    assert_eq!(upstream.seen().len(), routes.len());
}
