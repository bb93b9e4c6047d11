//! What a plugin in a file may take, and what becomes of one that cannot be loaded.

use std::time::{Duration, Instant};

use serde_json::json;

use super::kit::{Fixture, get, send};

fn plugin(methods: &str) -> String {
    format!(
        "local _M = {{version = 1, priority = 20000, name = 'x', schema = {{type = 'object'}}}}\n{methods}\nreturn _M"
    )
}

fn routes(names: &[&str]) -> serde_json::Value {
    let mocking = json!({"response_status": 200, "response_example": "mocked", "with_mock_header": false});
    let route = |name: &&str| json!({"id": name, "uri": format!("/{name}"), "plugins": {*name: {"word": "a"}, "mocking": mocking}});
    json!({"routes": names.iter().map(route).collect::<Vec<_>>()})
}

/// The gateway starts, the plugin is named with its file and line, its routes are refused and no other.
#[test]
fn a_plugin_that_cannot_be_loaded_refuses_its_routes() {
    let (good, fails) = (plugin(""), plugin("error('no start')"));
    let (init, large) = (plugin("function _M.init()\nlocal n = nil + 1\nend"), " ".repeat((1 << 20) + 1));
    let files: &[(&str, &str)] = &[
        ("apisix/plugins/my-good.lua", &good),
        ("apisix/plugins/my-syntax.lua", "local a = 1\nlocal = 2\n"),
        ("apisix/plugins/my-fails.lua", &fails),
        ("apisix/plugins/my-init.lua", &init),
        ("apisix/plugins/my-large.lua", &large),
        ("apisix/plugins/my-text.lua", "return 'text'"),
        ("apisix/plugins/my-bare.lua", "return {version = 1, schema = {}}"),
        ("apisix/plugins/my-io.lua", "local io = require('io')\nreturn {}"),
        ("apisix/plugins/my-loop.lua", "while true do end"),
        (
            "apisix/plugins/my-meta.lua",
            "return {version = 1, priority = 1, schema = {properties = {_meta = {}}}}",
        ),
    ];
    let reasons = [
        ("my-syntax", "my-syntax.lua:2: "),
        ("my-fails", "my-fails.lua:2: no start"),
        ("my-init", "my-init.lua:3: attempt to perform arithmetic on a nil value"),
        ("my-large", "my-large.lua: it has 1048577 bytes, at most 1048576 are read"),
        ("my-text", "invalid plugin: the file returns a string, not a table"),
        ("my-bare", "invalid plugin: missing field: priority"),
        ("my-io", "my-io.lua:1: module 'io' not found"),
        ("my-loop", "time limit of 50 ms exceeded"),
        ("my-meta", "found forbidden '_meta' field in the schema"),
    ];
    let mut names: Vec<&str> = reasons.iter().map(|(name, _)| *name).collect();
    names.push("my-good");
    let mut plugins = names.clone();
    plugins.push("mocking");
    let fixture = Fixture::start(files, &plugins, "", &routes(&names));
    assert_eq!(get(&fixture.gateway, "/my-good").body_text(), "mocked");
    let log = fixture.gateway.error_log();
    for (name, reason) in reasons {
        assert_eq!(get(&fixture.gateway, &format!("/{name}")).status(), 503, "{name}");
        let line = log.lines().find(|line| line.contains(&format!("plugin {name} cannot be loaded")));
        assert!(line.is_some_and(|line| line.contains(reason)), "{name}: {reason}\n{log}");
    }
    let (ok, said) = fixture.gateway.verb("test");
    assert!(!ok && said.contains("plugin my-syntax cannot be loaded"), "{said}");
    // Its fields are not known, so they are not called unknown.
    let (_, said) = fixture.gateway.verb("doctor");
    assert!(said.contains("my-syntax") && !said.contains("unknown field plugins.my-syntax"), "{said}");
}

#[test]
fn a_phase_ends_after_its_time() {
    let looping = plugin(
        "local function spin() while true do end end\n\
         local core = require('apisix.core')\n\
         function _M.access(conf, ctx) if ctx.var.arg_phase == 'access' then pcall(spin) end end\n\
         function _M.header_filter(conf, ctx) if ctx.var.arg_phase == 'header' then spin() end end\n\
         function _M.body_filter(conf, ctx) if ctx.var.arg_phase == 'body' then string.rep('a', 1e6):find(('.-'):rep(20) .. 'b') end end\n\
         function _M.log(conf, ctx) if ctx.var.arg_phase == 'log' then spin() end end",
    );
    let fixture = Fixture::start(
        &[("apisix/plugins/my-loop.lua", &looping)],
        &["my-loop", "mocking"],
        "",
        &routes(&["my-loop"]),
    );
    for (phase, status) in [("access", 500), ("header", 500), ("log", 200), ("none", 200)] {
        let started = Instant::now();
        assert_eq!(get(&fixture.gateway, &format!("/my-loop?phase={phase}")).status(), status, "{phase}");
        assert!(started.elapsed() < Duration::from_secs(2), "{phase}: {:?}", started.elapsed());
    }
    let cut = fixture.gateway.client().request("GET /my-loop?phase=body HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(cut.is_err() || cut.is_ok_and(|answer| answer.status() == 500));
    fixture.gateway.wait_for_log("failed to run Lua of plugin my-loop: ");
    assert_eq!(get(&fixture.gateway, "/my-loop").body_text(), "mocked");
}

/// A body filter never gets more than its piece, and what it gathers is bounded by the interpreter.
#[test]
fn bodies_come_in_pieces() {
    let file = plugin(
        "local largest = 0\n\
         function _M.body_filter(conf, ctx)\n\
             largest = math.max(largest, #(ngx.arg[1] or ''))\n\
             ngx.arg[1] = ngx.arg[2] and tostring(largest) or nil\n\
         end",
    );
    let example = "x".repeat(3 << 20);
    let objects = json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"my-size": {}, "mocking": {
        "response_status": 200, "response_example": example, "with_mock_header": false}}}]});
    let fixture =
        Fixture::start(&[("apisix/plugins/my-size.lua", &file)], &["my-size", "mocking"], "", &objects);
    assert_eq!(get(&fixture.gateway, "/a").body_text(), (256 << 10).to_string());
}

#[test]
fn there_is_no_way_to_the_system() {
    let file = plugin(
        "local core = require('apisix.core')\n\
         function _M.access(conf, ctx)\n\
             local found = {}\n\
             for _, name in ipairs({'io', 'debug', 'dofile', 'loadfile', 'collectgarbage', 'newproxy', 'jit', 'ffi'}) do\n\
                 if _G[name] then found[#found + 1] = name end\n\
             end\n\
             for _, name in ipairs({'execute', 'exit', 'remove', 'rename', 'tmpname'}) do\n\
                 if os[name] then found[#found + 1] = 'os.' .. name end\n\
             end\n\
             for _, name in ipairs({'ffi', 'io', 'debug', '/etc/passwd', '../../../../etc/passwd', 'apisix.plugins.my-none'}) do\n\
                 if pcall(require, name) then found[#found + 1] = 'module ' .. name end\n\
             end\n\
             local text = string.dump and 'dump' or ''\n\
             return 200, table.concat(found, ',') .. text .. ' ' .. os.date('!%Y-%m-%d', 86400) .. ' ' .. os.time({year = 1970, month = 1, day = 2, hour = 0})\n\
         end",
    );
    let fixture = Fixture::start(
        &[("apisix/plugins/my-jail.lua", &file)],
        &["my-jail", "mocking"],
        "",
        &routes(&["my-jail"]),
    );
    assert_eq!(get(&fixture.gateway, "/my-jail").body_text(), " 1970-01-02 86400");
}

#[test]
fn a_body_is_read_where_it_is_asked_for() {
    let file = plugin(
        "local core = require('apisix.core')\n\
         function _M.access(conf, ctx)\n\
             if ctx.var.arg_ask == 'wrapped' then\n\
                 local body = coroutine.wrap(function() return core.request.get_body() end)()\n\
                 return 200, 'wrapped ' .. body\n\
             elseif ctx.var.arg_ask == 'post' then\n\
                 return 200, 'post ' .. tostring(ctx.var.post_arg_a)\n\
             elseif ctx.var.arg_ask then\n\
                 return 200, core.request.get_body()\n\
             end\n\
         end",
    );
    let fixture = Fixture::start(
        &[("apisix/plugins/my-body.lua", &file)],
        &["my-body", "mocking"],
        "",
        &routes(&["my-body"]),
    );
    let post = |query: &str, kind: &str| {
        let text = format!(
            "POST /my-body{query} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: 3\r\n\r\na=b"
        );
        send(&fixture.gateway, &text).body_text()
    };
    assert_eq!(post("?ask=body", "text/plain"), "a=b");
    assert_eq!(post("?ask=wrapped", "text/plain"), "wrapped a=b");
    assert_eq!(post("?ask=post", "application/x-www-form-urlencoded"), "post b");
    assert_eq!(post("", "text/plain"), "mocked");
}
