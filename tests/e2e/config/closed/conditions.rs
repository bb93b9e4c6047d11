//! Conditions that nobody can judge: refused when they are written, and the request is refused where they turn out so.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

use super::{OPEN, ask, is_rejected, put, refused, status};

/// Each can never hold as it is written, so that what it is a condition of would never run.
fn broken() -> Vec<Value> {
    vec![
        json!([["uri", "~~", "("]]),
        json!([["uri", "~*", "["]]),
        json!([["uri", "!", "~~", "("]]),
        json!(["OR", ["uri", "~~", "["], ["uri", "==", "/a"]]),
        json!([["uri", "~~"]]),
        json!([["uri", "=="]]),
        json!([["uri", "~~", ["/a"]]]),
        json!([["uri", "==", ["/a"]]]),
        json!([["uri", "in", "/a"]]),
        json!([["uri", "in", []]]),
        json!([["$uri", "~~", "/"]]),
        json!([["(", "==", "/"]]),
        json!([["arg_a", ">", "many"]]),
        json!([[1, "==", "/a"]]),
    ]
}

/// Every place of a condition; `@` is the condition.
const PLACES: &[(&str, &str)] = &[
    ("routes/1", r#"{"uri":"/a","vars":@,"plugins":{"key-auth":{}}}"#),
    ("routes/1", r#"{"uri":"/a","plugins":{"key-auth":{"_meta":{"filter":@}}}}"#),
    ("services/1", r#"{"plugins":{"key-auth":{"_meta":{"filter":@}}}}"#),
    ("plugin_configs/1", r#"{"plugins":{"key-auth":{"_meta":{"filter":@}}}}"#),
    ("global_rules/1", r#"{"plugins":{"key-auth":{"_meta":{"filter":@}}}}"#),
    (
        "routes/1",
        r#"{"uri":"/a","plugins":{"workflow":{"rules":[{"case":@,"actions":[["return",{"code":403}]]}]}}}"#,
    ),
    ("routes/1", r#"{"uri":"/a","plugins":{"fault-injection":{"abort":{"http_status":403,"vars":[@]}}}}"#),
    (
        "routes/1",
        r#"{"uri":"/a","plugins":{"traffic-split":{"rules":[{"match":[{"vars":@}],"weighted_upstreams":[{"weight":1}]}]}}}"#,
    ),
    ("routes/1", r#"{"uri":"/a","plugins":{"response-rewrite":{"vars":@,"body":"x"}}}"#),
];

#[test]
fn a_condition_that_can_never_hold_is_not_stored() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (path, object) in PLACES {
        for condition in broken() {
            refused(&gateway, "PUT", path, &object.replace('@', &condition.to_string()));
        }
        put(&gateway, path, &object.replace('@', r#"[["uri","~~","^/a"],["arg_a","!","in",["1"]]]"#));
        assert_eq!(gateway.admin("DELETE", &format!("/apisix/admin/{path}"), "").0, 200);
    }
}

#[test]
fn in_a_file_it_keeps_its_place_shut() {
    for condition in broken() {
        let routes = format!(
            "routes:\n- {{id: open, uri: /*, plugins: {{{OPEN}}}}}\n\
             - {{id: guard, uri: /a, vars: {condition}, plugins: {{key-auth: {{}}}}}}\n\
             - {{id: filter, uri: /b, plugins: {{{OPEN}, key-auth: {{_meta: {{filter: {condition}}}}}}}}}\n"
        );
        let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
        assert_eq!(status(&gateway, "/c"), 200, "{condition}");
        for (path, object) in [("/a", "routes/guard"), ("/b", "routes/filter")] {
            assert_eq!(status(&gateway, path), 503, "{path} {condition}: {}", gateway.error_log());
            assert!(is_rejected(&gateway, object), "{object} {condition}");
        }
    }
}

/// Patterns that backtrack: one finds what it looks for in a few steps, and gives up on a padded request.
#[test]
fn a_pattern_that_gives_up_refuses_the_request() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    let node = format!(r#""upstream":{{"nodes":{{"{}":1}}}}"#, upstream.address);
    let padding = "'a".repeat(2000);
    let slow = r#"(['\"])[^<]*\\1="#;
    let routes = [
        (
            "blocker",
            format!(
                r#"{{"uri":"/blocker/*",{node},"plugins":{{"uri-blocker":{{"block_rules":["{slow}","admin"]}}}}}}"#
            ),
        ),
        (
            "agent",
            format!(
                r#"{{"uri":"/agent/*",{node},"plugins":{{"ua-restriction":{{"denylist":["{slow}","admin"]}}}}}}"#
            ),
        ),
        (
            "only",
            format!(
                r#"{{"uri":"/only/*",{node},"plugins":{{"ua-restriction":{{"allowlist":["{slow}","admin"]}}}}}}"#
            ),
        ),
        (
            "workflow",
            format!(
                r#"{{"uri":"/workflow/*",{node},"plugins":{{"workflow":{{"rules":[{{"case":[["http_user_agent","~~","{slow}|admin"]],"actions":[["return",{{"code":403}}]]}}]}}}}}}"#
            ),
        ),
        (
            "filter",
            format!(
                r#"{{"uri":"/filter/*",{node},"plugins":{{"key-auth":{{"_meta":{{"filter":[["http_user_agent","~~","{slow}|admin"]]}}}}}}}}"#
            ),
        ),
        ("open", format!(r#"{{"uri":"/*",{node}}}"#)),
        (
            "guard",
            format!(
                r#"{{"uri":"/guard/*","vars":[["http_user_agent","~~","{slow}|admin"]],{node},"plugins":{{"key-auth":{{}}}}}}"#
            ),
        ),
        (
            "rewrite",
            format!(
                r#"{{"uri":"/rewrite/*",{node},"plugins":{{"redirect":{{"regex_uri":["^/rewrite/.*{slow}(.*)","/$1"]}}}}}}"#
            ),
        ),
    ];
    for (id, route) in &routes {
        put(&gateway, &format!("routes/{id}"), route);
    }
    for (target, agent, expected) in [
        ("/blocker/admin", "x", 403),
        ("/blocker/x", "x", 200),
        ("/blocker/@/admin", "x", 403),
        ("/agent/x", "@admin", 403),
        ("/only/x", "@", 403),
        ("/only/x", "@admin", 200),
        ("/only/x", "admin", 200),
        ("/workflow/x", "admin", 403),
        ("/workflow/x", "@admin", 500),
        ("/filter/x", "admin", 401),
        ("/filter/x", "@admin", 500),
        ("/guard/x", "admin", 401),
        ("/guard/x", "x", 200),
        ("/guard/x", "@admin", 500),
        ("/rewrite/@x", "x", 500),
    ] {
        let (target, agent) = (target.replace('@', &padding), agent.replace('@', &padding));
        let answer = ask(&gateway, &target, &format!("User-Agent: {agent}\r\n"));
        let shown = |text: &str| text.chars().take(30).collect::<String>();
        assert_eq!(answer.status(), expected, "{} {}", shown(&target), shown(&agent));
    }
    let log = gateway.error_log();
    assert!(log.contains("took too long") && log.contains("Avoid back-references"), "{log}");
}

#[test]
fn a_filter_func_that_fails_refuses_the_request() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/open", &format!(r#"{{"uri":"/v/*","plugins":{{{OPEN}}}}}"#));
    for (function, target) in [
        (r"function(vars) return vars.http_user_agent:find('curl') == nil or true end", "/v/admin"),
        (r"function(vars) return tonumber(vars.arg_n) < 5 end", "/v/admin"),
        (r"function(vars) while true do end end", "/v/admin"),
        (r"function(vars) error('x') end", "/v/admin"),
    ] {
        let guard = json!({"uri": "/v/admin", "filter_func": function,
            "plugins": {"mocking": {"response_example": "x"}, "key-auth": {}}});
        put(&gateway, "routes/guard", &guard.to_string());
        assert_eq!(status(&gateway, target), 500, "{function}: {}", gateway.error_log());
        assert_eq!(status(&gateway, "/v/other"), 200, "{function}");
    }
}
