//! Guards that are accepted and never run: functions of a script that nobody calls, conditions that no request meets. The
//! write says so, and so does the log for what comes from a file.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

use super::{OPEN, admin, ask, is_rejected, put, refused, status};

/// What a write is warned of.
fn warning(gateway: &Gateway, path: &str, object: &Value) -> Option<String> {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").map(str::to_owned)
}

const DENY: &str = "function() ngx.exit(403) end";

/// Members of a script beside one that runs, and what is said of them.
fn members() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("misspelled", format!("acess = {DENY}"), "acess is never called; did you mean access?"),
        ("number", format!("[1] = {DENY}"), "the member [1] is never called"),
        ("preread", format!("preread = {DENY}"), "preread is never called"),
        ("balancer", format!("balancer = {DENY}"), "balancer is never called"),
        ("inside", format!("access_phase = {DENY}"), "access_phase is never called; did you mean access?"),
        ("false", "access = false".to_owned(), "access is false"),
        (
            "callable",
            format!("acces = setmetatable({{}}, {{__call = {DENY}}})"),
            "acces is never called; did you mean access?",
        ),
    ]
}

#[test]
fn a_member_of_a_script_that_nobody_calls_is_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    let route = |id: &str, script: &str| {
        let nodes = json!({upstream.address.to_string(): 1});
        json!({"uri": format!("/{id}"), "script": script, "upstream": {"type": "roundrobin", "nodes": nodes}})
    };
    let mut routes = "routes:\n".to_owned();
    for (id, member, wanted) in members() {
        let script = format!("return {{ log = function() end, {member} }}");
        let told = warning(&gateway, &format!("routes/{id}"), &route(id, &script)).unwrap_or_default();
        assert!(told.contains(wanted), "{member}: {told}");
        routes += &format!("- {}\n", route(id, &script));
    }
    for script in [
        "local _M = { version = 0.1, name = 'mine' } function _M.allowed() return true end \
         function _M.access() if not _M.allowed() then ngx.exit(403) end end return _M",
        "return { log = function() end, access = nil }",
    ] {
        assert_eq!(warning(&gateway, "routes/fine", &route("fine", script)), None, "{script}");
    }
    let file = Gateway::start(YAML_PROVIDER, Some(&routes));
    for (_, _, wanted) in members() {
        file.wait_for_log(wanted);
    }
}

#[test]
fn a_table_that_can_be_called_is_called() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    let route = |script: &str| {
        let nodes = json!({upstream.address.to_string(): 1});
        json!({"uri": "/t", "script": script, "upstream": {"type": "roundrobin", "nodes": nodes}}).to_string()
    };
    for (wait, expected) in [("", 403), ("ngx.sleep(0.001)", 403)] {
        let call = format!("setmetatable({{}}, {{__call = function() {wait} ngx.exit(403) end}})");
        put(&gateway, "routes/1", &route(&format!("return {{ access = {call} }}")));
        assert_eq!(status(&gateway, "/t"), expected, "{wait}: {}", gateway.error_log());
    }
    let reason = refused(&gateway, "PUT", "routes/1", &route("return { access = setmetatable({}, {}) }"));
    assert!(reason.contains("access should be a function, not a table"), "{reason}");
    let routes = "routes:\n- {id: s, uri: /s, script: 'return { access = setmetatable({}, {}), log = function() end }'}\n";
    let file = Gateway::start(YAML_PROVIDER, Some(routes));
    assert_eq!(status(&file, "/s"), 503);
    assert!(is_rejected(&file, "routes/s"));
}

fn never() -> Vec<(Value, &'static str)> {
    vec![
        (json!(["uri", "==", null]), "uri has a value in every request"),
        (json!(["server_port", "==", "080"]), "write 80"),
        (json!(["server_port", "in", ["28990 "]]), "write 28990"),
        (json!(["host", "~~", r"^A\.T$"]), "names are lowercase"),
        (json!(["host", "==", "a.t."]), "write a.t"),
        (json!(["status", "in", [403]]), "write \"403\""),
        (json!(["scheme", "==", "HTTPS"]), "write https"),
        (json!(["remote_addr", "==", "localhost"]), "it is an IP address"),
        (json!(["request_method", "~~", "get"]), "methods are uppercase"),
    ]
}

#[test]
fn a_condition_that_no_request_meets_is_told() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (condition, wanted) in never() {
        for (place, object) in [
            ("vars", json!({"vars": [condition], "plugins": {"key-auth": {}}})),
            ("filter", json!({"plugins": {"key-auth": {"_meta": {"filter": [condition]}}}})),
            (
                "case",
                json!({"plugins": {"workflow": {"rules": [{"case": [condition], "actions": [["return", {"code": 403}]]}]}}}),
            ),
            (
                "fault",
                json!({"plugins": {"fault-injection": {"abort": {"http_status": 403, "vars": [[condition]]}}}}),
            ),
        ] {
            let mut route = json!({"uri": "/q"});
            route.as_object_mut().expect("a route").extend(object.as_object().expect("fields").clone());
            let told = warning(&gateway, "routes/g", &route).unwrap_or_default();
            assert!(told.contains("never holds") && told.contains(wanted), "{place} {condition}: {told}");
        }
    }
    for condition in [
        json!(["host", "~~", r"(?i)^A\.T$"]),
        json!(["host", "~*", r"^A\.T$"]),
        json!(["host", "~~", r"^\D[A-Z]?t$"]),
        json!(["server_port", "==", gateway.http.port()]),
        json!(["server_port", "==", gateway.http.port().to_string()]),
        json!(["http_x_a", "==", null]),
    ] {
        let route = json!({"uri": "/q", "vars": [condition], "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        assert_eq!(warning(&gateway, "routes/g", &route), None, "{condition}");
    }
}

/// As in APISIX, what is not there is null.
#[test]
fn an_absent_variable_equals_null() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/open", &format!(r#"{{"uri":"/n","plugins":{{{OPEN}}}}}"#));
    for (name, present) in
        [("arg_x", "/n?x=1"), ("http_x_a", "/n"), ("cookie_a", "/n"), ("consumer_name", "")]
    {
        let abort = json!({"http_status": 403, "vars": [[[name, "==", null]]]});
        let guard = json!({"uri": "/n", "priority": 1,
            "plugins": {"fault-injection": {"abort": abort}, "mocking": {"response_example": "open"}}});
        put(&gateway, "routes/guard", &guard.to_string());
        assert_eq!(status(&gateway, "/n"), 403, "{name}");
        let fields = if name == "arg_x" { "" } else { "X-A: 1\r\nCookie: a=1\r\n" };
        if !present.is_empty() {
            assert_eq!(ask(&gateway, present, fields).status(), 200, "{name}");
        }
    }
}
