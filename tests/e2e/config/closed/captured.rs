//! Paths are matched decoded. What a client wrote as `%3F`, `%26` or `%23` stays data in the URI that a configuration makes
//! of it: it ends no path, starts no query and adds no argument.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Message, Upstream};

use super::{ask, put};

/// Answers with the target that it was asked for.
fn mirror() -> Upstream {
    Upstream::service(|request: &Message| (200, request.target().to_owned()))
}

fn route(gateway: &Gateway, id: &str, plugins: Value, upstream: &Upstream) {
    let route = json!({"uris": [format!("/{id}"), format!("/{id}/*")], "plugins": plugins,
                       "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    put(gateway, &format!("routes/{id}"), &route.to_string());
}

/// Regular expression and replacement, the target that is sent, and what comes of it.
const GROUPS: &[(&str, &str, &str, &str)] = &[
    // Ordinary contents: the same bytes as in APISIX.
    ("/(.*)", "/v2/$1", "/a.b-c_d~/e:@!$'()*,=", "/v2/a.b-c_d~/e:@!$'()*,="),
    ("/(.*)", "/v2/$1", "/a%20b%C3%A9?x=1&y=2", "/v2/a%20b%C3%A9?x=1&y=2"),
    ("/(.*)", "/v2?id=$1", "/a.b-c_d~/e:@!$'()*,=?x=1", "/v2?id=a.b-c_d~/e:@!$'()*,=&x=1"),
    // What ends a path.
    ("/(.*)", "/v2/$1", "/a%3Fadmin=1", "/v2/a%3Fadmin=1"),
    ("/(.*)", "/v2/$1", "/a%23b", "/v2/a%23b"),
    ("/([^/]*)/(.*)", "/$1?id=$2&role=user", "/a%3Frole=admin/7", "/a%3Frole=admin?id=7&role=user"),
    // What ends an argument.
    ("/(.*)", "/v2?id=$1&role=user", "/a%26role=admin", "/v2?id=a%26role=admin&role=user"),
    ("/(.*)", "/v2?id=$1&role=user", "/a&role=admin", "/v2?id=a%26role=admin&role=user"),
    ("/(.*)", "/v2?id=$1&role=user", "/a%23", "/v2?id=a%23&role=user"),
    ("/(.*)", "/v2?id=$1", "/a%2526b", "/v2?id=a%2526b"),
    ("/(.*)", "/v2?id=$1", "/c++%20d", "/v2?id=c%2B%2B%20d"),
];

#[test]
fn groups_of_rewrites() {
    let upstream = mirror();
    let gateway = Gateway::start(EMBEDDED, None);
    for (index, (pattern, with, target, expected)) in GROUPS.iter().enumerate() {
        let id = format!("g{index}");
        let conf = json!({"regex_uri": [format!("^/{id}{pattern}"), with]});
        route(&gateway, &id, json!({"proxy-rewrite": conf}), &upstream);
        let answer = ask(&gateway, &format!("/{id}{target}"), "");
        assert_eq!(answer.body_text(), *expected, "{pattern} {with} {target}");
    }
}

#[test]
fn values_of_variables_in_rewrites() {
    let upstream = mirror();
    let gateway = Gateway::start(EMBEDDED, None);
    for (index, (uri, target, fields, expected)) in [
        ("/v2?id=$arg_id", "?id=7", "", "/v2?id=7&id=7"),
        (
            "/v2?id=$arg_id&role=user",
            "?id=7%26role=admin",
            "",
            "/v2?id=7%26role=admin&role=user&id=7%26role=admin",
        ),
        ("/v2?id=$http_x_id&role=user", "", "X-Id: 7&role=admin\r\n", "/v2?id=7%26role=admin&role=user"),
        ("/v2?$http_x_query", "", "X-Query: a=1&b=2\r\n", "/v2?a=1&b=2"),
        ("/v2?$args", "?a=1&b=2", "", "/v2?a=1&b=2&a=1&b=2"),
        ("/v2/$http_x_id", "", "X-Id: a?b?role=admin\r\n", "/v2/a%3Fb%3Frole=admin"),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("v{index}");
        route(&gateway, &id, json!({"proxy-rewrite": {"uri": uri}}), &upstream);
        let answer = ask(&gateway, &format!("/{id}{target}"), fields);
        assert_eq!(answer.body_text(), *expected, "{uri} {target}");
    }
}

#[test]
fn locations() {
    let upstream = mirror();
    let gateway = Gateway::start(EMBEDDED, None);
    let regex = |id: &str, pattern: &str, with: &str, more: Value| {
        let mut conf = json!({"regex_uri": [format!("^/{id}{pattern}"), with]});
        more.as_object().into_iter().flatten().for_each(|(name, value)| conf[name] = value.clone());
        json!({ "redirect": conf })
    };
    let uri = |uri: &str| json!({"redirect": {"uri": uri}});
    for (id, plugins, target, expected) in [
        ("a", regex("a", "/(.*)", "/v2/$1", json!({})), "/b.c/d=e", "/v2/b.c/d=e"),
        ("b", regex("b", "/(.*)", "/v2/$1", json!({})), "/x%3Fadmin=1%23f", "/v2/x%3Fadmin=1%23f"),
        (
            "c",
            regex("c", "/(.*)", "/v2?id=$1&role=user", json!({})),
            "/x%26role=admin",
            "/v2?id=x%26role=admin&role=user",
        ),
        ("d", regex("d", "/(.*)", "/v2/$1", json!({"encode_uri": true})), "/x%3Fa%20b", "/v2/x%3Fa%20b"),
        (
            "e",
            regex("e", "/(.*)", "/v2/$1", json!({"append_query_string": true})),
            "/x%3Fa=1?b=2",
            "/v2/x%3Fa=1?b=2",
        ),
        ("f", json!({"redirect": {"http_to_https": true}}), "/x%3Fa=1?b=2", "https://h/f/x%3Fa=1?b=2"),
        ("f", json!({"redirect": {"http_to_https": true}}), "/x%252Fa%25", "https://h/f/x%252Fa%25"),
        ("g", uri("https://$host$request_uri"), "/x%3Fa=1?b=2", "https://h/g/x%3Fa=1?b=2"),
        ("h", uri("/v2$uri"), "/x%3Fa=1?b=2", "/v2/h/x%3Fa=1"),
        ("i", uri("/login?next=$request_uri"), "/x?b=2&c=3", "/login?next=/i/x?b=2&c=3"),
        ("j", uri("$arg_next"), "?next=/x%3Fa=1%26b=2", "/x?a=1&b=2"),
        (
            "k",
            uri("/login?user=$arg_user&role=user"),
            "?user=a%26role=admin",
            "/login?user=a%26role=admin&role=user",
        ),
    ] {
        route(&gateway, id, plugins, &upstream);
        let answer = ask(&gateway, &format!("/{id}{target}"), "");
        assert_eq!(answer.header("Location"), Some(expected), "{id} {target}");
    }
}
