//! Functions as users write them, and what they do to a request.

use std::task::{Context, Poll, Waker};

use serde_json::json;
use tidegate_model::check::{LuaChunk, LuaFault};
use tidegate_plugin_api::{Request, RequestBody, Step, reply::ReplyBody};

use super::{Phase, Program, check, check_function, vm};
use crate::common::test_request::request;

const GET: &str = "GET /a/b?x=1&y=2&y=3&flag HTTP/1.1\r\nHost: example.com\r\nX-One: 1\r\n\r\n";

fn run(source: &str, request: &mut Request, phase: Phase) -> Option<(u16, String)> {
    let program = Program::new("test", vec![source.to_owned()], json!({"key": "value", "list": [1, 2]}));
    let verdict = match program.run(request, phase) {
        Step::Next => Ok(()),
        Step::Reply(reply) => Err(reply),
        Step::Wait(mut work) | Step::Ask(mut work) => {
            match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(verdict) => verdict,
                Poll::Pending => panic!("waits"),
            }
        }
    };
    match verdict {
        Ok(()) => None,
        Err(reply) => {
            let body = match reply.body {
                ReplyBody::Page => "<page>".to_owned(),
                ReplyBody::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                ReplyBody::OfHead => "<head>".to_owned(),
                ReplyBody::File(_) => "<file>".to_owned(),
            };
            Some((reply.status, body))
        }
    }
}

#[test]
fn answers_of_functions() {
    let cases: &[(&str, Option<(u16, &str)>)] = &[
        ("return function() end", None),
        ("return function() ngx.exit(201) end", Some((201, "<page>"))),
        ("return function() ngx.exit(0) end", None),
        ("return function() return 403 end", Some((403, "<page>"))),
        ("return function() return 403, 'no' end", Some((403, "no"))),
        ("return function() return 418, {a = 1} end", Some((418, "{\"a\":1}\n"))),
        ("return function() ngx.say('hi ', 1, ' ', true) ngx.exit(200) end", Some((200, "hi 1 true\n"))),
        ("return function() ngx.status = 202 ngx.print({'a', 'b'}) end", Some((202, "ab"))),
        ("return function() error('boom') end", Some((500, "<page>"))),
        ("return function() pcall(ngx.exit, 204) end", Some((204, "<page>"))),
        ("return function(conf) return 200, conf.key .. conf.list[2] end", Some((200, "value2"))),
        (
            "return function(_, ctx) ctx.a = 1 return 200, ctx.var.host .. ngx.ctx.api_ctx.a end",
            Some((200, "example.com1")),
        ),
        ("return function() return 200, ngx.var.arg_x .. ngx.req.get_method() end", Some((200, "1GET"))),
        (
            "return function() local a = ngx.req.get_uri_args() return 200, a.x .. a.y[2] .. tostring(a.flag) end",
            Some((200, "13true")),
        ),
        ("return function() return 200, ngx.req.get_headers()['X_One'] end", Some((200, "1"))),
        (
            "return function() local m = ngx.re.match('ab12', '([a-z]+)(?<n>\\\\d+)') return 200, m[1] .. m.n end",
            Some((200, "ab12")),
        ),
        (
            "return function() return 200, (ngx.re.gsub('a-b-c', '-', '[$0]', 'jo')) end",
            Some((200, "a[-]b[-]c")),
        ),
        (
            "return function() return 200, ngx.md5('a') .. ngx.encode_base64('hi') end",
            Some((200, "0cc175b9c0f1b6a831c399e269772661aGk=")),
        ),
        (
            "return function() return 200, ngx.escape_uri('a b/ü') .. ngx.unescape_uri('%41+') end",
            Some((200, "a%20b%2F%C3%BCA ")),
        ),
        (
            "local core = require('apisix.core') return function(conf, ctx) core.response.exit(401, {message = 'no'}) end",
            Some((401, "{\"message\":\"no\"}\n")),
        ),
        (
            "local core = require('apisix.core') return function(conf, ctx) return 200, core.request.header(ctx, 'x-one') .. core.utils.resolve_var('$host/${uri}', ctx.var) end",
            Some((200, "1example.com//a/b")),
        ),
        (
            "local j = require('cjson') return function() return 200, j.encode({1, 'a', j.null, {x = 1.5}}) end",
            Some((200, "[1,\"a\",null,{\"x\":1.5}]")),
        ),
        (
            "local j = require('cjson.safe') return function() return 200, j.encode(j.decode('{\"a\":[],\"b\":{}}').a) end",
            Some((200, "[]")),
        ),
        (
            "return function() return 200, tostring(io) .. tostring(os.execute) .. tostring(ffi) .. tostring(debug) end",
            Some((200, "nilnilnilnil")),
        ),
        (
            "return function() ngx.shared.d:set('k', 1) return 200, ngx.shared.d:incr('k', 2) end",
            Some((200, "3")),
        ),
    ];
    for (source, expected) in cases {
        let answer = run(source, &mut request(GET), Phase::Access);
        assert_eq!(answer.as_ref().map(|(status, body)| (*status, body.as_str())), *expected, "{source}");
    }
}

#[test]
fn edits_of_the_request() {
    let mut request = request(GET);
    let source = "local core = require('apisix.core')
        return function(conf, ctx)
            ngx.req.set_header('X-One', '2')
            core.request.set_header(ctx, 'X-Two', 3)
            ngx.req.clear_header('Absent')
            ngx.req.set_uri_args({b = 'x y'})
            ngx.req.set_uri('/new path')
            ngx.header.x_answer = 'yes'
            core.response.add_header('X-Answer', 'again')
            ngx.var.upstream_host = 'other'
            ngx.ctx.seen = true
        end";
    assert_eq!(run(source, &mut request, Phase::Rewrite), None);
    assert_eq!(request.header("x-one"), Some(&b"2"[..]));
    assert_eq!(request.header("x-two"), Some(&b"3"[..]));
    assert_eq!(request.head.target(), b"/new%20path?b=x%20y");
    assert_eq!(request.early_headers.get_all("x-answer").count(), 2);
    assert_eq!(request.edits.host.as_deref(), Some(&b"other"[..]));
    assert_eq!(
        run("return function() return ngx.ctx.seen and 299 end", &mut request, Phase::Access).map(|a| a.0),
        Some(299)
    );
}

#[test]
fn a_function_is_stopped() {
    let cases = [
        "return function() while true do end end",
        "return function() while true do pcall(function() while true do end end) end end",
        "return function() local co = coroutine.wrap(function() while true do end end) co() end",
        "return function() local t = {} for i = 1, 1e9 do t[i] = {i} end end",
        "return function() local s = 'x' while true do s = s .. s end end",
        "return function() return ('x'):rep(1e10) end",
        "return function() local function f() return f() + 1 end f() end",
    ];
    for source in cases {
        let started = std::time::Instant::now();
        assert_eq!(
            run(source, &mut request(GET), Phase::Access),
            Some((500, "<page>".to_owned())),
            "{source}"
        );
        assert!(started.elapsed().as_secs() < 3, "{source} took {:?}", started.elapsed());
    }
    // The interpreter still works.
    assert_eq!(
        run("return function() return 204 end", &mut request(GET), Phase::Access).map(|a| a.0),
        Some(204)
    );
}

#[test]
fn upvalues_live_from_call_to_call() {
    let source = "local count = 0 return function() count = count + 1 return 200, count end";
    let program = Program::new("test", vec![source.to_owned()], json!({}));
    let mut last = None;
    for _ in 0..3 {
        let mut request = request(GET);
        if let Step::Reply(reply) = program.run(&mut request, Phase::Access) {
            last = Some(reply.body);
        }
    }
    assert!(matches!(last, Some(ReplyBody::Bytes(body)) if body == "3"));
}

#[test]
fn sleeping_lets_others_run() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let program = Program::new(
        "test",
        vec!["return function() ngx.print('a') ngx.sleep(5) ngx.print('b', ngx.ctx.api_ctx.x or '') ngx.exit(200) end".to_owned()],
        json!({}),
    );
    let mut request = request(GET);
    let Step::Wait(future) = program.run(&mut request, Phase::Access) else { panic!("does not wait") };
    let before = tokio::time::Duration::from_secs(5);
    let (verdict, took) = runtime.block_on(async {
        let started = tokio::time::Instant::now();
        (future.await, started.elapsed())
    });
    assert!(took >= before);
    let Err(reply) = verdict else { panic!("no answer") };
    assert!(matches!(reply.body, ReplyBody::Bytes(body) if body == "ab"));
}

#[test]
fn late_phases_see_the_response() {
    let mut request = request(GET);
    request.response.status = 200;
    request.response.headers.set("Content-Length", "5");
    request.body = RequestBody::Empty;
    let program = Program::new(
        "test",
        vec!["return function() ngx.header['X-Late'] = ngx.status ngx.header.content_length = nil ngx.status = 201 end".to_owned()],
        json!({}),
    );
    program.run_late(&mut request, Phase::HeaderFilter);
    assert_eq!(request.response.headers.get("x-late"), Some(&b"200"[..]));
    assert_eq!((request.response.status, request.response.body_changed), (201, true));
    let mut chunk = tidegate_plugin_api::BodyChunk::new(b"hello".to_vec(), true);
    let program = Program::new(
        "test",
        vec!["return function() ngx.arg[1] = ngx.arg[1]:upper() .. tostring(ngx.arg[2]) end".to_owned()],
        json!({}),
    );
    program.run_on_chunk(&mut request, &mut chunk, Phase::BodyFilter);
    assert_eq!(chunk.data, b"HELLOtrue");
}

#[test]
fn messages_of_checks() {
    let cases = [
        ("return function() end", Ok(())),
        ("a", Err("failed to loadstring: [string \"a\"]:1: '=' expected near '<eof>'")),
        ("local a = 123;", Err("only accept Lua function, the input code type is nil")),
        ("return 1", Err("only accept Lua function, the input code type is number")),
        ("error('x')", Err("pcall error: [string \"error('x')\"]:1: x")),
    ];
    for (source, expected) in cases {
        assert_eq!(check_function(source), expected.map_err(str::to_owned), "{source}");
    }
    assert!(check(LuaChunk::FilterFunction, "function(vars) return true end").is_ok());
    assert!(matches!(check(LuaChunk::FilterFunction, "1"), Err(LuaFault::WrongKind)));
    assert!(matches!(check(LuaChunk::Script, "return {access = function() end}"), Ok(())));
    assert!(matches!(check(LuaChunk::Script, "return {}"), Err(LuaFault::Load(_))));
    assert!(matches!(check(LuaChunk::FilterFunction, "function("), Err(LuaFault::Load(_))));
    let filter = super::filter::Filter::new("function(vars) return vars.arg_x == '1' end").unwrap();
    assert!(tidegate_plugin_api::FilterFunction::matches(&filter, &request(GET)));
}

/// `cargo test --release -p tidegate-plugins cost_of -- --nocapture --ignored`
#[test]
#[ignore = "a measurement, not a check"]
fn cost_of_setting_a_header() {
    let cases = [
        "return function() ngx.header['X-A'] = 'b' end",
        "local core = require('apisix.core') return function(conf, ctx) core.response.set_header('X-A', 'b') end",
        "return function() end",
    ];
    for source in cases {
        let program = Program::new("test", vec![source.to_owned()], json!({"a": 1}));
        let mut request = request(GET);
        let started = std::time::Instant::now();
        const CALLS: u32 = 200_000;
        for _ in 0..CALLS {
            request.extensions.clear();
            request.early_headers.clear();
            assert!(matches!(program.run(&mut request, Phase::Rewrite), Step::Next));
        }
        println!("{:?} per call: {source}", started.elapsed() / CALLS);
    }
    assert!(vm::vm().is_ok());
}

/// The names of `lua_files::look` are those that can be required.
#[test]
fn the_modules_that_are_offered_are_there() {
    for name in crate::lua_files::look::OFFERED {
        let source = format!("return function() return type(require({name:?})) ~= 'nil' and 200 or 500 end");
        let answer = run(&source, &mut request(GET), Phase::Access);
        assert_eq!(answer.map(|(status, _)| status), Some(200), "{name}");
    }
}

#[test]
fn digests_dates_and_addresses_of_modules() {
    let cases = [
        (
            "local s, h = require('resty.sha256').new(), require('resty.string').to_hex s:update('a') s:update('bc') return h(s:final())",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            "local h = require('resty.hmac') return h:new('key', h.ALGOS.SHA256):final('The quick brown fox jumps over the lazy dog', true)",
            "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
        ),
        (
            "local m = require('resty.md5'):new() m:update('') return require('resty.string').to_hex(m:final())",
            "d41d8cd98f00b204e9800998ecf8427e",
        ),
        (
            "return os.date('!%Y-%m-%dT%H:%M:%S', 951782400) .. os.time({year = 2000, month = 2, day = 29, hour = 0})",
            "2000-02-29T00:00:00951782400",
        ),
        (
            "local m = require('resty.ipmatcher').new({'10.0.0.0/9', '::1', 'fd00::/8'}) \
          local r = {} for _, a in ipairs({'10.127.0.1', '10.128.0.1', '::1', 'fd12::3', 'fe80::1', 'x'}) do r[#r + 1] = tostring((m:match(a))) end \
          return table.concat(r, ',')",
            "true,false,true,true,false,false",
        ),
        ("return tostring(require('resty.ipmatcher').new({'10.0.0.0/33'}))", "nil"),
        (
            "local u = require('resty.jit-uuid') return tostring(#u() == 36 and u() ~= u.generate_v4() and u():sub(15, 15))",
            "4",
        ),
        (
            "local x = require('pl.stringx') return x.strip('  a b ') .. '|' .. x.rstrip('a--', '-') .. '|' .. table.concat(x.split('a,b', ','), ';')",
            "a b|a|a;b",
        ),
        (
            "local c = require('resty.lrucache').new(2) c:set('a', 1) c:set('b', 2, 0.001) c:set('c', 3) return tostring(c:get('a')) .. tostring(c:get('c'))",
            "nil3",
        ),
        (
            "local core = require('apisix.core') local conf = {list = {{}}} \
          local s = {type = 'object', properties = {a = {type = 'integer', default = 5}, list = {type = 'array', items = {type = 'object', properties = {b = {default = 'x'}}}}}} \
          local ok = core.schema.check(s, conf) return tostring(ok) .. conf.a .. conf.list[1].b",
            "true5x",
        ),
        (
            "local core = require('apisix.core') return tostring(select(2, core.schema.check({type = 'object', required = {'a'}}, {})))",
            "property \"a\" is required",
        ),
        (
            "local core = require('apisix.core') local n, cache = 0, core.lrucache.new({ttl = 0.001}) \
          local function make() n = n + 1 return n end cache('k', 1, make) cache('k', 1, make) \
          local ends = ngx.now() + 0.01 while ngx.now() < ends do end return tostring(cache('k', 1, make))",
            "2",
        ),
    ];
    for (body, expected) in cases {
        let source = format!("return function(conf, ctx) return 200, (function() {body} end)() end");
        let answer = run(&source, &mut request(GET), Phase::Access);
        assert_eq!(answer, Some((200, expected.to_owned())), "{body}");
    }
}
