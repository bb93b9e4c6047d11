//! Answers that a cache keeps, and who they are for: what counts is what the client sent. And a key in the path, which hides
//! where a request goes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream, eventually, upstream::Behaviour};

use super::{admin, ask, put};

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

/// A key that names whose answers these are tells consumers apart only where it has a value, and where nobody else can write
/// that value.
#[test]
fn consumers_do_not_get_answers_of_others() {
    let public = Upstream::answer(|_| {
        b"HTTP/1.1 200 OK\r\nCache-Control: s-maxage=60\r\nContent-Length: 1\r\n\r\nx".to_vec()
    });
    let upstream = Upstream::with(move |_| Behaviour { read_body: true, steps: vec![public.clone()] });
    let gateway = Gateway::start(EMBEDDED, None);
    for name in ["alice", "bob"] {
        let plugins = json!({"key-auth": {"key": format!("key-of-{name}")}});
        let consumer = json!({"username": name, "plugins": plugins});
        put(&gateway, &format!("consumers/{name}"), &consumer.to_string());
    }
    for (id, key, field) in [
        ("1", "$http_authorization", ""),
        ("2", "$http_authorization", "Authorization: same\r\n"),
        ("3", "$consumer_group_id", ""),
    ] {
        let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60, "cache_key": [key, "$uri"]});
        let plugins = json!({"proxy-cache": cache, "key-auth": {}});
        let route = json!({"uri": format!("/{id}"), "plugins": plugins, "upstream": node(&upstream)});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
        for (name, wanted) in [("alice", "MISS"), ("alice", "HIT"), ("bob", "MISS"), ("bob", "HIT")] {
            let fields = format!("apikey: key-of-{name}\r\n{field}");
            assert_eq!(cached(&gateway, &format!("/{id}"), &fields), wanted, "{key} {field} {name}");
        }
    }
}

/// Whom Lua names is somebody, too.
#[test]
fn users_that_lua_names_do_not_get_answers_of_others() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    for (id, body) in [
        ("external", "ctx.external_user = {name = ngx.req.get_headers()['x-user']}"),
        ("named", "ctx.consumer_name = ngx.req.get_headers()['x-user']"),
    ] {
        let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_ttl": 60});
        let function = format!("return function(conf, ctx) {body} end");
        let plugins = json!({"proxy-cache": cache, "serverless-pre-function": {"phase": "access", "functions": [function]}});
        let route = json!({"uri": format!("/{id}"), "plugins": plugins, "upstream": node(&upstream)});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
        assert_ne!(cached(&gateway, &format!("/{id}"), "X-User: 1\r\n"), "HIT");
        assert_ne!(cached(&gateway, &format!("/{id}"), "X-User: 2\r\n"), "HIT", "{id}");
    }
}

/// A misspelled variable is empty for everybody: all paths would be one entry.
#[test]
fn a_key_with_an_unknown_variable_keeps_nothing() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let cache = json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_key": ["$urii"]});
    let route = json!({"uri": "/*", "plugins": {"proxy-cache": cache}, "upstream": node(&upstream)});
    let answer = admin(&gateway, "PUT", "routes/1", "", &route.to_string());
    let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
    assert!(
        warning.contains("$urii is not a variable") && warning.contains("did you mean uri?"),
        "{warning}"
    );
    for path in ["/a", "/a", "/b"] {
        assert_eq!(cached(&gateway, path, ""), "BYPASS", "{path}");
    }
    // Where values end is part of the key.
    let cache =
        json!({"cache_strategy": "memory", "cache_zone": "memory_cache", "cache_key": ["$arg_a", "$arg_b"]});
    let route = json!({"uri": "/*", "plugins": {"proxy-cache": cache}, "upstream": node(&upstream)});
    put(&gateway, "routes/1", &route.to_string());
    for (path, wanted) in [("/?a=x&b=yz", "MISS"), ("/?a=x&b=yz", "HIT"), ("/?a=xy&b=z", "MISS")] {
        assert_eq!(cached(&gateway, path, ""), wanted, "{path}");
    }
}

/// A folder in common, or an id that is used again, makes no answers common.
#[test]
fn what_is_kept_is_of_one_route_of_one_gateway() {
    let upstream = Upstream::start();
    let with_zone = |path: &str| {
        let zone = format!(
            "{{name: on_disk, memory_size: 10m, disk_size: 100m, disk_path: {path}, cache_levels: \"1:2\"}}"
        );
        let zones =
            format!("apisix:\n  proxy_cache: {{zones: [{zone}, {{name: memory, memory_size: 10m}}]}}\n");
        Gateway::start(&EMBEDDED.replace("apisix:\n", &zones), None)
    };
    let first = with_zone("data/cache");
    let second = with_zone(&first.prefix().join("data/cache").display().to_string());
    let route = |strategy: &str, zone: &str| {
        let cache = json!({"cache_strategy": strategy, "cache_zone": zone, "cache_ttl": 60});
        json!({"uri": "/kept", "plugins": {"proxy-cache": cache}, "upstream": node(&upstream)}).to_string()
    };
    for gateway in [&first, &second] {
        put(gateway, "routes/1", &route("disk", "on_disk"));
    }
    assert_eq!(cached(&first, "/kept", ""), "MISS");
    assert_eq!(cached(&first, "/kept", ""), "HIT");
    assert_eq!(cached(&second, "/kept", ""), "MISS", "of another gateway");
    for (strategy, zone) in [("disk", "on_disk"), ("memory", "memory")] {
        let route = route(strategy, zone);
        put(&first, "routes/1", &route);
        cached(&first, "/kept", "");
        assert_eq!(cached(&first, "/kept", ""), "HIT", "{strategy}");
        put(&first, "routes/1", &route);
        assert_eq!(cached(&first, "/kept", ""), "HIT", "written again, {strategy}");
        // Most of them within one second, and so with one `create_time`.
        for _ in 0..5 {
            assert_eq!(first.admin("DELETE", "/apisix/admin/routes/1", "").0, 200);
            put(&first, "routes/1", &route);
            assert_eq!(cached(&first, "/kept", ""), "MISS", "made again, {strategy}");
        }
    }
}

/// A file does not say when its routes were made. One with other contents is another route, also after a restart.
#[test]
fn what_is_kept_is_of_one_route_of_a_file() {
    let upstream = Upstream::start();
    let zones = "apisix:\n  proxy_cache: {zones: [{name: on_disk, memory_size: 10m, disk_size: 100m, disk_path: data/cache, \
                 cache_levels: \"1:2\"}, {name: memory, memory_size: 10m}]}\n";
    for (strategy, zone) in [("disk", "on_disk"), ("memory", "memory")] {
        let cache = json!({"cache_strategy": strategy, "cache_zone": zone, "cache_ttl": 60});
        let mine = json!({"uri": "/kept", "desc": "mine", "plugins": {"proxy-cache": cache}, "upstream": node(&upstream)});
        let mut yours = mine.clone();
        yours["desc"] = "yours".into();
        let other = json!({"uri": "/other", "plugins": {"mocking": {"response_example": "x"}}});
        // Without an id, a route is named by its place.
        let file = |routes: &[&Value]| json!({ "routes": routes }).to_string();
        let mut gateway =
            Gateway::start(&YAML_PROVIDER.replace("apisix:\n", zones), Some(&file(&[&mine, &other])));
        cached(&gateway, "/kept", "");
        assert_eq!(cached(&gateway, "/kept", ""), "HIT", "{strategy}");
        gateway.write_routes(&file(&[&yours]));
        eventually("the file is read", || ask(&gateway, "/other", "").status() == 404);
        assert_eq!(cached(&gateway, "/kept", ""), "MISS", "another route, {strategy}");
        assert_eq!(cached(&gateway, "/kept", ""), "HIT", "{strategy}");
        if strategy == "disk" {
            // An answer is found before its file is written, and a stop does not wait for the file.
            let folder = gateway.prefix().join("data/cache");
            eventually("both answers are on the disk", || files_below(&folder) == 2);
        }
        gateway.process.stop();
        gateway.restart();
        let after = if strategy == "disk" { "HIT" } else { "MISS" };
        assert_eq!(cached(&gateway, "/kept", ""), after, "after a restart, {strategy}");
    }
}

/// Complete ones: a file has an extension until all of it is written.
fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let count = |path: PathBuf| {
        if path.is_dir() { files_below(&path) } else { usize::from(path.extension().is_none()) }
    };
    entries.map(|entry| count(entry.path())).sum()
}

/// To WSGI, CGI and PHP `X_Lang` is `X-Lang`: what such a request gets is for nobody else, nor is it given what others got.
#[test]
fn other_spellings_of_fields_are_not_cached() {
    let varying = Upstream::answer(|_| {
        b"HTTP/1.1 200 OK\r\nVary: X-Lang, Accept-Language\r\nContent-Length: 1\r\n\r\nx".to_vec()
    });
    let varying = Upstream::with(move |_| Behaviour { read_body: true, steps: vec![varying.clone()] });
    let plain = Upstream::start();
    let zones = "apisix:\n  proxy_cache: {zones: [{name: on_disk, memory_size: 10m, disk_size: 100m, disk_path: data/cache, \
                 cache_levels: \"1:2\"}, {name: memory, memory_size: 10m}]}\n";
    let gateway = Gateway::start(&EMBEDDED.replace("apisix:\n", zones), None);
    for (strategy, zone) in [("disk", "on_disk"), ("memory", "memory")] {
        let mut cache = json!({"cache_strategy": strategy, "cache_zone": zone, "cache_ttl": 60});
        let mut route = |id: &str, upstream: &Upstream, key: Value| {
            if !key.is_null() {
                cache["cache_key"] = key;
            }
            let id = format!("{id}-{strategy}");
            let route = json!({"uri": format!("/{id}"), "plugins": {"proxy-cache": cache}, "upstream": node(upstream)});
            put(&gateway, &format!("routes/{id}"), &route.to_string());
            format!("/{id}")
        };
        let by_vary = route("vary", &varying, Value::Null);
        let by_key = route("key", &plain, json!(["$uri", "$http_x_lang", "$http_accept_language"]));
        let (odd, sly) = ("X_Lang: evil\r\n", "Accept_Language: evil\r\nAccept-Language: de\r\n");
        // The first answer tells what it varies by.
        assert_eq!(cached(&gateway, &by_vary, odd), "MISS", "{strategy}");
        assert_eq!(cached(&gateway, &by_vary, ""), "MISS", "the odd one was not kept, {strategy}");
        let is_kept = |path: &str, fields: &str| {
            // A disk takes its time.
            eventually("it is kept", || cached(&gateway, path, fields) == "HIT");
        };
        is_kept(&by_vary, "");
        for fields in [odd, sly] {
            assert_eq!(cached(&gateway, &by_vary, fields), "BYPASS", "{fields}, {strategy}");
            assert_eq!(cached(&gateway, &by_key, fields), "BYPASS", "{fields}, {strategy}");
        }
        assert_eq!(cached(&gateway, &by_vary, "Accept-Language: de\r\n"), "MISS", "{strategy}");
        is_kept(&by_vary, "Accept-Language: de\r\n");
        assert_eq!(cached(&gateway, &by_key, ""), "MISS", "{strategy}");
        is_kept(&by_key, "");
    }
}

/// The route is chosen with the key in the path: where the path without it belongs to another one, nobody gets in.
#[test]
fn a_key_in_the_path_passes_no_guard() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let service = Upstream::service(|_| (200, String::new()));
    let asks = json!({"uri": format!("http://{}/", service.address)});
    let key = json!({"username": "ak", "plugins": {"app-key": {"key": "akey"}}});
    put(&gateway, "consumers/ak", &key.to_string());
    let blocker = json!({"block_rules": ["^/p/adm", "^/q/adm"]});
    for (id, uri, plugins) in [
        ("open", "/p/*", json!({"app-key": {}})),
        ("narrow", "/p/adm/*", json!({"key-auth": {}})),
        ("blocked", "/q/*", json!({"app-key": {}, "uri-blocker": blocker})),
        (
            "twice",
            "/s/*",
            json!({"app-key": {}, "basic-auth": {"_meta": {"filter": [["uri", "~~", "^/s/adm"]]}}}),
        ),
        ("global", "/g/*", json!({"app-key": {}})),
        ("several", "/m/*", json!({"multi-auth": {"auth_plugins": [{"app-key": {}}, {"key-auth": {}}]}})),
        ("asked", "/f/*", json!({"app-key": {}, "forward-auth": asks})),
    ] {
        let route = json!({"uri": uri, "plugins": plugins, "upstream": node(&upstream)});
        put(&gateway, &format!("routes/{id}"), &route.to_string());
    }
    // Runs before the plugins of any route.
    let abort = json!({"http_status": 403, "vars": [[["uri", "~~", "^/g/adm"]]]});
    put(&gateway, "global_rules/g", &json!({"plugins": {"fault-injection": {"abort": abort}}}).to_string());
    for (target, wanted) in [
        ("/p/~akey/x", 200),
        ("/p/adm/x", 401),
        ("/p/~akey/adm/x", 401),
        ("/q/~akey/x", 200),
        ("/q/~akey/adm/x", 403),
        ("/s/~akey/x", 200),
        ("/s/~akey/adm/x", 401),
        ("/g/~akey/x", 200),
        ("/g/~akey/adm/x", 403),
        ("/g/~other/x", 401),
        ("/f/~akey/x", 200),
        ("/m/~akey/x", 200),
        ("/m/~other/x", 401),
    ] {
        assert_eq!(ask(&gateway, target, "").status(), wanted, "{target}");
    }
    let told = service.seen().iter().map(|seen| seen.text()).collect::<String>();
    assert!(told.contains("X-Forwarded-Uri: /f/x\r\n"), "{told}");
}
