//! What proxy-cache has stored, and who gets it: nobody whom a plugin of the chain refuses, whatever the priorities, and
//! nobody on a route that did not store it.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

/// Plugins that let in who says `X-Ok: 1` from 1.1.1.1, and run behind proxy-cache or in a later phase.
fn guards() -> Vec<(&'static str, Value)> {
    let refuse = "return function() if ngx.req.get_headers()['x-ok'] ~= '1' then return 403 end end";
    let lua = |phase: &str| json!({"phase": phase, "functions": [refuse]});
    let not_ok = json!([["http_x_ok", "~=", "1"]]);
    let abort = json!({"http_status": 403, "vars": [not_ok]});
    vec![
        (
            "workflow",
            json!({"workflow": {"rules": [{"case": not_ok, "actions": [["return", {"code": 403}]]}]}}),
        ),
        ("post-access", json!({"serverless-post-function": lua("access")})),
        ("post-before-proxy", json!({"serverless-post-function": lua("before_proxy")})),
        ("pre-before-proxy", json!({"serverless-pre-function": lua("before_proxy")})),
        ("fault", json!({"fault-injection": {"abort": abort, "_meta": {"priority": 10}}})),
        (
            "address",
            json!({"real-ip": {"source": "http_x_addr"},
                   "ip-restriction": {"whitelist": ["1.1.1.1"], "_meta": {"priority": 10}}}),
        ),
    ]
}

const ALLOWED: &str = "X-Ok: 1\r\nX-Addr: 1.1.1.1\r\n";
const DENIED: &str = "X-Addr: 2.2.2.2\r\n";

const STRATEGIES: [(&str, &str); 2] = [("memory", "in_memory"), ("disk", "on_disk")];

fn cache(strategy: &str, zone: &str, more: &Value) -> Value {
    let mut conf = json!({"cache_strategy": strategy, "cache_zone": zone});
    for (name, value) in more.as_object().into_iter().flatten() {
        conf[name] = value.clone();
    }
    conf
}

fn start(resources: Value) -> Gateway {
    let zones = "  proxy_cache: {cache_ttl: 60s, zones: [{name: in_memory, memory_size: 10m}, \
                 {name: on_disk, memory_size: 10m, disk_size: 100m, disk_path: data/cache, cache_levels: \"1:2\"}]}\n";
    let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n{zones}"));
    Gateway::start(&config, Some(&resources.to_string()))
}

fn ask(gateway: &Gateway, method: &str, path: &str, fields: &str) -> Message {
    let mut client = gateway.client();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes()).expect("sent");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Status and what the cache said.
fn get(gateway: &Gateway, path: &str, fields: &str) -> (u16, Option<String>) {
    let answer = ask(gateway, "GET", path, fields);
    (answer.status(), answer.header("Apisix-Cache-Status").map(str::to_owned))
}

fn said(status: u16, cache: &str) -> (u16, Option<String>) {
    (status, Some(cache.to_owned()))
}

/// One allowed request fills the cache; after it the refused are refused as before, and cannot purge.
fn is_guarded(gateway: &Gateway, path: &str) {
    assert_eq!(get(gateway, path, DENIED).0, 403, "{path}: before");
    assert_eq!(get(gateway, path, ALLOWED), said(200, "MISS"), "{path}");
    assert_eq!(get(gateway, path, ALLOWED), said(200, "HIT"), "{path}");
    assert_eq!(get(gateway, path, DENIED).0, 403, "{path}: what is stored is for others");
    assert_eq!(ask(gateway, "PURGE", path, DENIED).status(), 403, "{path}: nor may they purge");
    assert_eq!(get(gateway, path, ALLOWED), said(200, "HIT"), "{path}: still there");
    assert_eq!(ask(gateway, "PURGE", path, ALLOWED).status(), 200, "{path}: purged");
    assert_eq!(get(gateway, path, ALLOWED), said(200, "MISS"), "{path}: gone");
}

#[test]
fn stored_answers_are_for_those_who_pass_every_guard() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let mut routes = Vec::new();
    for (strategy, zone) in STRATEGIES {
        for (name, guard) in guards() {
            let mut plugins = guard;
            plugins["proxy-cache"] = cache(strategy, zone, &Value::Null);
            let id = format!("{strategy}-{name}");
            routes.push(json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": node}));
        }
    }
    let gateway = start(json!({ "routes": routes }));
    for route in &routes {
        is_guarded(&gateway, route["uri"].as_str().unwrap_or_default());
    }
}

/// Global rules run before the plugins of a route, in each phase.
#[test]
fn a_cache_for_all_routes_waits_for_their_guards() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |(name, plugins): (&str, Value)| json!({"id": name, "uri": format!("/{name}"), "plugins": plugins, "upstream": node});
    let routes: Vec<Value> = guards().into_iter().map(route).collect();
    let rule = json!({"id": "1", "plugins": {"proxy-cache": cache("memory", "in_memory", &Value::Null)}});
    let gateway = start(json!({"routes": routes, "global_rules": [rule]}));
    for (name, _) in guards() {
        is_guarded(&gateway, &format!("/{name}"));
    }
}

/// Two routes with one URI: the key alone does not tell their answers apart.
#[test]
fn stored_answers_stay_on_their_route() {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    for (strategy, zone) in STRATEGIES {
        for shared in [false, true] {
            let more = match shared {
                false => Value::Null,
                true => json!({"cache_key": ["$service_id", "$uri"]}),
            };
            let route = |id: &str, vars: Value| {
                json!({"id": id, "uri": "/one", "service_id": "s", "vars": vars,
                       "plugins": {"proxy-cache": cache(strategy, zone, &more)}})
            };
            let routes = [route("inner", json!([["http_x_inner", "==", "1"]])), route("outer", json!([]))];
            let service = json!({"id": "s", "upstream": node});
            let gateway = start(json!({"routes": routes, "services": [service]}));
            let inner = "X-Inner: 1\r\n";
            assert_eq!(get(&gateway, "/one", inner), said(200, "MISS"));
            assert_eq!(get(&gateway, "/one", inner), said(200, "HIT"));
            let outside = if shared { "HIT" } else { "MISS" };
            assert_eq!(get(&gateway, "/one", ""), said(200, outside), "{strategy}, shared: {shared}");
            assert_eq!(ask(&gateway, "PURGE", "/one", inner).status(), 200);
            let left = if shared { 404 } else { 200 };
            assert_eq!(ask(&gateway, "PURGE", "/one", "").status(), left, "{strategy}, shared: {shared}");
        }
    }
}

/// As in APISIX, where the cache is asked before a plugin that answers behind it.
#[test]
fn what_a_plugin_behind_the_cache_answers_is_a_miss() {
    let upstream = Upstream::service(|_| (500, "broken".to_owned()));
    let mut plugins = json!({"proxy-cache": cache("memory", "in_memory", &json!({"cache_ttl": 60}))});
    plugins["api-breaker"] = json!({"break_response_code": 200, "break_response_body": "open",
        "max_breaker_sec": 60, "unhealthy": {"http_statuses": [500], "failures": 1}});
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let gateway = start(json!({"routes": [{"id": "1", "uri": "/*", "plugins": plugins, "upstream": node}]}));
    assert_eq!(get(&gateway, "/", ""), said(500, "MISS"));
    for _ in 0..2 {
        assert_eq!(get(&gateway, "/", ""), said(200, "MISS"));
    }
}
