//! Guards written in Lua: what they ask for they see, and what they end or fail at does not pass.

use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Upstream};

use super::{ask, put, status};

fn guarded(gateway: &Gateway, uri: &str, plugins: Value) {
    let mut plugins = plugins;
    plugins["mocking"] = json!({"response_example": "SECRET"});
    let id = uri.trim_start_matches('/');
    put(gateway, &format!("routes/{id}"), &json!({"uri": uri, "plugins": plugins}).to_string());
}

fn function(body: &str) -> Value {
    let source = format!("local core = require('apisix.core') return function(conf, ctx) {body} end");
    json!({"serverless-pre-function": {"phase": "rewrite", "functions": [source]}})
}

#[test]
fn arguments_beyond_the_hundredth_are_seen() {
    let gateway = Gateway::start(EMBEDDED, None);
    let padding: String = (0..150).map(|at| format!("a{at}=1&")).collect();
    for (id, arguments, wanted) in [
        ("core", "core.request.get_uri_args(ctx)", 403),
        ("none", "ngx.req.get_uri_args(0)", 403),
        ("more", "ngx.req.get_uri_args(151)", 403),
        ("fewer", "ngx.req.get_uri_args(150)", 401),
        ("default", "ngx.req.get_uri_args()", 401),
        ("text", "ngx.decode_args(ngx.var.args, 0)", 403),
    ] {
        let body = format!(
            "local args, err = {arguments} if args.role == 'admin' then return 403 end \
             if err == 'truncated' then return 401 end"
        );
        let uri = format!("/{id}");
        guarded(&gateway, &uri, function(&body));
        assert_eq!(status(&gateway, &format!("{uri}?role=admin")), 403, "{arguments}");
        assert_eq!(status(&gateway, &format!("{uri}?role=user")), 200, "{arguments}");
        assert_eq!(status(&gateway, &format!("{uri}?{padding}role=admin")), wanted, "{arguments}");
    }
    let form = format!("{padding}role=admin");
    for (id, arguments) in [("form", "core.request.get_post_args(ctx)"), ("post", "ngx.req.get_post_args(0)")]
    {
        let uri = format!("/{id}");
        guarded(&gateway, &uri, function(&format!("if {arguments}.role == 'admin' then return 403 end")));
        let request = format!(
            "POST {uri} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{form}",
            form.len()
        );
        let answer = gateway.client().request(&request).expect("an answer");
        assert_eq!(answer.status(), 403, "{arguments}");
    }
}

#[test]
fn a_pre_function_ends_the_request() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (id, body, wanted) in [
        ("exit", "ngx.exit(403)", 403),
        ("core", "require('apisix.core').response.exit(403, 'no')", 403),
        ("away", "ngx.redirect('/login', 302)", 302),
        ("fails", "error('no such user')", 500),
        ("forever", "while true do end", 500),
        ("returns", "return 403", 200),
        ("goes_on", "ngx.exit(ngx.OK)", 200),
    ] {
        let meta = json!({"pre_function": format!("return function(conf, ctx) {body} end")});
        let uri = format!("/{id}");
        guarded(&gateway, &uri, json!({"proxy-rewrite": {"headers": {"set": {"X-1": "1"}}, "_meta": meta}}));
        let answer = ask(&gateway, &uri, "");
        assert_eq!(answer.status(), wanted, "{body}");
        assert_eq!(answer.body_text().contains("SECRET"), wanted == 200, "{body}");
    }
}

#[test]
fn a_body_filter_that_fails_lets_nothing_pass() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (id, body) in
        [("fails", "error('broken')"), ("forever", "while true do end"), ("exit", "ngx.exit(403)")]
    {
        let uri = format!("/{id}");
        let conf = json!({"phase": "body_filter", "functions": [format!("return function() {body} end")]});
        guarded(&gateway, &uri, json!({"serverless-post-function": conf}));
        let request = format!("GET {uri} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        if let Ok(answer) = gateway.client().request(&request) {
            assert!(!answer.body_text().contains("SECRET"), "{body}: {}", answer.body_text());
        }
    }
    let log = gateway.error_log();
    assert!(log.contains("failed to run Lua of plugin serverless-post-function"), "{log}");
}

/// What it was to hide stays hidden, whoever makes the answer, and whoever asks.
#[test]
fn a_header_filter_that_fails_lets_nothing_pass() {
    let gateway = Gateway::start(EMBEDDED, None);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("page"), "SECRET").expect("written");
    let made = [
        ("upstream", json!({})),
        ("mocked", json!({"mocking": {"response_example": "SECRET"}})),
        ("file", json!({"static-files": {"root": folder.path(), "try_files": ["/page"]}})),
    ];
    for (id, body) in
        [("fails", "error('broken')"), ("forever", "while true do end"), ("exit", "ngx.exit(403)")]
    {
        for (place, plugins) in &made {
            let mut plugins = plugins.clone();
            let conf =
                json!({"phase": "header_filter", "functions": [format!("return function() {body} end")]});
            plugins["serverless-post-function"] = conf;
            let uri = format!("/{id}-{place}");
            guarded(&gateway, &uri, plugins);
            let answer = ask(&gateway, &uri, "");
            assert_eq!(answer.status(), 500, "{body} at {place}");
            assert!(!answer.body_text().contains("SECRET"), "{body} at {place}: {}", answer.body_text());
        }
    }
    let uri = "/before";
    let meta = json!({"pre_function": "return function() error('broken') end"});
    guarded(&gateway, uri, json!({"response-rewrite": {"headers": {"remove": ["X"]}, "_meta": meta}}));
    assert_eq!(ask(&gateway, uri, "").status(), 500);
    let mut client = tidegate_testkit::Http2Client::connect(gateway.http, &[]).expect("connects");
    client.get(1, "/fails-upstream").expect("sends");
    let head = client.wait_for(tidegate_testkit::http2::HEADERS).expect("a head");
    assert_eq!(tidegate_testkit::http2::status(&head), Some(500), "HTTP/2");
}

/// From upstreams of every kind, out of a cache, and to HEAD; and where the function is a route's script.
#[test]
fn a_header_filter_that_fails_lets_nothing_of_an_upstream_pass() {
    let gateway = Gateway::start(EMBEDDED, None);
    let secret = || Upstream::service(|_| (200, "SECRET".to_owned()));
    let (first, cached) = (secret(), secret());
    let address = format!("127.0.0.1:{}", tidegate_testkit::free_port());
    let text = format!("listen {address} http2; location / {{ return 200 SECRET; }}");
    let _http2 = tidegate_testkit::servers::nginx(&text);
    let body = "error('broken')";
    let conf = json!({"phase": "header_filter", "functions": [format!("return function() {body} end")]});
    let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60});
    let node = |address: String, scheme: &str| json!({"type": "roundrobin", "scheme": scheme, "nodes": {address: 1}});
    let routes = [
        (
            "http",
            json!({"plugins": {"serverless-post-function": conf}, "upstream": node(first.address.to_string(), "http")}),
        ),
        ("grpc", json!({"plugins": {"serverless-post-function": conf}, "upstream": node(address, "grpc")})),
        (
            "cached",
            json!({"plugins": {"serverless-post-function": conf, "proxy-cache": cache}, "upstream": node(cached.address.to_string(), "http")}),
        ),
        (
            "script",
            json!({"script": format!("local M = {{}} function M.header_filter() {body} end return M"),
                "upstream": node(first.address.to_string(), "http")}),
        ),
    ];
    for (id, mut route) in routes {
        route["uri"] = format!("/{id}").into();
        put(&gateway, &format!("routes/{id}"), &route.to_string());
        // Twice, for the second may come out of the cache.
        for method in ["GET", "GET", "HEAD"] {
            let request = format!("{method} /{id} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let mut client = gateway.client();
            client.send(request.as_bytes()).expect("sends");
            let answer = client.response_to(method).expect("an answer");
            assert_eq!(answer.status(), 500, "{method} {id}");
            assert!(!answer.body_text().contains("SECRET"), "{method} {id}: {}", answer.body_text());
            assert_ne!(answer.header("Content-Length"), Some("6"), "{method} {id}");
        }
    }
}
