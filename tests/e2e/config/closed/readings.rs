//! Requests that can be read in two ways: none of the readings may open what the other one guards.

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

use super::{ask, status};

const OPEN: &str = "mocking: {response_example: open}";
const GUARD: &str = "key-auth: {}, mocking: {response_example: secret}";

/// A gateway with these routes, as `(uri, more, is guarded)`, and `more` below `apisix`.
fn gateway(more: &str, routes: &[(&str, &str, bool)]) -> Gateway {
    let config = YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n  {more}\n"), 1);
    let mut text = "routes:\n".to_owned();
    for (uri, more, guarded) in routes {
        let plugins = if *guarded { GUARD } else { OPEN };
        text += &format!("- {{uri: \"{uri}\", {more}plugins: {{{plugins}}}}}\n");
    }
    Gateway::start(&config, Some(&text))
}

fn check(gateway: &Gateway, expected: &[(&str, u16)]) {
    for (target, expected) in expected {
        assert_eq!(status(gateway, target), *expected, "{target}\n{}", gateway.error_log());
    }
}

#[test]
fn a_slash_at_the_end_goes_upstream_and_counts_for_what_is_below() {
    let routes = [
        ("/site/admin/*", "", true),
        ("/site/exact", "", true),
        ("/site/*", "", false),
        ("/open", "", false),
    ];
    let gateway = gateway("delete_uri_tail_slash: true", &routes);
    check(
        &gateway,
        &[
            ("/site/admin/", 401),
            ("/site/admin//", 401),
            ("/site/admin/.", 401),
            ("/site/admin/x/..", 401),
            ("/site/admin/x/", 401),
            ("/site/exact/", 401),
            ("/site/exact//", 401),
            ("/site/", 200),
            ("/site/other/", 200),
            ("/open/", 200),
            ("/open", 200),
        ],
    );
    let (_, explained) = gateway.verb_with(&["explain", "GET", "/site/admin/"]);
    assert!(explained.contains("key-auth"), "{explained}");
}

#[test]
fn an_encoded_slash_opens_no_route_with_parameters() {
    let routes = [("/user/:id/secret", "", true), ("/user/*", "", false)];
    let gateway = gateway("router: {http: radixtree_uri_with_parameter}", &routes);
    check(
        &gateway,
        &[
            ("/user/1/secret", 401),
            ("/user/1%2Fsecret", 401),
            ("/user%2f1/secret", 401),
            ("/user/1%2f2/secret", 400),
            ("/user/x/../1%2F2/secret", 400),
            ("/user/1%2f2/other", 200),
            ("/user/1%2f2%2fsecret", 200),
        ],
    );
}

#[test]
fn uri_blocker_knows_encoded_slashes() {
    let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  match_uri_encoded_slash: true\n", 1);
    let blocker = "uri-blocker: {block_rules: [secret/x]}";
    let routes = format!("routes:\n- {{uri: /*, plugins: {{{blocker}, {OPEN}}}}}\n");
    let gateway = Gateway::start(&config, Some(&routes));
    check(
        &gateway,
        &[
            ("/secret/x", 403),
            ("/secret%2fx", 403),
            ("/s%65cret%2Fx", 403),
            ("/secret%2f%2fx", 403),
            ("/other%2fx", 200),
            ("/y?a=secret%2fx", 403),
        ],
    );
}

fn post(gateway: &Gateway, content_type: &str, body: &str) -> u16 {
    let length = body.len();
    let request = format!(
        "POST /b HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    gateway.client().request(&request).expect("an answer").status()
}

/// Express, say, inflates a form before it reads it.
#[test]
fn a_coded_body_is_not_judged_by_its_codes() {
    let schema = "body_schema: {properties: {role: {enum: [user]}}}";
    let rules = |case: &str| {
        format!("workflow: {{rules: [{{case: [[{case}, admin]], actions: [[return, {{code: 403}}]]}}]}}")
    };
    let (upstream, mut text) = (Upstream::start(), "routes:\n".to_owned());
    for (uri, plugin) in [
        ("/schema", format!("request-validation: {{{schema}}}")),
        ("/rule", rules("post_arg_role, '=='")),
        ("/path", rules("post_arg.role, '=='")),
        ("/whole", rules("request_body, '~~'")),
    ] {
        let nodes = format!("upstream: {{type: roundrobin, nodes: {{'{}': 1}}}}", upstream.address);
        text += &format!("- {{uri: {uri}, plugins: {{{plugin}}}, {nodes}}}\n");
    }
    text += &format!(
        "- {{uri: /b, vars: [[post_arg_role, '==', admin]], priority: 1, plugins: {{{GUARD}}}}}\n- {{uri: /*, plugins: {{{OPEN}}}}}\n"
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&text));
    let send = |target: &str, kind: &str, fields: &str, body: &str| {
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\n{fields}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        gateway.client().request(&request).expect("an answer").status()
    };
    let form = "application/x-www-form-urlencoded";
    for (target, coded) in [("/schema", 400), ("/rule", 415), ("/path", 415), ("/whole", 415), ("/b", 415)] {
        for coding in ["gzip", "deflate", "x", "identity, gzip"] {
            let field = format!("Content-Encoding: {coding}\r\n");
            assert_eq!(send(target, form, &field, "\u{1f}\u{8b}"), coded, "{target} {coding}");
        }
        assert_eq!(send(target, form, "Content-Encoding: Identity\r\n", "role=user"), 200, "{target}");
        assert_eq!(
            send(target, &format!("{form}; charset=utf-7"), "", "+AHIAbwBsAGU-=admin"),
            coded,
            "{target}"
        );
        assert_eq!(send(target, &format!("{form}; charset=UTF-8"), "", "role=user"), 200, "{target}");
    }
    assert_eq!(send("/other", form, "Content-Encoding: gzip\r\n", "x"), 200);
    let part = |encoding: &str| {
        format!("--b\r\nContent-Disposition: form-data; name=\"role\"\r\n{encoding}\r\nYWRtaW4=\r\n--b--\r\n")
    };
    let kind = "multipart/form-data; boundary=b";
    assert_eq!(send("/path", kind, "", &part("Content-Transfer-Encoding: base64\r\n")), 400);
    assert_eq!(send("/path", kind, "", &part("Content-Transfer-Encoding: 7bit\r\n")), 200);
}

#[test]
fn bodies_that_cannot_be_judged_reach_no_broader_route() {
    let routes = [
        ("/b", "vars: [[\"post_arg.a\", \"==\", \"1\"]], ", true),
        ("/b", "priority: 1, vars: [[\"graphql_name\", \"==\", \"q\"]], ", true),
        ("/*", "", false),
    ];
    let config = "max_post_args_readable_size: 1";
    let gateway = gateway(config, &routes);
    let (json, form) = ("{\"a\":\"1\"}", "a=1");
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(post(&gateway, kind, json), 401, "{kind}");
        assert_eq!(post(&gateway, kind, "{\"query\":\"query q { x }\"}"), 401, "{kind}");
        assert_eq!(post(&gateway, kind, "{\"a\":\"2\"}"), 200, "{kind}");
        assert_eq!(post(&gateway, kind, "{\"a\":\"1\"}}"), 400, "{kind}");
    }
    for kind in ["application/x-www-form-urlencoded", "APPLICATION/x-www-form-URLENCODED"] {
        assert_eq!((post(&gateway, kind, form), post(&gateway, kind, "a=2")), (401, 200), "{kind}");
    }
    for name in ["name=\"a\"", "NAME=a"] {
        let part = format!("--x\r\nContent-Disposition: form-data; {name}\r\n\r\n1\r\n--x--\r\n");
        assert_eq!(post(&gateway, "Multipart/Form-Data; Boundary=x", &part), 401, "{name}");
    }
    assert_eq!(post(&gateway, "text/plain", json), 200, "no arguments");
    let long = format!("{{\"b\":\"{}\",\"a\":\"1\"}}", "x".repeat(1 << 20));
    assert_eq!(post(&gateway, "application/json", &long), 413);
    let wide = format!("{{\"query\":\"query q {{ {} }}\"}}", "x ".repeat(1 << 19));
    assert_eq!(post(&gateway, "application/json", &wide), 413);
    assert_eq!(post(&gateway, "application/octet-stream", &long), 200, "nothing of it is read");
    let elsewhere = ask(&gateway, "/elsewhere", "");
    assert_eq!(elsewhere.status(), 200);
}

/// Where the condition of a guard asks for the body, a body that nobody can read does not take the guard away.
#[test]
fn bodies_that_cannot_be_judged_take_no_guard_away() {
    let config = YAML_PROVIDER.replacen("apisix:\n", "apisix:\n  max_post_args_readable_size: 1\n", 1);
    let filter = "[[\"post_arg.a\", \"==\", \"1\"]]";
    let text =
        format!("routes:\n- {{uri: /b, plugins: {{key-auth: {{_meta: {{filter: {filter}}}}}, {OPEN}}}}}\n");
    let gateway = Gateway::start(&config, Some(&text));
    let json = "application/json";
    assert_eq!((post(&gateway, json, "{\"a\":\"1\"}"), post(&gateway, json, "{\"a\":\"2\"}")), (401, 200));
    let long = format!("{{\"b\":\"{}\",\"a\":\"1\"}}", "x".repeat(1 << 20));
    assert_eq!(post(&gateway, json, &long), 413);
    assert_eq!(post(&gateway, json, "{\"a\":\"1\"}}"), 400);
    assert_eq!(post(&gateway, "text/plain", &long), 200, "nothing of it is read");
}

/// Frameworks that do not resolve dot segments, such as Express, would take the path that the client wrote for one that no
/// guard has judged.
#[test]
fn the_path_that_is_judged_is_sent() {
    let upstream = Upstream::start();
    let nodes = format!("upstream: {{type: roundrobin, nodes: {{'{}': 1}}}}", upstream.address);
    let routes =
        format!("routes:\n- {{uri: '/admin*', plugins: {{{GUARD}}}}}\n- {{uri: '/pub/*', {nodes}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    for (target, sent) in [
        ("/admin/../pub/x", "/pub/x"),
        ("/admin/%2e%2E/pub/a%20b?q=/../y", "/pub/a%20b?q=/../y"),
        ("/admin/..%2fpub/x", "/pub/x"),
        ("/pub/./x", "/pub/x"),
        ("/pub/x..y/.z", "/pub/x..y/.z"),
        ("/pub/%41?", "/pub/%41?"),
    ] {
        assert_eq!(status(&gateway, target), 200, "{target}");
        let seen = upstream.take();
        assert!(seen[0].text().starts_with(&format!("GET {sent} HTTP/1.1")), "{target}: {}", seen[0].text());
    }
    assert_eq!(status(&gateway, "/pub/../admin/x"), 401);
}
