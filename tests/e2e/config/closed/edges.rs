//! What a second stranger found: names, conditions and texts that look right and guard nothing, and questions that leave
//! out what the upstream gets.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream};

use super::{OPEN, admin, ask, put, refused, rejected, status};

fn warning(gateway: &Gateway, path: &str, object: &Value) -> String {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

/// A route that answers `open` behind these plugins.
fn behind(plugins: Value) -> Value {
    let mut plugins = plugins;
    plugins["mocking"] = json!({"response_example": "open"});
    json!({"uri": "/guarded", "plugins": plugins})
}

#[test]
fn dots_at_the_end_of_a_referer_do_not_count() {
    let gateway = Gateway::start(EMBEDDED, None);
    let conf = json!({"blacklist": ["evil.com", "*.bad.com", "dot.com."], "_meta": {"priority": 20_000}});
    put(&gateway, "routes/1", &behind(json!({"referer-restriction": conf})).to_string());
    for referer in ["evil.com", "evil.com.", "evil.com.:80", "x.bad.com.", "dot.com", "dot.com."] {
        let answer = ask(&gateway, "/guarded", &format!("Referer: http://{referer}/\r\n"));
        assert_eq!(answer.status(), 403, "{referer}");
    }
    assert_eq!(ask(&gateway, "/guarded", "Referer: http://good.com./\r\n").status(), 200);
    let port = json!({"blacklist": ["evil.com:80"]});
    let why = refused(&gateway, "PUT", "routes/2", &behind(json!({"referer-restriction": port})).to_string());
    assert!(why.contains("without their port; write evil.com"), "{why}");
}

#[test]
fn any_host_is_also_none() {
    let routes = format!(
        "routes:\n- {{id: open, uri: /*, plugins: {{{OPEN}}}}}\n\
         - {{id: guard, uri: /*, host: '*', priority: 10, plugins: {{key-auth: {{}}}}}}\n"
    );
    for router in ["radixtree_host_uri", "radixtree_uri", "radixtree_uri_with_parameter"] {
        let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n  router: {{http: {router}}}\n"));
        let gateway = Gateway::start(&config, Some(&routes));
        for request in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n",
        ] {
            let answer = gateway.client().request(request).expect("an answer");
            assert_eq!(answer.status(), 401, "{router} {request:?}");
        }
    }
}

#[test]
fn what_guards_nothing_is_warned_of() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (hosts, wanted) in [
        (json!(["::1"]), "write [::1]"),
        (json!([".example"]), "write example and *.example"),
        (json!([".."]), "host .. matches no request"),
        (json!(["[::1]", "a.example.", "*.b"]), ""),
    ] {
        let route = json!({"uri": "/h", "hosts": hosts, "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        let told = warning(&gateway, "routes/h", &route);
        assert!(if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) }, "{hosts}: {told}");
    }
    for (condition, wanted) in [
        (json!(["host", "==", "A.example"]), "write a.example"),
        (json!(["arg_x", "in", [1, 2]]), "arg_x is a text"),
        (json!(["arg_x", "==", true]), "arg_x is a text"),
        (json!(["arg_x", "has", "1"]), "has works on lists"),
        (json!(["remote_addr", "==", "127.0.0.0/8"]), "use ipmatch"),
        (json!(["args_x", "==", "1"]), "write arg_x"),
        (json!(["HTTP_X_FOO", "==", "1"]), "write http_x_foo"),
        (json!(["arg_x", "==", "1"]), ""),
    ] {
        let filtered = behind(json!({"key-auth": {"_meta": {"filter": [condition]}}}));
        let routed = json!({"uri": "/v", "vars": [condition], "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        for (id, object) in [("f", filtered), ("v", routed)] {
            let told = warning(&gateway, &format!("routes/{id}"), &object);
            assert!(
                if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) },
                "{object}: {told}"
            );
        }
    }
    for (conf, wanted) in [
        (json!({"key": "$http_x"}), "write http_x"),
        (json!({"key": "http_x", "key_type": "var_combination"}), "write $http_x"),
        (json!({"key": "http_x"}), ""),
    ] {
        let mut conf = conf;
        conf["count"] = 1.into();
        conf["time_window"] = 60.into();
        let route = json!({"uri": "/limited", "plugins": {"limit-count": conf}});
        let told = warning(&gateway, "routes/l", &route);
        assert!(if wanted.is_empty() { told.is_empty() } else { told.contains(wanted) }, "{conf}: {told}");
    }
    let log = gateway.error_log();
    assert!(log.contains("write a.example"), "{log}");
}

#[test]
fn a_text_that_looks_like_a_reference_is_warned_of() {
    let gateway = Gateway::start(EMBEDDED, None);
    for key in ["$env:/API_KEY", "$SECRET://vault/1/a/b", "${API_KEY}", "${{API_KEY}}"] {
        let consumer = json!({"username": "v", "plugins": {"key-auth": {"key": key}}});
        let told = warning(&gateway, "consumers/v", &consumer);
        assert!(told.contains("plugins.key-auth.key is used literally"), "{key}: {told}");
    }
    let consumer = json!({"username": "v", "plugins": {"key-auth": {"key": "plain"}}});
    assert_eq!(warning(&gateway, "consumers/v", &consumer), "");
}

#[test]
fn settings_that_restrict_nobody_are_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (plugins, wanted) in [
        (
            json!({"key-auth": {}, "consumer-restriction": {"allowed_by_methods": [{"methods": ["POST"]}]}}),
            "names no user",
        ),
        (json!({"sla": {}}), "would limit no consumer"),
        (json!({"limit-count": {"count": "abc", "time_window": 1}}), "neither a whole number above 0"),
        (json!({"limit-count": {"count": "-1", "time_window": 1}}), "neither a whole number above 0"),
        (json!({"ip-restriction": {"whitelist": ["127.0.0.0/33"]}}), ""),
    ] {
        let why = refused(&gateway, "PUT", "routes/1", &behind(plugins).to_string());
        assert!(why.contains(wanted), "{why}");
    }
    let filter = json!({"key-auth": {"_meta": {"filter": [["remote_addr", "ipmatch", ["127.0.0.0/33"]]]}}});
    let why = refused(&gateway, "PUT", "routes/1", &behind(filter).to_string());
    assert!(why.contains("its mask is /33"), "{why}");
}

#[test]
fn an_address_that_nobody_can_be_asked_at_is_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    for uri in [
        "127.0.0.1:21150/auth",
        "/auth",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:99999/",
        "http://",
        "unix:/x",
        "http:/127.0.0.1",
        " http://127.0.0.1/",
        "http://127.0.0.1/auth ",
        "http://[::1/",
    ] {
        let conf = json!({"forward-auth": {"uri": uri, "allow_degradation": true}});
        let why = refused(&gateway, "PUT", "routes/1", &behind(conf).to_string());
        assert!(why.contains("bad URL"), "{uri}: {why}");
    }
}

/// Who is asked sees each line that the upstream gets, and those that it may take for the same.
#[test]
fn a_question_has_each_line_of_a_field() {
    let (service, upstream) = (Upstream::start(), Upstream::start());
    let gateway = Gateway::start(EMBEDDED, None);
    let conf =
        json!({"uri": format!("http://{}/", service.address), "request_headers": ["X-Tenant", "Cookie"]});
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = json!({"uri": "/asked", "plugins": {"forward-auth": conf}, "upstream": node});
    put(&gateway, "routes/1", &route.to_string());
    let fields = "X-Tenant: t1\r\nX-Tenant: t2\r\nX_Tenant: t3\r\nCookie: a=1\r\nCookie: b=2\r\n";
    assert_eq!(ask(&gateway, "/asked", fields).status(), 200);
    let asked = service.take();
    let question = asked.first().expect("it is asked").text();
    for line in ["X-Tenant: t1", "X-Tenant: t2", "X_tenant: t3", "Cookie: a=1", "Cookie: b=2"] {
        assert!(question.contains(line), "{line}: {question}");
    }
}

/// An expression that looks at the whole text with each step is given up after a total of bytes.
#[test]
fn expressions_that_look_ahead_end_in_time() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (id, pattern) in [
        ("bot", "(?i)(?!.*googlebot).*bot"),
        ("sql", "(?i)(?=.*union)(?=.*select)"),
        ("far", "(?:(?!.*foo).)*baz"),
        ("atom", "(?>a+)+b"),
    ] {
        let plugins =
            json!({"ua-restriction": {"denylist": [pattern]}, "mocking": {"response_example": "open"}});
        let plugins = json!({"ua-restriction": plugins["ua-restriction"], "mocking": plugins["mocking"]});
        put(
            &gateway,
            &format!("routes/{id}"),
            &json!({"uri": format!("/{id}"), "plugins": plugins}).to_string(),
        );
        let begun = Instant::now();
        let _ = ask(&gateway, &format!("/{id}"), &format!("User-Agent: {}\r\n", "a".repeat(30_000)));
        assert!(begun.elapsed() < Duration::from_secs(3), "{id}: {:?}", begun.elapsed());
    }
    assert!(!gateway.error_log().contains("stuck"), "{}", gateway.error_log());
    let groups = json!({"uri-blocker": {"block_rules": [format!("{}\\65b", "(a)".repeat(65))]}});
    let why = refused(&gateway, "PUT", "routes/groups", &behind(groups).to_string());
    assert!(why.contains("at most 64"), "{why}");
    assert_eq!(status(&gateway, "/nothing"), 404);
}

#[test]
fn made_answers_are_bounded() {
    let gateway = Gateway::start(EMBEDDED, None);
    let mut schema = json!({"type": "string"});
    for _ in 0..30 {
        schema = json!({"type": "array", "items": schema});
    }
    let mocking = json!({"response_schema": {"type": "object", "properties": {"a": schema}}});
    put(&gateway, "routes/deep", &json!({"uri": "/deep", "plugins": {"mocking": mocking}}).to_string());
    let named = json!({"response_example": "$request_uri".repeat(20_000)});
    put(&gateway, "routes/wide", &json!({"uri": "/wide/*", "plugins": {"mocking": named}}).to_string());
    let deep = ask(&gateway, "/deep", "");
    assert!(deep.status() == 200 && deep.body_text().len() < 1 << 20, "{}", deep.body_text().len());
    let wide = ask(&gateway, &format!("/wide/{}", "x".repeat(10_000)), "");
    assert!(wide.status() == 200 && wide.body_text().len() <= 2 << 20, "{}", wide.body_text().len());
    assert!(gateway.error_log().contains("the rest is left out"), "{}", gateway.error_log());
}

#[test]
fn what_would_be_ignored_is_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (plugins, wanted) in [
        (
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {"_meta": {"disable": true}}}, {"basic-auth": {}}]}}),
            "_meta has no effect",
        ),
        (json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {}]}}), "auth_plugins[1] names no plugin"),
        (
            json!({"acl": {"deny_labels": {"g": ["dev"]}, "external_user_label_field": "$.r.g[0:1]"}}),
            "are not supported",
        ),
        (
            json!({"acl": {"deny_labels": {"g": ["dev"]}, "external_user_label_field": "$.r.g[?(@)]"}}),
            "are not supported",
        ),
        (
            json!({"acl": {"deny_labels": {"g": ["dev"]}, "external_user_label_field": "groups",
                   "external_user_label_field_parser": "segmented_text", "external_user_label_field_separator": "|"}}),
            "cuts everywhere",
        ),
    ] {
        let why = refused(&gateway, "PUT", "routes/1", &behind(plugins.clone()).to_string());
        assert!(why.contains(wanted), "{plugins}: {why}");
    }
    let filter = json!({"key": "ed-key", "_meta": {"filter": [["remote_addr", "==", "9.9.9.9"]]}});
    let consumer = json!({"username": "ed", "plugins": {"key-auth": filter}});
    let why = refused(&gateway, "PUT", "consumers/ed", &consumer.to_string());
    assert!(why.contains("_meta.filter has no effect"), "{why}");
    let script = "local _M = {} function _M.acess() ngx.exit(403) end return _M";
    let route = json!({"uri": "/s", "script": script});
    let why = refused(&gateway, "PUT", "routes/s", &route.to_string());
    assert!(why.contains("none of the functions that run"), "{why}");
}

/// A table without a function guards nothing; a phase that is not a function is an error at each request in APISIX.
#[test]
fn a_script_with_nothing_to_run_is_refused() {
    let upstream = Upstream::service(|_| (200, OPEN.to_owned()));
    let node = upstream.address.to_string();
    let route =
        |script: &str| json!({"id": "s", "uri": "/s", "script": script, "upstream": {"nodes": {&node: 1}}});
    let gateway = Gateway::start(EMBEDDED, None);
    for (script, why) in [
        ("local _M = {} return _M", "none of the functions that run"),
        ("return {access = 'ngx.exit(403)'}", "its access should be a function, not a string"),
        ("return {access = function() end, log = {}}", "its log should be a function, not a table"),
    ] {
        let text = refused(&gateway, "PUT", "routes/s", &route(script).to_string());
        assert!(text.contains(why), "{script}: {text}");
        let file = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": [route(script)]}).to_string()));
        assert_eq!(status(&file, "/s"), 503, "{script}");
        assert!(rejected(&file).iter().any(|(object, reason)| object == "routes/s" && reason.contains(why)));
    }
    for script in [
        "return {access = function() ngx.exit(403) end, rewrite = false}",
        "return setmetatable({}, {__index = {access = function() ngx.exit(403) end}})",
    ] {
        put(&gateway, "routes/s", &route(script).to_string());
        assert_eq!(status(&gateway, "/s"), 403, "{script}");
    }
}

/// What may be all that guards a route, with the `return` forgotten: APISIX serves the route without it.
#[test]
fn a_script_without_a_table_shuts_its_route() {
    let upstream = Upstream::service(|_| (200, OPEN.to_owned()));
    let script = "local _M = {} function _M.access() ngx.exit(403) end";
    let route = json!({"id": "s", "uri": "/s", "script": script, "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": [route]}).to_string()));
    assert_eq!(status(&gateway, "/s"), 503);
    gateway.wait_for_log("'script' should be a Lua object");
    let found = rejected(&gateway);
    assert!(found.iter().any(|(object, _)| object == "routes/s"), "{found:?}");
}
