//! What proxy-rewrite and forward-auth say of a path means what the client wrote: each escape is written once.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Message, Upstream};

use super::{ask, put};

fn mirror() -> Upstream {
    Upstream::service(|request: &Message| (200, request.target().to_owned()))
}

fn gateway(options: &str) -> Gateway {
    Gateway::start(&EMBEDDED.replace("apisix:\n", &format!("apisix:\n{options}")), None)
}

fn route(gateway: &Gateway, id: &str, uri: &str, plugins: Value, upstream: &Upstream) {
    let node = json!({"nodes": {upstream.address.to_string(): 1}});
    let route = json!({"uri": uri, "plugins": plugins, "upstream": node});
    put(gateway, &format!("routes/{id}"), &route.to_string());
}

/// Configuration, the target below the route's path, and what the upstream gets; empty: 400.
fn check(gateway: &Gateway, cases: &[(Value, &str, &str)]) {
    let upstream = mirror();
    for (index, (conf, target, expected)) in cases.iter().enumerate() {
        let id = format!("r{index}");
        let conf: Value = serde_json::from_str(&conf.to_string().replace("ID", &id)).expect("JSON");
        route(gateway, &id, &format!("/{id}*"), json!({"proxy-rewrite": conf}), &upstream);
        let answer = ask(gateway, &format!("/{id}{target}"), "X-Dir: ..\r\n");
        let found = if answer.status() == 400 { String::new() } else { answer.body_text() };
        assert_eq!(found, expected.replace("ID", &id), "{conf} {target}");
    }
}

#[test]
fn what_was_decoded_is_encoded_once() {
    let regex = |pattern: &str, with: &str| json!({"regex_uri": [pattern, with]});
    check(
        &gateway(""),
        &[
            (json!({"uri": "/v2$uri"}), "/a%3Fb", "/v2/ID/a%3Fb"),
            (json!({"uri": "/v2$uri"}), "/a%253Fb%23c%20d", "/v2/ID/a%253Fb%23c%20d"),
            (json!({"uri": "/v2/$arg_id"}), "?id=a%3Fb%252e", "/v2/a%3Fb%252e?id=a%3Fb%252e"),
            // Decoded, as in APISIX, and so written with its escapes.
            (
                json!({"uri": "/v2?id=$arg_id"}),
                "?id=7%2526role=admin",
                "/v2?id=7%2526role=admin&id=7%2526role=admin",
            ),
            (regex("^/ID(.*)$", "/v2$1"), "/a%3Fb%252Fc%2Fd", "/v2/a%3Fb%252Fc/d"),
            (json!({"host": "h"}), "/a%3Fb%252Fc", "/ID/a%3Fb%252Fc"),
        ],
    );
}

#[test]
fn parameters_are_encoded_once() {
    let gateway = gateway("  router: {http: radixtree_uri_with_parameter}\n");
    let (upstream, conf) = (mirror(), json!({"uri": "/v2/$uri_param_id/$uri_param_id?id=$uri_param_id"}));
    route(&gateway, "p", "/p/:id", json!({"proxy-rewrite": conf}), &upstream);
    assert_eq!(ask(&gateway, "/p/a%3F%26b", "").body_text(), "/v2/a%3F&b/a%3F&b?id=a?%26b");
    assert_eq!(ask(&gateway, "/p/%252e%252e", "").body_text(), "/v2/%252e%252e/%252e%252e?id=%252e%252e");
}

#[test]
fn encoded_slashes_stay_encoded() {
    let regex = |pattern: &str, with: &str| json!({"regex_uri": [pattern, with]});
    check(
        &gateway("  match_uri_encoded_slash: true\n"),
        &[
            (json!({"uri": "/v2$uri"}), "/a%2Fb%3F", "/v2/ID/a%2Fb%3F"),
            (json!({"uri": "/v2$uri"}), "/a%252Fb", "/v2/ID/a%252Fb"),
            (json!({"uri": "/v2?path=$uri"}), "/a%2fb%25", "/v2?path=/ID/a%2Fb%25"),
            (regex("^/ID/(.*)$", "/v2/$1"), "/a%2Fb%25", "/v2/a%2Fb%25"),
            (regex("^/ID/(.*)$", "/v2/$1"), "/a%252Fb", "/v2/a%252Fb"),
            (json!({"host": "h"}), "/a%2Fb%252Fc", "/ID/a%2Fb%252Fc"),
            // Which of them a group has caught, nobody can say.
            (regex("^/ID/(.*)$", "/v2/$1"), "/a%2Fb%252Fc", ""),
            (regex("^/ID/(.*)$", "/v2"), "/a%2Fb%252Fc", "/v2"),
            (json!({"uri": "/v2/$arg_id"}), "/a%2Fb%252Fc?id=x", "/v2/x?id=x"),
        ],
    );
}

#[test]
fn no_rewrite_climbs_where_the_client_says() {
    let regex = |pattern: &str, with: &str| json!({"regex_uri": [pattern, with]});
    let cases = [
        (regex("^/ID(.*)$", "/files/$1"), "../secret", ""),
        (regex("^/ID-(.*)$", "/files/$1"), "-../secret", ""),
        (regex("^/ID-(.*)$", "/files/.$1"), "-./secret", ""),
        (json!({"uri": "/files/$arg_name"}), "?name=../secret", ""),
        (json!({"uri": "/files/$arg_name"}), "?name=%2e%2e%2fsecret", ""),
        (json!({"uri": "/files/$http_x_dir/secret"}), "", ""),
        (json!({"uri": "/files?name=$arg_name"}), "?name=../x", "/files?name=../x&name=../x"),
        (json!({"uri": "/files/../$arg_name"}), "?name=x", "/files/../x?name=x"),
        (regex("^/ID(.*)$", "/files/$1"), "..secret/...", "/files/..secret/..."),
    ];
    check(&gateway(""), &cases);
    let encoded = [(regex("^/ID(.*)$", "/files/$1"), "..%2Fsecret", "")];
    check(&gateway("  match_uri_encoded_slash: true\n"), &encoded);
}

/// A service that decides is told a path that means what the upstream gets.
#[test]
fn a_service_is_told_what_the_upstream_gets() {
    let (service, upstream) = (Upstream::start(), mirror());
    for (options, target) in [
        ("  match_uri_encoded_slash: true\n", "/f/a%2Fb%252Fc%252fd%25"),
        ("  match_uri_encoded_slash: true\n  normalize_uri_like_servlet: true\n", "/f/a%252Fb"),
        ("", "/f/a%252Fb%25"),
    ] {
        let gateway = gateway(options);
        let asks = json!({"forward-auth": {"uri": format!("http://{}/", service.address)}});
        route(&gateway, "f", "/f/*", asks, &upstream);
        assert_eq!(ask(&gateway, target, "").body_text(), target, "{options}");
        let told = service.take().first().map(|seen| seen.text()).unwrap_or_default();
        assert!(told.contains(&format!("X-Forwarded-Uri: {target}\r\n")), "{target}: {told}");
    }
}

/// A policy decides by the text of the path: it has to tell a slash from the text `%2F`.
#[test]
fn a_policy_tells_encoded_slashes_from_texts() {
    let allow = |_: &Message| (200, json!({"result": {"allow": true}}).to_string());
    let (service, upstream) = (Upstream::service(allow), mirror());
    for (options, target, path) in [
        ("  match_uri_encoded_slash: true\n", "/f/a%2fb%252Fc%252fd%25", "/f/a%2Fb%252Fc%2fd%"),
        ("  match_uri_encoded_slash: true\n", "/f/a%2Fb", "/f/a%2Fb"),
        ("", "/f/a%252Fb%2Fc", "/f/a%2Fb/c"),
    ] {
        let gateway = gateway(options);
        let asks = json!({"opa": {"host": format!("http://{}", service.address), "policy": "p"}});
        route(&gateway, "f", "/f/*", asks, &upstream);
        assert_eq!(ask(&gateway, target, "").status(), 200, "{options}");
        let told = service.take().first().map(|seen| seen.text()).unwrap_or_default();
        assert!(told.contains(&format!("\"path\":\"{path}\"")), "{target}: {told}");
    }
}

/// The key goes, and every slash stays what it was.
#[test]
fn a_key_is_taken_out_of_a_path_with_encoded_slashes() {
    let upstream = mirror();
    let gateway = gateway("  match_uri_encoded_slash: true\n");
    let key = json!({"username": "ak", "plugins": {"app-key": {"key": "akey"}}});
    put(&gateway, "consumers/ak", &key.to_string());
    route(&gateway, "k", "/k/*", json!({"app-key": {}}), &upstream);
    assert_eq!(ask(&gateway, "/k/~akey/a%2Fb%252Fc", "").body_text(), "/k/a%2Fb%252Fc");
    assert_eq!(ask(&gateway, "/k/~other/a%2Fb", "").status(), 401);
}

/// An upstream gets a request line that begins with `/`, or no request.
#[test]
fn a_target_is_a_path() {
    let (gateway, upstream) = (gateway(""), mirror());
    let regex = |pattern: &str, with: &str| json!({"proxy-rewrite": {"regex_uri": [pattern, with]}});
    let raw = |pattern: &str, with: &str| json!({"proxy-rewrite": {"regex_uri": [pattern, with], "use_real_request_uri_unsafe": true}});
    let lua = |target: &str| {
        let function = format!("return function(_, ctx) ctx.var.upstream_uri = '{target}' end");
        json!({"serverless-pre-function": {"functions": [function]}})
    };
    let refused = (500, "");
    for (index, (plugins, target, (status, sent))) in [
        (regex("^/r/(.*)", "$1"), "/r/a?b=c", refused),
        (regex("^/r/(.*)", "$1"), "/r/http:/b.test/", refused),
        (regex("^/r/(.*)", "b/$1"), "/r/a", refused),
        (regex("^/r/(.*)", "http://b.test/$1"), "/r/a", refused),
        (regex("^/r/(.*)", "*"), "/r/a", refused),
        (raw("^/r/(.*)", "b/$1"), "/r/a", refused),
        (lua("a"), "/r/a", refused),
        (lua("@b.test/"), "/r/a", refused),
        (regex("^/r/(.*)", "$1"), "/r/", (200, "/")),
        (regex("^/r/(.*)", "$1"), "/r/?b=c", (200, "/?b=c")),
        (regex("^/r/(.*)", "?a=$1"), "/r/x?b=c", (200, "/?a=x&b=c")),
        (regex("^/r", ""), "/r/a?b=c", (200, "/a?b=c")),
        (raw("^/r(/.*)", "$1"), "/r/a?b=c", (200, "/a?b=c")),
        (lua("/a"), "/r/a", (200, "/a")),
    ]
    .into_iter()
    .enumerate()
    {
        route(&gateway, "r", "/r*", plugins.clone(), &upstream);
        let answer = ask(&gateway, target, "");
        assert_eq!(answer.status(), status, "{index} {plugins} {target}: {}", answer.body_text());
        let seen: Vec<String> = upstream.take().iter().map(|seen| seen.message.target().to_owned()).collect();
        let expected: Vec<&str> = Some(sent).filter(|sent| !sent.is_empty()).into_iter().collect();
        assert_eq!(seen, expected, "{index} {plugins} {target}");
    }
    gateway.wait_for_log("regex_uri of proxy-rewrite made a target that does not begin with /");
    gateway.wait_for_log("a plugin set a request target that does not begin with /; the request is refused");
}
