//! Guards in files hold in whatever form they are written, and nothing that others write takes them away.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tidegate_testkit::{Gateway, Upstream};

use super::kit::{Fixture, config, get, send, write};

/// A plugin whose body is `text`.
fn plugin(name: &str, text: &str) -> String {
    format!(
        "local core = require(\"apisix.core\")\nlocal _M = {{ version = 0.1, priority = 100, name = \"{name}\", \
         schema = {{ type = \"object\" }} }}\n{text}\nreturn _M\n"
    )
}

/// Routes `/NAME` with one of these plugins each.
fn fixture(plugins: &[(&str, &str)], more: &[Value]) -> (Fixture, Upstream) {
    let upstream = Upstream::service(|_| (200, "passed".to_owned()));
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |name: &str, plugins: Value| json!({"id": name, "uri": format!("/{name}"), "plugins": plugins, "upstream": node});
    let mut routes: Vec<Value> =
        plugins.iter().map(|(name, _)| route(name, json!({*name: {"v": "post_arg.a"}}))).collect();
    routes.extend(
        more.iter().map(|plugins| route(plugins["id"].as_str().expect("an id"), plugins["plugins"].clone())),
    );
    let files: Vec<(String, String)> = plugins
        .iter()
        .map(|(name, text)| (format!("apisix/plugins/{name}.lua"), plugin(name, text)))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let mut names: Vec<&str> = plugins.iter().map(|(name, _)| *name).collect();
    names.extend(["serverless-pre-function", "multi-auth", "key-auth"]);
    (Fixture::start(&files, &names, "", &json!({"routes": routes})), upstream)
}

/// Sends the head, and the body only when the head is under way.
fn post_late(gateway: &Gateway, path: &str, body: &str) -> u16 {
    let mut client = gateway.client();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).expect("a head");
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n";
    assert_eq!(client.exactly(interim.len()).expect("an answer"), interim, "{path}");
    client.send(body.as_bytes()).expect("a body");
    client.response().expect("an answer").status()
}

/// No text says that the body is read: a name that is made, one of the configuration, or a function that reads it by itself.
#[test]
fn a_body_is_waited_for_whatever_asks_for_it() {
    let denies =
        |condition: &str| format!("function _M.access(conf, ctx) if {condition} then return 403 end end");
    let json_table = "local t = core.request.get_json_request_body_table() return t and t.a == 'evil'";
    let (by_table, by_name) = (
        denies(&format!("(function() {json_table} end)()")),
        denies("(core.request['get_' .. 'bo' .. 'dy']() or ''):find('evil')"),
    );
    let plugins = [
        ("by-table", by_table.as_str()),
        ("by-name", &by_name),
        ("by-conf", &denies("ctx.var[conf.v] == 'evil'")),
        ("by-template", &denies("core.utils.resolve_var('${' .. conf.v .. '}', ctx.var) == 'evil'")),
        ("by-variable", &denies("(ctx.var.request_body or ''):find('evil')")),
    ];
    let function =
        "return function(conf, ctx) if ctx.var['post' .. '_arg.a'] == 'evil' then return 403 end end";
    let serverless = json!({"id": "serverless", "plugins": {"serverless-pre-function": {"phase": "access", "functions": [function]}}});
    let (fixture, _upstream) = fixture(&plugins, &[serverless]);
    for name in plugins.iter().map(|(name, _)| *name).chain(["serverless"]) {
        let path = format!("/{name}");
        assert_eq!(post_late(&fixture.gateway, &path, r#"{"a":"evil"}"#), 403, "{name}");
        assert_eq!(post_late(&fixture.gateway, &path, r#"{"a":"good"}"#), 200, "{name}");
        assert_eq!(get(&fixture.gateway, &path).status(), 200, "{name}");
    }
}

/// APISIX looks functions up when they run, and runs `init` before: what `init` adds runs. What comes or goes later refuses.
#[test]
fn functions_that_init_adds_run() {
    let plugins = [
        ("added", "function _M.init() _M.access = function() return 403 end end"),
        ("hidden", "function _M.init() _M.header_filter = function() ngx.header['X-Secret'] = nil end end"),
        ("later", "function _M.rewrite() _M.access = function() return 403 end end"),
        ("gone", "function _M.rewrite() _M.access = nil end function _M.access() return 403 end"),
    ];
    let (fixture, _upstream) = fixture(&plugins, &[]);
    for (name, first, second) in
        [("added", 403, 403), ("hidden", 200, 200), ("later", 200, 500), ("gone", 200, 500)]
    {
        let path = format!("/{name}");
        // One worker may not have seen the first.
        let seen: Vec<u16> = (0..8).map(|_| get(&fixture.gateway, &path).status()).collect();
        assert!(seen.iter().all(|status| [first, second].contains(status)), "{name}: {seen:?}");
        assert_eq!(seen.last(), Some(&second), "{name}: {seen:?}");
    }
    fixture.gateway.wait_for_log("its functions are no longer those that it had after init");
}

/// A function of a configuration gets a copy of a plugin, whose functions keep their globals.
#[test]
fn functions_of_configurations_open_no_plugin() {
    let guard =
        "function _M.rewrite(conf, ctx) if #{1, 2} ~= 2 or ipairs == nil then return end return 403 end";
    let takes = [
        "p.rewrite = function() end",
        "rawset(p, 'rewrite', nil)",
        "getfenv(p.rewrite).ipairs = nil",
        "setfenv(p.rewrite, {})",
        "p.schema.type = 'string'",
    ];
    let routes: Vec<Value> = takes
        .iter()
        .enumerate()
        .map(|(number, text)| {
            let function = format!(
                "return function() local p = require('apisix.plugin').get('guard') pcall(function() {text} end) ngx.say(type(p.rewrite)) ngx.exit(200) end"
            );
            json!({"id": format!("take{number}"), "plugins": {"serverless-pre-function": {"phase": "rewrite", "functions": [function]}}})
        })
        .collect();
    let (fixture, _upstream) = fixture(&[("guard", guard)], &routes);
    for (number, text) in takes.iter().enumerate() {
        assert_eq!(get(&fixture.gateway, "/guard").status(), 403);
        let answer = get(&fixture.gateway, &format!("/take{number}"));
        assert_eq!(answer.status(), 200, "{text}: {}", answer.body_text());
        assert_eq!(get(&fixture.gateway, "/guard").status(), 403, "{text}");
    }
}

/// As in APISIX, where multi-auth calls `rewrite` and takes any code for a refusal.
#[test]
fn multi_auth_takes_no_code_for_a_yes() {
    let auth = |text: &str| format!("_M.type = 'auth' {text}");
    let members = [
        ("zero", auth("function _M.rewrite() return 0 end"), 401),
        ("exits", auth("function _M.rewrite() ngx.exit(ngx.OK) end"), 401),
        ("declines", auth("function _M.rewrite() return 401 end"), 401),
        ("agrees", auth("function _M.rewrite() end"), 200),
    ];
    let plugins: Vec<(&str, &str)> = members.iter().map(|(name, text, _)| (*name, text.as_str())).collect();
    let bare = auth("function _M.access() return 401 end");
    let plugins: Vec<(&str, &str)> = plugins.into_iter().chain([("bare", bare.as_str())]).collect();
    let under = |name: &str| json!({"id": format!("multi-{name}"), "plugins": {"multi-auth": {"auth_plugins": [{name: {}}, {"key-auth": {}}]}}});
    let routes: Vec<Value> = plugins.iter().map(|(name, _)| under(name)).collect();
    let (fixture, _upstream) = fixture(&plugins, &routes);
    for (name, _, status) in &members {
        assert_eq!(get(&fixture.gateway, &format!("/multi-{name}")).status(), *status, "{name}");
    }
    assert_eq!(get(&fixture.gateway, "/multi-bare").status(), 503, "a member without rewrite");
    fixture.gateway.wait_for_log("bare plugin is not supported: it has no function rewrite");
}

/// What stands at the place of a module and cannot be read does not make way for a plugin of the gateway, or for the next place.
#[test]
fn a_place_that_cannot_be_read_is_a_fault() {
    let upstream = Upstream::service(|_| (200, "passed".to_owned()));
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let objects = json!({"routes": [{"id": "k", "uri": "/k", "plugins": {"cors": {}}, "upstream": node}]});
    for kind in ["a folder", "a dangling link", "a loop of links", "a pipe"] {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("apisix/plugins/cors.lua");
        write(folder.path(), &[("apisix/plugins/other.lua", &plugin("other", ""))]);
        match kind {
            "a folder" => fs::create_dir(&place).expect("a folder"),
            "a dangling link" => std::os::unix::fs::symlink("nowhere.lua", &place).expect("a link"),
            "a loop of links" => std::os::unix::fs::symlink("cors.lua", &place).expect("a link"),
            _ => assert!(Command::new("mkfifo").arg(&place).status().expect("mkfifo").success()),
        }
        let config =
            config(tidegate_testkit::gateway::YAML_PROVIDER, folder.path(), &["cors", "other", "other"], "");
        let gateway = Gateway::start(&config, Some(&objects.to_string()));
        assert_eq!(get(&gateway, "/k").status(), 503, "{kind}");
        assert!(gateway.error_log().contains("cors.lua: "), "{kind}: {}", gateway.error_log());
        assert!(!gateway.error_log().contains("forbidden"), "{}", gateway.error_log());
    }
}

/// Keys of tables in APISIX: the number 5 is not the text "5".
#[test]
fn consumers_are_found_by_values_of_one_kind() {
    let text = r#"_M.type = "auth"
_M.consumer_schema = { type = "object", properties = { key = {} }, required = { "key" } }
local consumer = require("apisix.consumer")
function _M.rewrite(conf, ctx)
    local wanted = core.request.header(ctx, "X-Key")
    if core.request.header(ctx, "X-Number") then wanted = tonumber(wanted) end
    local found = consumer.find_consumer("typed", "key", wanted)
    if not found then return 401 end
    return 200, found.username
end"#;
    let files = [("apisix/plugins/typed.lua", plugin("typed", text))];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let objects = json!({
        "routes": [{"id": "t", "uri": "/t", "plugins": {"typed": {}}}],
        "consumers": [
            {"username": "number", "plugins": {"typed": {"key": 5}}},
            {"username": "text", "plugins": {"typed": {"key": "6"}}},
        ],
    });
    let fixture = Fixture::start(&files, &["typed"], "", &objects);
    let ask = |key: &str, more: &str| {
        send(&fixture.gateway, &format!("GET /t HTTP/1.1\r\nHost: h\r\nX-Key: {key}\r\n{more}\r\n"))
            .body_text()
    };
    let number = "X-Number: 1\r\n";
    assert!(ask("5", number).starts_with("number"));
    assert!(ask("6", "").starts_with("text"));
    assert!(!ask("5", "").starts_with("number") && !ask("6", number).starts_with("text"));
}
