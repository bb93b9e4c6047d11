//! Answers that a cache keeps, and who they are for: what counts is what the client sent. And a key in the path, which hides
//! where a request goes.

use serde_json::{Value, json};
use testkit::gateway::EMBEDDED;
use testkit::{Gateway, Upstream};

use super::{ask, put};

fn node(upstream: &Upstream) -> Value {
    json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}})
}

fn cached(gateway: &Gateway, target: &str, fields: &str) -> String {
    let answer = ask(gateway, target, fields);
    answer.header("Apisix-Cache-Status").unwrap_or("none").to_owned()
}

/// RFC 9111 section 3.5: answers to requests with credentials are not kept, also where a plugin takes these off on the way.
#[test]
fn credentials_that_are_taken_off_count() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60});
    let mut shared = cache.clone();
    shared["consumer_isolation"] = false.into();
    for (name, password) in [("alice", "a"), ("bob", "b")] {
        let plugins = json!({"basic-auth": {"username": name, "password": password}});
        put(
            &gateway,
            &format!("consumers/{name}"),
            &json!({"username": name, "plugins": plugins}).to_string(),
        );
    }
    let rewritten =
        json!({"proxy-cache": cache, "proxy-rewrite": {"headers": {"remove": ["Authorization"]}}});
    let hidden = json!({"proxy-cache": shared, "basic-auth": {"hide_credentials": true}});
    for (id, plugins) in [("rewritten", rewritten), ("hidden", hidden)] {
        let route = json!({"uri": format!("/{id}"), "plugins": plugins, "upstream": node(&upstream)});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
        for user in ["YWxpY2U6YQ==", "Ym9iOmI=", "Ym9iOmI="] {
            let fields = format!("Authorization: Basic {user}\r\n");
            assert_eq!(cached(&gateway, &format!("/{id}"), &fields), "MISS", "{id} {user}");
        }
    }
    assert_eq!(cached(&gateway, "/rewritten", ""), "MISS");
    assert_eq!(cached(&gateway, "/rewritten", ""), "HIT", "without credentials it is kept");
}

/// The route is chosen with the key in the path: where the path without it belongs to another one, nobody gets in.
#[test]
fn a_key_in_the_path_passes_no_guard() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let key = json!({"username": "ak", "plugins": {"app-key": {"key": "akey"}}});
    put(&gateway, "consumers/ak", &key.to_string());
    let blocker = json!({"block_rules": ["^/p/adm", "^/q/adm"]});
    for (id, uri, plugins) in [
        ("open", "/p/*", json!({"app-key": {}})),
        ("narrow", "/p/adm/*", json!({"key-auth": {}})),
        ("blocked", "/q/*", json!({"app-key": {}, "uri-blocker": blocker})),
    ] {
        let route = json!({"uri": uri, "plugins": plugins, "upstream": node(&upstream)});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
    }
    for (target, wanted) in [
        ("/p/~akey/x", 200),
        ("/p/adm/x", 401),
        ("/p/~akey/adm/x", 401),
        ("/q/~akey/x", 200),
        ("/q/~akey/adm/x", 403),
    ] {
        assert_eq!(ask(&gateway, target, "").status(), wanted, "{target}");
    }
}
