//! What the functions of one configuration delete or overwrite stays theirs: those of other routes, which run in the same
//! interpreter, find everything as it was.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

/// Each spoils what it can reach. Most end in an error, of which the others must notice as little.
const SPOILERS: &[&str] = &[
    "ngx = nil",
    "ngx, string, table, math, os, coroutine, bit, package, require = {}, {}, {}, {}, {}, {}, {}, {}, {}",
    "string.find = nil string.format = function() return 'spoilt' end",
    "_G.pcall = nil _G.type = function() return 'spoilt' end _G._G = nil",
    "for name in pairs(_G) do _G[name] = nil end",
    "for _, t in ipairs({string, table, math, ngx, ngx.req, ngx.re}) do for name in pairs(t) do t[name] = false end end",
    "setmetatable(_G, {__index = function() return 'spoilt' end, __newindex = function() end})",
    "getmetatable('').__index = function() return 'spoilt' end",
    "local m = getmetatable('') m.find = nil m.__concat = nil rawset(m, '__index', nil)",
    "rawset(_G, 'ngx', nil) rawset(ngx, 'say', nil)",
    "rawset(ngx.var, 'host', 'spoilt')",
    "rawset(ngx.header, 'x', 'spoilt')",
    "setmetatable(ngx.var, {__index = function() return 'spoilt' end})",
    "getmetatable(ngx.var).__index = function() return 'spoilt' end",
    "setmetatable(ngx, nil) ngx.ctx = nil",
    "getmetatable(ngx).__index = nil",
    "ngx.re.match = nil ngx.req.get_headers = nil ngx.exit = function() end ngx.OK = 500 ngx.null = 1",
    "ngx.shared.d.get = nil",
    "rawset(ngx.shared.d, 'get', nil)",
    "setmetatable(ngx.shared, nil)",
    "table.clear(ngx.shared)",
    "ngx.shared = nil ngx.config.subsystem = 'spoilt' ngx.worker.id = nil",
    "getmetatable(ngx.req.get_headers()).__index = function() return 'spoilt' end",
    "getmetatable(ctx).__index = function() return 'spoilt' end",
    "local core = require('apisix.core') core.response.exit = nil core.log.error = nil core.json.encode = nil
        core.request = nil core.table.insert_tail = nil core.string.find = nil",
    "package.loaded['apisix.core'].json = nil package.loaded['apisix.core'] = nil package.loaded = nil package = nil",
    "for name in pairs(package.loaded) do package.loaded[name] = false end",
    "require('cjson').encode = nil require('cjson.safe').decode = nil require('net.url').parse = nil
        require('net.url').options.separator = 'spoilt'",
    "require('cjson').array_mt.__index = function() return 'spoilt' end",
    "rawset(require('cjson').array_mt, '__tostring', function() return 'spoilt' end)",
    "require('cjson').empty_array[1] = 'spoilt' require('apisix.core').empty_tab.spoilt = true",
    "table.insert(require('cjson').empty_array, 1) table.insert(require('apisix.core').empty_tab, 1)",
    "getfenv(0).ngx = nil getfenv(1).string = nil getfenv(2).table = nil getfenv(3).math = nil",
    "getfenv(ngx.say).ngx = nil getfenv(string.gsub).string = nil getfenv(pcall).pcall = nil",
    "getfenv(string.find).string = nil getfenv(ngx.md5).ngx = nil getfenv(tostring).tostring = nil",
    "for level = 1, 9 do pcall(function() local e = getfenv(level) e.ngx, e.string, e.pcall = nil, nil, nil end) end",
    "for level = 9, 1, -1 do pcall(setfenv, level, {}) end",
    "for level = 1, 9 do setfenv(level, {setfenv = setfenv, pcall = pcall}) end",
    "setfenv(ngx.say, {}) ",
    "setfenv(require('apisix.core').response.exit, {})",
    "setfenv(string.rep, {}) ",
    "setfenv(require, {}) setfenv(loadstring, {}) setfenv(getfenv, {})",
    "loadstring('ngx = nil string.find = nil _G.pcall = nil')()",
    "load('string.rep = nil getfenv(0).ngx = nil getfenv(1).table.concat = nil')()",
    "coroutine.wrap(function() ngx = nil getfenv(0).string = nil coroutine.yield = nil end)()",
    "local _, e = pcall(ngx.exit, {}) local m = getmetatable(e) if type(m) == 'table' then for k in pairs(m) do m[k] = nil end end",
    "local m = getmetatable(ngx.null) if m then m.__index = 1 end",
    "for _, v in ipairs({ngx.re.gmatch('a', 'a'), function() end, ngx.null, 1, true}) do
        local m = getmetatable(v) if type(m) == 'table' then m.__index = 1 m.__call = 1 end end",
    "math.random = nil os.time = function() return 0 end bit.band = nil math.huge = 0 table.concat = nil",
    "string.spoilt = function() return 'spoilt' end",
    "function string.rep() return 'spoilt' end function tostring() return 'spoilt' end",
];

/// Uses what the others spoilt.
const CHECK: &str = r#"
    local core, cjson, url = require("apisix.core"), require("cjson"), require("net.url")
    return function(conf, ctx)
        local function same(what, got, wanted)
            if got ~= wanted then error(what .. ": " .. tostring(got) .. " instead of " .. tostring(wanted), 0) end
        end
        same("type", type(1), "number")
        same("pcall", (pcall(error)), false)
        same("method", ("a-b"):find("-", 1, true), 2)
        same("format", ("%d"):format(3) .. string.format("%s", "x"), "3x")
        same("rep", ("x"):rep(3), "xxx")
        same("no method", ("x").spoilt, nil)
        same("no function", string.spoilt, nil)
        same("no metatable", getmetatable(""), "strings")
        same("host", ngx.var.host .. ctx.var.host, "hh")
        same("header", ngx.header.x, nil)
        same("headers", ngx.req.get_headers()["Host"], "h")
        same("any case", ngx.req.get_headers().nothing, nil)
        same("status", ngx.status, 0)
        same("ctx", ngx.ctx.api_ctx, ctx)
        same("route", ctx.route_id, "check")
        same("match", ngx.re.match("ab", "b")[0], "b")
        same("null", ngx.null, cjson.null)
        same("OK", ngx.OK, 0)
        same("subsystem", ngx.config.subsystem .. type(ngx.worker.id()), "httpnumber")
        same("shared", ngx.shared.d:incr("n", 1, 0) > 0 and ngx.shared.kept:get("k"), "v")
        same("json", cjson.encode(cjson.decode('{"a":[]}')) .. core.json.encode({1}), '{"a":[]}[1]')
        same("arrays", tostring(cjson.decode("[]").x) .. tostring(setmetatable({}, cjson.array_mt)):sub(1, 5), "niltable")
        same("empty", cjson.encode(cjson.empty_array) .. tostring(next(core.empty_tab)), "[]nil")
        same("url", tostring(url.parse("http://h/a?x=1").query.x) .. url.buildQuery({ a = 1, b = 2 }), "1a=1&b=2")
        same("core", core.string.find("abc", "c") + core.table.insert_tail({}, 1, 2), 5)
        same("math", math.floor(1.5) + bit.band(3, 1) + (math.huge > 1 and 1 or 0), 3)
        same("time", os.time() > 1e9 and ngx.time() > 1e9 and math.random() < 1, true)
        same("coroutine", coroutine.wrap(function() coroutine.yield(7) end)(), 7)
        same("concat", table.concat({ "a", "b" }, ","), "a,b")
        same("load", loadstring("return ngx.OK")() + load("return #string.rep('a', 2)")(), 2)
        same("require", require("apisix.core"), core)
        same("loaded", package.loaded["cjson"], cjson)
        core.log.info("x")
        core.response.set_header("x-checked", "yes")
        core.response.exit(200, "fine")
    end"#;

fn route(id: &str, function: &str) -> Value {
    json!({"id": id, "uri": format!("/{id}"), "plugins": {"serverless-pre-function": {"phase": "rewrite", "functions": [function]},
        "mocking": {"response_status": 200, "response_example": "mocked", "with_mock_header": false}}})
}

fn ask(client: &mut tidegate_testkit::Client, path: &str) -> (u16, String) {
    client.send(format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
    let answer = client.response().expect("an answer");
    (answer.status(), answer.body_text())
}

#[test]
fn nobody_spoils_the_globals_of_others() {
    let spoilers = SPOILERS.iter().enumerate().flat_map(|(number, body)| {
        let at_load = format!("pcall(function(ctx) {body} end, {{}}) return function() end");
        [
            route(&format!("s{number}"), &format!("return function(conf, ctx) {body} end")),
            route(&format!("l{number}"), &at_load),
        ]
    });
    let routes: Vec<Value> = spoilers
        .chain([route("check", CHECK), route("keep", "return function() ngx.shared.kept:set('k', 'v') end")])
        .collect();
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let mut client = gateway.client();
    ask(&mut client, "keep");
    let fine = (200, "fine".to_owned());
    assert_eq!(ask(&mut client, "check"), fine, "{}", gateway.error_log());
    let mut wrong = Vec::new();
    for (number, body) in SPOILERS.iter().enumerate() {
        for place in ["s", "l"] {
            let (status, _) = ask(&mut client, &format!("{place}{number}"));
            let checked = ask(&mut client, "check");
            if checked != fine || !matches!(status, 200 | 500) {
                let log = gateway.error_log();
                let last = log.lines().rfind(|line| line.contains("[error]")).unwrap_or_default();
                wrong.push(format!("{place}: {body}: {status}, then {checked:?}: {last}"));
            }
        }
    }
    assert!(gateway.process.ended().is_none(), "the process lives");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What functions in use rely on.
#[test]
fn a_configuration_keeps_what_is_its_own() {
    let cases = [
        ("upvalue", "local n = 0 return function() n = n + 1 return 200, tostring(n) end", ["1", "2"]),
        ("global", "return function() n = (n or 0) + 1 return 200, tostring(n) end", ["1", "2"]),
        ("field", "function string.twice(s) return s .. s end return function() return 200, ('a'):twice() end", ["aa", "aa"]),
        ("replaced", "local find = ngx.re.find ngx.re.find = function(...) return (find(...)) end
            return function() return 200, tostring(select('#', ngx.re.find('ab', 'b'))) end", ["1", "1"]),
        ("module", "package.loaded.mine = {x = 'y'} return function() return 200, require('mine').x end", ["y", "y"]),
        ("listed", "return function() local n = 0 for _, f in pairs(string) do n = n + (type(f) == 'function' and 1 or 0) end
            return 200, tostring(n > 10) end", ["true", "true"]),
        ("strict", "setfenv(1, setmetatable({}, {__index = _G})) x = 1 return function() x = x + 1 return 200, tostring(x) end", ["2", "3"]),
        ("environment", "return function() return 200, tostring(getfenv(1) == _G and getfenv(0) == _G) end", ["true", "true"]),
        ("state", "return function() ngx.status = 201 ngx.ctx.a = 1 return ngx.status, tostring(ngx.ctx.a) end", ["1", "1"]),
    ];
    let both = |name: &str| [format!("{name}-1"), format!("{name}-2")];
    let routes: Vec<Value> =
        cases.iter().flat_map(|(name, source, _)| both(name).map(|id| route(&id, source))).collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let mut client = gateway.client();
    for (name, _, expected) in cases {
        // The second configuration begins as the first did.
        for id in both(name) {
            for text in expected {
                let (status, body) = ask(&mut client, &id);
                assert_eq!((status / 100, body.as_str()), (2, text), "{id}: {}", gateway.error_log());
            }
        }
    }
}
