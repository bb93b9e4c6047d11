//! A redirect leads to what the client has asked for, where routes tell an encoded slash from the text `%2F`.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

use super::{ask, put};

fn gateway(options: &str) -> Gateway {
    Gateway::start(&EMBEDDED.replace("apisix:\n", &format!("apisix:\n{options}")), None)
}

/// The configuration, the target, and where it leads; empty: 400.
fn check(gateway: &Gateway, cases: &[(Value, &str, &str)]) {
    for (index, (conf, target, expected)) in cases.iter().enumerate() {
        let route = json!({"uri": "/*", "plugins": {"redirect": conf}});
        put(gateway, "routes/r", &route.to_string());
        let answer = ask(gateway, target, "");
        let found = if answer.status() == 400 { "" } else { answer.header("Location").unwrap_or_default() };
        assert_eq!(found, *expected, "{index}: {conf} {target}");
    }
}

#[test]
fn what_was_asked_for_is_kept() {
    let uri = |text: &str| json!({"uri": text, "ret_code": 302});
    let encoded = |text: &str| json!({"uri": text, "ret_code": 302, "encode_uri": true});
    let regex = |with: &str| json!({"regex_uri": ["^/(.*)$", with], "ret_code": 302});
    check(
        &gateway("  match_uri_encoded_slash: true\n"),
        &[
            (uri("$uri/y"), "/a%2Fb", "/a%2Fb/y"),
            (uri("$uri/y"), "/a%252Fb", "/a%252Fb/y"),
            (uri("$uri/y"), "/a%2Fb%252Fc%253F%3F", "/a%2Fb%252Fc%253F%3F/y"),
            (uri("/x$request_uri"), "/a%252Fb?c=%2F", "/x/a%252Fb?c=%2F"),
            (encoded("$uri/y"), "/a%2Fb%252Fc", "/a%2Fb%252Fc/y"),
            (regex("/x/$1"), "/a%2Fb", "/x/a%2Fb"),
            (regex("/x/$1"), "/a%252Fb", "/x/a%252Fb"),
            (json!({"regex_uri": ["^/(.*)$", "/x/$1"], "encode_uri": true}), "/a%252Fb", "/x/a%252Fb"),
            // Which of them a group has caught, nobody can say.
            (regex("/x/$1"), "/a%2Fb%252Fc", ""),
            (regex("/x"), "/a%2Fb%252Fc", "/x"),
        ],
    );
    // As in APISIX, where no route tells them apart.
    check(
        &gateway(""),
        &[
            (uri("$uri/y"), "/a%252Fb", "/a%2Fb/y"),
            (regex("/x/$1"), "/a%252Fb", "/x/a%2Fb"),
            (regex("/x/$1"), "/a%3Fb", "/x/a%3Fb"),
        ],
    );
}
