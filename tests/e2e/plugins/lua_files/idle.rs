//! Functions that are never called and schemas that check nothing are named where the file is loaded and where it is used.

use serde_json::json;

use super::kit::{Fixture, get, send};

fn plugin(fields: &str, rest: &str) -> String {
    format!(
        "local _M = {{version = 1, priority = 1500, schema = {{type = 'object'}}, {fields}}}\n{rest}\nreturn _M"
    )
}

/// Name, file, and what is said of it: the line, and the text.
fn cases() -> Vec<(&'static str, String, &'static str)> {
    let guard = |name: &str| format!("function _M.log() end\nfunction _M.{name}(conf, ctx) return 403 end");
    let schema = |schema: &str| {
        format!(
            "local _M = {{version = 1, priority = 1, schema = {{type = 'object',\n{schema}}}}}\nfunction _M.access() end\nreturn _M"
        )
    };
    let spare = "function _M.log() return _M.words, _M.helper() end\n_M.words = {}\nfunction _M.helper() end\nfunction _M.destroy() end";
    vec![
        ("my-acess", plugin("", &guard("acess")), ":3: acess is never called; did you mean access?"),
        ("my-upper", plugin("", &guard("Access")), ":3: Access is never called; did you mean access?"),
        (
            "my-preread",
            plugin("", &guard("preread")),
            ":3: preread is never called: the functions that run are rewrite, ",
        ),
        (
            "my-guard",
            plugin("", &guard("check_access")),
            ":3: check_access is never called; did you mean access?",
        ),
        (
            "my-check",
            plugin("", &guard("check_shema")),
            ":3: check_shema is never called; did you mean check_schema?",
        ),
        (
            "my-consumers",
            plugin("consumer_shema = {}", "function _M.access() end"),
            ":1: consumer_shema is never read; did you mean consumer_schema?",
        ),
        (
            "my-false",
            plugin("", "function _M.log() end\n_M.access = false"),
            ":3: access is false, so nothing runs in that phase",
        ),
        ("my-nothing", plugin("", ""), "my-nothing.lua: it has none of the functions that run: "),
        (
            "my-name",
            plugin("name = 'other'", "function _M.log() end"),
            ":1: its name is \"other\", and it is used as my-name",
        ),
        (
            "my-required",
            schema("requried = {'word'}"),
            ":2: schema at #: \"requried\" is not a keyword of JSON Schema and checks nothing; did you mean required?",
        ),
        (
            "my-nested",
            schema("properties = {\nword = {type = 'string', minLenght = 1}}"),
            ":3: schema at #/properties/word: \"minLenght\" is not a keyword",
        ),
        (
            "my-local",
            plugin("", "function _M.log() end\nlocal function access(conf, ctx) return 403 end"),
            ":3: access is not a member of the module, and is never called; write function _M.access(conf, ctx)",
        ),
        (
            "my-control",
            plugin("", "function _M.log() end\nfunction _M.control_api() end"),
            ":3: control_api is never called: the functions that run are ",
        ),
        ("my-spare", plugin("name = 'my-spare'", spare), ""),
        ("my-secret", schema("encrypt_fields = {'word'}, properties = {word = {type = 'string'}}"), ""),
    ]
}

#[test]
fn what_of_a_file_does_nothing_is_named() {
    let cases = cases();
    let paths: Vec<String> = cases.iter().map(|(name, ..)| format!("apisix/plugins/{name}.lua")).collect();
    let files: Vec<(&str, &str)> =
        paths.iter().zip(&cases).map(|(path, case)| (path.as_str(), case.1.as_str())).collect();
    let names: Vec<&str> = cases.iter().map(|(name, ..)| *name).chain(["mocking"]).collect();
    let fixture = Fixture::with_admin(&files, &names, "");
    let gateway = &fixture.gateway;
    let log = gateway.error_log();
    let verbs = ["test", "reload", "upgrade", "doctor"].map(|verb| (verb, gateway.verb(verb).1));
    for (name, _, expected) in &cases {
        let said_by = |text: &str| match expected.is_empty() {
            true => text.contains(&format!("{name}.lua")),
            false => text.contains(&format!("{name}.lua{expected}")) || text.contains(expected),
        };
        for (from, text) in verbs.iter().chain(&[("start", log.clone())]) {
            assert_eq!(said_by(text), !expected.is_empty(), "{name} by {from}: {text}");
        }
        let body =
            json!({"uri": "/a", "plugins": {*name: {}, "mocking": {"response_example": "a"}}}).to_string();
        let put = format!(
            "PUT /apisix/admin/routes/{name} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            tidegate_testkit::gateway::ADMIN_KEY,
            body.len()
        );
        let mut admin = tidegate_testkit::Client::connect(gateway.admin).expect("a connection");
        let answer = admin.request(&put).expect("an answer");
        let warning = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(matches!(answer.status(), 200 | 201), "{name}: {}", answer.body_text());
        assert_eq!(said_by(warning), !expected.is_empty(), "{name}: {warning:?}");
    }
}

/// It was meant to guard, and nothing of it would run.
#[test]
fn a_file_with_no_other_function_than_a_misspelled_one_refuses() {
    let only = plugin("", "function _M.acess(conf, ctx) return 403 end");
    let mocked = json!({"response_example": "a"});
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-only": {}, "mocking": mocked}}, {"id": 2, "uri": "/b", "plugins": {"mocking": mocked}}]});
    let fixture =
        Fixture::start(&[("apisix/plugins/my-only.lua", &only)], &["my-only", "mocking"], "", &objects);
    assert_eq!((get(&fixture.gateway, "/a").status(), get(&fixture.gateway, "/b").status()), (503, 200));
    let reason = "none of its functions runs: ";
    let log = fixture.gateway.error_log();
    assert!(
        log.contains(reason) && log.contains("my-only.lua:2: acess is never called; did you mean access?"),
        "{log}"
    );
    for verb in ["test", "reload", "doctor"] {
        let (ok, said) = fixture.gateway.verb(verb);
        assert!((verb == "reload" || !ok) && said.contains(reason), "{verb}: {said}");
    }
}

/// Slips that leave a plugin without a function that runs as it is meant to.
#[test]
fn a_file_whose_functions_cannot_run_refuses() {
    let slips = [
        (
            "my-local",
            "local function access(conf, ctx) return 403 end",
            "my-local.lua:2: access is not a member",
        ),
        ("my-colon", "function _M:access(conf, ctx) return 403 end", "my-colon.lua:2: access has a colon"),
        (
            "my-gone",
            "function _M.access(conf, ctx) return 403 end\nfunction _M.init() _M.access = nil end",
            "access is gone after init()",
        ),
    ];
    for (name, text, reason) in slips {
        let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {name: {}, "mocking": {"response_example": "a"}}}]});
        let path = format!("apisix/plugins/{name}.lua");
        let fixture = Fixture::start(&[(&path, &plugin("", text))], &[name, "mocking"], "", &objects);
        assert_eq!(get(&fixture.gateway, "/a").status(), 503, "{name}");
        let (ok, said) = fixture.gateway.verb("test");
        assert!(!ok && said.contains(reason), "{name}: {said}");
    }
    // With one parameter, `self` is the configuration: it runs.
    let right = plugin("", "function _M:rewrite(ctx) return 403 end");
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-right": {}, "mocking": {"response_example": "a"}}}]});
    let fixture =
        Fixture::start(&[("apisix/plugins/my-right.lua", &right)], &["my-right", "mocking"], "", &objects);
    assert_eq!(get(&fixture.gateway, "/a").status(), 403);
}

#[test]
fn messages_about_a_file_name_the_field_and_its_place() {
    let kinds =
        "local _M = {version = 1,\npriority = 'high', schema = {}}\nfunction _M.access() end\nreturn _M";
    let check = plugin("", "function _M.check_schema() end\nfunction _M.access() return 403 end");
    let files = [("apisix/plugins/my-kinds.lua", kinds), ("apisix/plugins/my-check.lua", check.as_str())];
    let fixture = Fixture::with_admin(&files, &["my-kinds", "my-check"], "");
    let log = fixture.gateway.error_log();
    assert!(
        log.contains("my-kinds.lua:2: invalid plugin: priority should be a number, not a string"),
        "{log}"
    );
    let route = json!({"uri": "/a", "plugins": {"my-check": {}}}).to_string();
    let (status, said) = fixture.gateway.admin("PUT", "/apisix/admin/routes/1", &route);
    let reason =
        "my-check.lua:2: check_schema returned nothing; it should return true, or false and a reason";
    assert!(status == 400 && said.contains(reason), "{status} {said}");
    let _ = send(&fixture.gateway, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
}
