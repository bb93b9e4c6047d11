//! Plugins that users write as files below `apisix.extra_lua_path`: APISIX's module shape, in the sandbox.

mod doors;
mod idle;
mod kit;
mod limits;
mod reloading;
mod services;

use serde_json::json;
use tidegate_testkit::Upstream;

use kit::{Fixture, get, send};

/// Says in a header in which phase it ran, and with which configuration.
const PHASES: &str = r#"
local core, plugin = require("apisix.core"), require("apisix.plugin")
local helper = require("my.helper")
local schema = {
    type = "object",
    properties = { word = { type = "string" }, times = { type = "integer", default = 2 } },
    required = { "word" },
}
local metadata_schema = { type = "object", properties = { sign = { type = "string" } }, required = { "sign" } }
local _M = { version = 0.2, priority = 1500, name = "my-phases", schema = schema, metadata_schema = metadata_schema }

function _M.init() _M.started = plugin.plugin_attr("my-phases").greeting end
function _M.check_schema(conf, schema_type)
    if schema_type == core.schema.TYPE_METADATA then return core.schema.check(metadata_schema, conf) end
    local ok, err = core.schema.check(schema, conf)
    if not ok then return false, err end
    if conf.word == "forbidden" then return false, "the word is forbidden" end
    conf.made = conf.word:rep(conf.times)
    return true
end
function _M.rewrite(conf, ctx)
    ctx.seen = { "rewrite" }
    core.request.set_header(ctx, "X-Made", helper.frame(conf.made))
end
function _M.access(conf, ctx)
    core.table.insert(ctx.seen, "access")
    if core.request.header(ctx, "X-Stop") then return 418, { stopped = conf.word, by = ctx.conf_type .. "/" .. ctx.conf_id } end
end
function _M.before_proxy(conf, ctx) core.table.insert(ctx.seen, "before_proxy") end
function _M.header_filter(conf, ctx)
    core.response.set_header("X-Seen", table.concat(ctx.seen, " "))
    local metadata = plugin.plugin_metadata("my-phases")
    core.response.set_header("X-Facts", _M.started .. " " .. (metadata and metadata.value.sign or "none"))
end
function _M.body_filter(conf, ctx)
    local body = core.response.hold_body_chunk(ctx)
    if body then ngx.arg[1] = body:upper() end
end
function _M.delayed_body_filter(conf, ctx)
    if ngx.arg[2] then ngx.arg[1] = ngx.arg[1] .. "!" end
end
function _M.log(conf, ctx) core.log.warn("logged ", conf.word, " with ", ngx.status) end
return _M
"#;

const HELPER: &str = "return { frame = function(text) return '<' .. text .. '>' end }";

fn phases() -> Vec<(&'static str, &'static str)> {
    vec![("apisix/plugins/my-phases.lua", PHASES), ("my/helper.lua", HELPER)]
}

const ATTRIBUTES: &str = "  my-phases: {greeting: hello}\n";

#[test]
fn each_phase_runs_with_the_configuration_of_its_object() {
    let upstream = Upstream::service(|_| (200, "body".to_owned()));
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let conf = |word: &str| json!({"my-phases": {"word": word}});
    let objects = json!({
        "routes": [
            {"id": "r", "uri": "/route", "plugins": conf("r"), "upstream": node},
            {"id": "s", "uri": "/service", "service_id": "s"},
            {"id": "c", "uri": "/config", "plugin_config_id": "c", "upstream": node},
            {"id": "d", "uri": "/disabled", "plugins": {"my-phases": {"word": "d", "_meta": {"disable": true}}}, "upstream": node},
            {"id": "f", "uri": "/filtered", "upstream": node, "plugins": {"my-phases": {"word": "f", "times": 1, "_meta": {
                "filter": [["arg_on", "==", "1"]], "error_response": {"custom": true}}}}},
        ],
        "services": [{"id": "s", "plugins": conf("s"), "upstream": node}],
        "plugin_configs": [{"id": "c", "plugins": conf("c")}],
        "plugin_metadata": [{"id": "my-phases", "sign": "meta"}],
    });
    let fixture = Fixture::start(&phases(), &["my-phases"], ATTRIBUTES, &objects);
    for (path, made) in [("/route", "<rr>"), ("/service", "<ss>"), ("/config", "<cc>")] {
        let answer = get(&fixture.gateway, path);
        assert_eq!((answer.status(), answer.body_text().as_str()), (200, "BODY!"), "{path}");
        assert_eq!(answer.header("X-Seen"), Some("rewrite access before_proxy"), "{path}");
        assert_eq!(answer.header("X-Facts"), Some("hello meta"), "{path}");
        let seen = upstream.take()[0].text();
        assert!(seen.contains(&format!("X-Made: {made}\r\n")), "{path}: {seen}");
    }
    let stop =
        |path: &str| send(&fixture.gateway, &format!("GET {path} HTTP/1.1\r\nHost: h\r\nX-Stop: 1\r\n\r\n"));
    let stopped = stop("/route");
    let text = stopped.body_text();
    let body: serde_json::Value = serde_json::from_str(text.trim_end_matches("\n!")).expect("JSON");
    assert_eq!((stopped.status(), body), (418, json!({"BY": "ROUTE/R", "STOPPED": "R"})), "{text}");
    assert_eq!((stop("/disabled").status(), stop("/filtered").status()), (200, 200));
    let replaced = stop("/filtered?on=1");
    assert_eq!((replaced.status(), replaced.body_text()), (418, "{\"CUSTOM\":TRUE}\n!".to_owned()));
    fixture.gateway.wait_for_log("logged r with 418");
}

/// What the other global rule, of a plugin of the gateway, left is seen by a lower priority and not by a higher one.
#[test]
fn the_order_is_that_of_priorities_among_all_plugins() {
    let file = |priority: i64| {
        format!(
            "local core = require('apisix.core')\n\
             local _M = {{version = 1, priority = {priority}, name = 'x', schema = {{type = 'object'}}}}\n\
             function _M.rewrite(conf, ctx) return 200, {{seen = core.request.header(ctx, 'X-Rewritten') or 'nothing'}} end\n\
             return _M"
        )
    };
    let (high, low) = (file(1009), file(1007));
    let files = [("apisix/plugins/my-high.lua", high.as_str()), ("apisix/plugins/my-low.lua", low.as_str())];
    let rewrite = json!({"headers": {"set": {"X-Rewritten": "yes"}}});
    let route = |name: &str, meta: serde_json::Value| {
        json!({"id": name, "uri": format!("/{name}"), "plugins": {"proxy-rewrite": rewrite,
            name.split('_').next().unwrap_or_default(): {"_meta": meta}}})
    };
    let objects = json!({"routes": [
        route("my-high", json!({})), route("my-low", json!({})), route("my-low_first", json!({"priority": 2000})),
    ]});
    let fixture = Fixture::start(&files, &["my-high", "my-low", "proxy-rewrite"], "", &objects);
    for (path, seen) in [("/my-high", "nothing"), ("/my-low", "yes"), ("/my-low_first", "nothing")] {
        assert_eq!(get(&fixture.gateway, path).body_text(), format!("{{\"seen\":\"{seen}\"}}\n"), "{path}");
    }
}

#[test]
fn the_admin_api_checks_and_shows_them() {
    let fixture = Fixture::with_admin(&phases(), &["my-phases", "mocking"], ATTRIBUTES);
    let admin = |method: &str, path: &str, body: &str| fixture.gateway.admin(method, path, body);
    let route = |conf: &str| format!("{{\"uri\":\"/a\",\"plugins\":{{\"my-phases\":{conf}}}}}");
    for (conf, message) in [
        ("{}", "property \\\"word\\\" is required"),
        (
            r#"{"word": 1}"#,
            "property \\\"word\\\" validation failed: wrong type: expected string, got number",
        ),
        (r#"{"word": "forbidden"}"#, "the word is forbidden"),
        (r#"{"word": "a", "_meta": {"odd": 1}}"#, "additional properties forbidden, found odd"),
    ] {
        let (status, body) = admin("PUT", "/apisix/admin/routes/1", &route(conf));
        assert!(status == 400 && body.contains(message), "{conf}: {status} {body}");
        assert!(body.contains("failed to check the configuration of plugin my-phases err: "), "{body}");
    }
    let (status, body) = admin("PUT", "/apisix/admin/routes/1", &route(r#"{"word": "a"}"#));
    assert_eq!(status, 201, "{body}");
    let (status, body) = admin("PUT", "/apisix/admin/plugin_metadata/my-phases", "{}");
    assert!(status == 400 && body.contains("property \\\"sign\\\" is required"), "{status} {body}");
    assert_eq!(admin("PUT", "/apisix/admin/plugin_metadata/my-phases", r#"{"sign": "s"}"#).0, 201);

    let (_, list) = admin("GET", "/apisix/admin/plugins/list", "");
    assert!(list.contains("\"my-phases\""), "{list}");
    let (status, schema) = admin("GET", "/apisix/admin/plugins/my-phases", "");
    assert!(
        status == 200 && schema.contains("\"word\"") && schema.contains("\"_meta\""),
        "{status} {schema}"
    );
    let (status, schema) = admin("GET", "/apisix/admin/schema/plugins/my-phases", "");
    assert!(status == 200 && schema.contains("\"required\":[\"word\"]"), "{status} {schema}");
    let (_, all) = admin("GET", "/apisix/admin/plugins?all=true", "");
    assert!(all.contains("\"my-phases\":{") && all.contains("\"priority\":1500"), "{all}");
}

#[test]
fn a_file_takes_the_place_of_a_plugin_of_the_same_name() {
    let file = "return {version = 9, priority = 1, name = 'mocking', schema = {type = 'object'},\
                rewrite = function() return 201, 'of the file' end}";
    let objects =
        json!({"routes": [{"id": 1, "uri": "/a", "plugins": {"mocking": {"response_status": 200}}}]});
    let fixture = Fixture::start(&[("apisix/plugins/mocking.lua", file)], &["mocking"], "", &objects);
    let answer = get(&fixture.gateway, "/a");
    assert_eq!((answer.status(), answer.body_text().as_str()), (201, "of the file"));
}

#[test]
fn uris_of_a_plugin_answer_through_public_api() {
    let file = "local core = require('apisix.core')\n\
        local _M = {version = 1, priority = 1, name = 'my-api', schema = {type = 'object'}}\n\
        function _M.api() return {{methods = {'GET'}, uri = '/apisix/plugin/my-api/who', handler = function(ctx)\n\
            return 200, {who = ngx.var.remote_addr, what = ctx.var.arg_what}\n\
        end}} end\n\
        return _M";
    let objects =
        json!({"routes": [{"id": 1, "uri": "/apisix/plugin/my-api/*", "plugins": {"public-api": {}}}]});
    let fixture =
        Fixture::start(&[("apisix/plugins/my-api.lua", file)], &["my-api", "public-api"], "", &objects);
    let answer = get(&fixture.gateway, "/apisix/plugin/my-api/who?what=x");
    let body: serde_json::Value = serde_json::from_str(&answer.body_text()).expect("JSON");
    assert_eq!((answer.status(), body), (200, json!({"what": "x", "who": "127.0.0.1"})));
    assert_eq!(get(&fixture.gateway, "/apisix/plugin/my-api/other").status(), 404);
    let post = "POST /apisix/plugin/my-api/who HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(send(&fixture.gateway, post).status(), 404);
}
