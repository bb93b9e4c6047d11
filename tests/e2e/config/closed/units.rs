//! What a field is in: a remedy that names another unit than the field's makes a guard refuse everybody, or nobody.

use serde_json::json;
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

use super::{ask, put, refused};

#[test]
fn a_remedy_names_the_unit_of_its_field() {
    let gateway = Gateway::start(EMBEDDED, None);
    let logger = json!({"host": "127.0.0.1", "port": 1, "timeout": "3s"});
    for (plugin, conf, wanted) in [
        (
            "forward-auth",
            json!({"uri": "http://127.0.0.1:1/", "timeout": "3s"}),
            "write a whole number of milliseconds, without unit and quotes: 3000",
        ),
        (
            "opa",
            json!({"host": "http://127.0.0.1:1", "policy": "p", "timeout": "3s"}),
            "milliseconds, without",
        ),
        ("authz-keycloak", json!({"client_id": "a", "timeout": "3s"}), "milliseconds, without"),
        (
            "aws-lambda",
            json!({"function_uri": "http://127.0.0.1:1/", "timeout": "3s"}),
            "milliseconds, without",
        ),
        ("tcp-logger", logger.clone(), "a whole number of milliseconds, without unit and quotes: 1000"),
        ("syslog", logger, "milliseconds, without"),
        (
            "forward-auth",
            json!({"uri": "http://127.0.0.1:1/", "keepalive_timeout": "60s"}),
            "milliseconds, without unit and quotes: 60000",
        ),
        (
            "http-logger",
            json!({"uri": "http://127.0.0.1:1/", "timeout": "3s"}),
            "write a whole number of seconds, without unit and quotes: 3",
        ),
    ] {
        let route = json!({"uri": "/t", "plugins": {plugin: conf}}).to_string();
        let told = refused(&gateway, "PUT", "routes/t", &route);
        assert!(told.contains(wanted), "{plugin}: {told}");
    }
    let route = json!({"uri": "/t", "timeout": {"connect": "3s", "send": 1, "read": 1}}).to_string();
    let told = refused(&gateway, "PUT", "routes/t", &route);
    assert!(told.contains("a number of seconds, without unit and quotes: 3 or 0.5"), "{told}");
}

/// A cookie that a browser drops at once would keep it from every `POST`.
#[test]
fn a_token_without_a_limit_is_in_a_cookie_without_an_end() {
    let gateway = Gateway::start(EMBEDDED, None);
    for expires in [0, -1, 60] {
        let plugins = json!({"csrf": {"key": "k", "expires": expires}, "response-rewrite": {}});
        let route = json!({"uri": "/c", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        put(&gateway, "routes/c", &route.to_string());
        let answer = ask(&gateway, "/c", "");
        let cookie = answer.header("Set-Cookie").expect("a cookie").to_owned();
        assert_eq!(cookie.contains("Expires="), expires > 0, "{expires}: {cookie}");
        assert!(cookie.contains(";path=/;SameSite=Lax"), "{cookie}");
    }
}
