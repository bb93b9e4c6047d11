//! Small things that configurations for APISIX count on, each as APISIX's own tests have it.

use std::process::Command;

use flate2::Crc;
use serde_json::json;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::upstream::{Behaviour, Step};
use tidegate_testkit::{Client, Message, Upstream, servers};

/// Routes by path, each with plugins (flow YAML), to one upstream.
fn gateway(upstream: &Upstream, routes: &[(&str, &str)]) -> Gateway {
    let mut text = "routes:\n".to_owned();
    for (id, (path, plugins)) in routes.iter().enumerate() {
        text += &format!(
            "- {{id: {id}, uri: \"{path}\", plugins: {{{plugins}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
            upstream.address
        );
    }
    let router = "apisix:\n  router: {http: radixtree_uri_with_parameter}\n";
    Gateway::start(&YAML_PROVIDER.replacen("apisix:\n", router, 1), Some(&text))
}

fn get(gateway: &Gateway, path: &str) -> Message {
    gateway.client().get("h", path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// As nginx takes it.
#[test]
fn an_empty_value_removes_a_header_of_the_answer() {
    let upstream = Upstream::with(|_| Behaviour {
        read_body: true,
        steps: vec![Step::Send(
            b"HTTP/1.1 200 OK\r\nX-Gone: 1\r\nX-Kept: 1\r\nContent-Length: 0\r\n\r\n".into(),
        )],
    });
    let lua = r#"serverless-post-function: {phase: header_filter, functions: ["return function() ngx.header['X-Gone'] = '' end"]}"#;
    let gateway = gateway(
        &upstream,
        &[
            ("/plain", r#"response-rewrite: {headers: {X-Gone: ""}}"#),
            ("/set", r#"response-rewrite: {headers: {set: {X-Gone: ""}}}"#),
            ("/variable", r#"response-rewrite: {headers: {set: {X-Gone: "$arg_none"}}}"#),
            ("/echo", r#"echo: {body: x, headers: {X-Gone: ""}}"#),
            ("/lua", lua),
        ],
    );
    for path in ["/plain", "/set", "/variable", "/echo", "/lua"] {
        let answer = get(&gateway, path);
        assert_eq!((answer.header("X-Gone"), answer.header("X-Kept")), (None, Some("1")), "{path}");
    }
}

#[test]
fn a_mirror_gets_the_method_that_the_upstream_gets() {
    let (upstream, mirror) = (Upstream::start(), Upstream::start());
    let plugins =
        format!("proxy-rewrite: {{method: PUT}}, proxy-mirror: {{host: \"http://{}\"}}", mirror.address);
    let gateway = gateway(&upstream, &[("/*", &plugins)]);
    assert_eq!(get(&gateway, "/x").status(), 200);
    let methods = |seen: &Upstream| seen.wait_for(1)[0].message.method().to_owned();
    assert_eq!((methods(&upstream), methods(&mirror)), ("PUT".into(), "PUT".into()));
}

#[test]
fn what_limit_count_found_can_be_read() {
    let upstream = Upstream::start();
    let gateway = gateway(
        &upstream,
        &[(
            "/*",
            "limit-count: {count: 2, time_window: 60, key: host, rejected_code: 429}, \
             response-rewrite: {headers: {set: {X-Info: \"$rate_limiting_info\"}}}",
        )],
    );
    for (status, remaining) in [(200, 1), (200, 0), (429, 0)] {
        let answer = get(&gateway, "/x");
        let info: serde_json::Value =
            serde_json::from_str(answer.header("X-Info").expect("a value")).expect("JSON");
        assert_eq!(answer.status(), status);
        let key = info["rate_limiting_key"].as_str().expect("a key");
        assert!(key.starts_with("/routes/0:") && key.ends_with(":h"), "{key}");
        assert_eq!(
            (&info["rate_limiting_limit"], &info["rate_limiting_remaining"]),
            (&json!(2), &json!(remaining))
        );
        assert!(info["rate_limiting_reset"].as_u64().is_some_and(|reset| reset <= 60), "{info}");
    }
}

#[test]
fn a_node_without_an_address_is_503() {
    let routes = "routes:\n- {uri: /*, upstream: {nodes: {\"nowhere.invalid:80\": 1}}}\n\
                  - {uri: /grpc, upstream: {scheme: grpc, nodes: {\"nowhere.invalid:80\": 1}}}\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    assert_eq!([get(&gateway, "/x").status(), get(&gateway, "/grpc").status()], [503, 503]);
}

#[test]
fn ids_of_version_7_rise() {
    let upstream = Upstream::start();
    let gateway =
        gateway(&upstream, &[("/*", "request-id: {algorithm: uuidv7}, mocking: {response_example: x}")]);
    let mut client = gateway.client();
    // Together, so that many fall into one millisecond.
    client.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(200).as_bytes()).expect("sends");
    let ids: Vec<String> = (0..200)
        .map(|_| client.response().expect("answers").header("X-Request-Id").expect("an id").to_owned())
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
}

#[test]
fn functions_find_what_apisix_has() {
    let upstream = Upstream::start();
    let lua = |code: &str| {
        format!(
            "serverless-pre-function: {{phase: access, functions: [{}]}}",
            json!(format!("return function(conf, ctx) {code} end"))
        )
    };
    let say = lua("ngx.say('said')");
    let matched = lua("local m = ctx.curr_req_matched ngx.say(m._path, ' ', m.name, ' ', m._method)");
    let parsed = lua("local url = require('net.url').parse('HTTP://u:p@h:81/a%20b?x=1&y=2&x=3#f') \
         ngx.say(url.scheme, ' ', url.host, ' ', url.port, ' ', url.user, ' ', url.path, ' ', url.query.y, ' ', \
         #url.query.x, ' ', url.fragment, ' ', tostring(url))");
    let arguments = lua("ngx.print(require('net.url').parse(ngx.var.args).path)");
    let gateway = gateway(
        &upstream,
        &[("/say", &say), ("/user/:name/x", &matched), ("/url", &parsed), ("/echo", &arguments)],
    );
    for (path, expected) in [
        ("/say", "said\n"),
        ("/user/jack/x", "/user/:name/x jack GET\n"),
        ("/url", "http h 81 u /a%20b 2 2 f http://u:p@h:81/a%20b?x=1&x=3&y=2#f\n"),
        ("/echo?args=%40%23%24%25%5E%26", "args=@%23$%25%5E&"),
    ] {
        assert_eq!(get(&gateway, path).body_text(), expected, "{path}\n{}", gateway.error_log());
    }
    assert!(upstream.seen().is_empty(), "what has been said is the answer");
}

/// What APISIX's encoder makes of the configuration: keys sorted, defaults filled in, an empty table as a list.
const CONFIGURATION: &str = r#"{"_meta":[],"allow_degradation":false,"count":3,"key":"shared","key_type":"constant","policy":"redis","redis_database":0,"redis_host":"127.0.0.1","redis_keepalive_pool":100,"redis_keepalive_timeout":10000,"redis_port":@PORT@,"redis_ssl":false,"redis_ssl_verify":false,"redis_timeout":1000,"rejected_code":503,"show_limit_quota_header":true,"sync_interval":-1,"time_window":600,"window_type":"fixed"}"#;

/// Both count in the same keys while one takes over from the other.
#[test]
fn quotas_in_redis_are_shared_with_apisix() {
    let redis = servers::redis(&[]);
    let upstream = Upstream::start();
    let port = redis.address.port();
    let route = json!({
        "uri": "/*",
        "upstream": {"nodes": {upstream.address.to_string(): 1}},
        "plugins": {"limit-count": {
            "count": 3, "time_window": 600, "key": "shared", "key_type": "constant",
            "policy": "redis", "redis_host": "127.0.0.1", "redis_port": port,
        }},
    });
    let mut checksum = Crc::new();
    checksum.update(CONFIGURATION.replace("@PORT@", &port.to_string()).as_bytes());
    let with = |prefix: &str| format!("plugin-limit-count:v1:{prefix}/routes/1:{}:shared", checksum.sum());

    let stored = Gateway::start(EMBEDDED, None);
    let (status, answer) = stored.admin("PUT", "/apisix/admin/routes/1", &route.to_string());
    assert!(status < 300, "{answer}");
    let mut in_file = route;
    in_file["id"] = json!("1");
    let filed = Gateway::start(YAML_PROVIDER, Some(&format!("routes:\n- {in_file}\n")));
    for (gateway, key) in [(&stored, with("/apisix")), (&filed, with(""))] {
        // APISIX has counted two requests before.
        ask(port, &["SET", &key, "2", "EX", "600"]);
        let mut client: Client = gateway.client();
        let mut status = || client.get("h", "/x").expect("answers").status();
        assert_eq!([status(), status()], [200, 503], "{key}: {}", ask(port, &["KEYS", "*"]));
        assert_eq!(ask(port, &["GET", &key]).trim(), "4");
    }
}

fn ask(port: u16, words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string()])
        .args(words)
        .output()
        .expect("redis-cli runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
