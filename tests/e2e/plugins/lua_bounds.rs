//! Lua that an operator writes ends in time, whatever it is: the request is answered, others go on, the process lives.

mod inventions;
mod scripts;

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Gateway, PATIENCE};

use crate::plugins::body_work::cpu;
use inventions::INVENTIONS;
use scripts::SCRIPTS;

/// A call may take 50 ms, and its request ends within 100. Counted is time on a processor, because the machine that runs
/// the tests may have none to spare. Here LuaJIT checks itself and Rust is not optimised: four times as long.
const ENDS: Duration = Duration::from_millis(if cfg!(debug_assertions) { 400 } else { 100 });
/// The interpreter's limit is 256 MiB; one that is retired may be there beside it for a while.
const MEMORY_BYTES: u64 = (512 + 256) << 20;

fn memory(gateway: &Gateway) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", gateway.process.id())).expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a resident set");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn serverless(phase: &str, function: &str) -> Value {
    json!({"serverless-pre-function": {"phase": phase, "functions": [function]},
        "mocking": {"response_status": 200, "response_example": "mocked", "with_mock_header": false}})
}

fn quick() -> Value {
    json!({"id": "quick", "uri": "/quick", "plugins": {"mocking": {"response_status": 204, "response_example": ""}}})
}

/// Asks for `target`, and for a plain route while that is under way. Status and text of the answer; a status of 0 when the
/// two took too long.
fn ask(gateway: &Gateway, evil: &mut Client, plain: &mut Client, target: &str, what: &str) -> (u16, String) {
    let before = (cpu(gateway), Instant::now());
    evil.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
    plain.send(b"GET /quick HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    let answer = evil.response().unwrap_or_else(|error| panic!("{what} is answered: {error:?}"));
    assert_eq!(plain.response().expect("an answer of the plain route").status(), 204, "{what}");
    let (took, waited) = (cpu(gateway) - before.0, before.1.elapsed());
    assert!(waited < PATIENCE, "{what} took {waited:?}");
    if took > ENDS {
        return (0, format!("{what} took {took:?} of a processor, {waited:?} in all"));
    }
    (answer.status(), answer.body_text())
}

#[test]
fn scripts_end_in_time() {
    assert!(SCRIPTS.len() >= 60);
    // Twice: what one leaves behind must not spare the next.
    end_in_time(SCRIPTS, 2);
}

#[test]
fn inventions_end_in_time() {
    assert!(INVENTIONS.len() >= 50);
    end_in_time(INVENTIONS, 1);
}

fn end_in_time(scripts: &[(&str, &str, u16)], rounds: u32) {
    let routes = scripts.iter().enumerate().map(|(number, (_, body, _))| {
        // With upvalues that stay, or without.
        let (kept, body) = body.split_once(" KEPT ").unwrap_or(("", body));
        let function = format!("{kept} return function(conf, ctx) {body} end");
        json!({"id": format!("r{number}"), "uri": format!("/{number}"), "plugins": serverless("rewrite", &function)})
    });
    let routes: Vec<Value> = routes.chain([quick()]).collect();
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let (mut evil, mut plain) = (gateway.client(), gateway.client());
    let (mut highest, mut wrong) = (0, Vec::new());
    for round in 0..rounds {
        for (number, (what, _, status)) in scripts.iter().enumerate() {
            let (mut got, mut text) = ask(&gateway, &mut evil, &mut plain, &format!("/{number}"), what);
            // The limit is wall time: on a crowded machine it can end a call that does little.
            for _ in 0..2 {
                if *status == 200 && got == 500 {
                    (got, text) = ask(&gateway, &mut evil, &mut plain, &format!("/{number}"), what);
                }
            }
            if got != *status {
                let log = gateway.error_log();
                let last = log.lines().rfind(|line| line.contains("[error]")).unwrap_or_default();
                wrong.push(format!("{what} in round {round}: {got} {text:.200}, {last}"));
            }
            highest = highest.max(memory(&gateway));
        }
    }
    assert!(gateway.process.ended().is_none(), "the process lives");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(highest < MEMORY_BYTES, "{} MiB", highest >> 20);
}

/// Each gets its own time, or a part of what is left of the request's.
#[test]
fn calls_of_one_request_share_its_time() {
    let busy = |loops: u32, then: &str| format!("for i = 1, {loops} do end {then}");
    let function = |body: &str| format!("return function() {body} end");
    let named = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins});
    let filter = |number: u32, id: &str, body: &str| {
        json!({"id": format!("{id}{number}"), "uri": format!("/{id}"), "priority": number,
            "filter_func": format!("function() {body} end"), "plugins": {"mocking": {"response_example": "x"}}})
    };
    let pre = |plugin: Value| {
        let mut plugin = plugin;
        plugin["_meta"] = json!({"pre_function": LOOP});
        plugin
    };
    let mocking = json!({"response_status": 200, "response_example": "mocked", "with_mock_header": false});
    let phase = |phase: &str| json!({"phase": phase, "functions": [LOOP]});
    let mut routes = vec![
        quick(),
        named(
            "late",
            json!({"mocking": mocking, "serverless-pre-function": phase("header_filter"), "serverless-post-function": phase("log")}),
        ),
        named(
            "before",
            json!({"mocking": pre(mocking), "cors": pre(json!({})), "request-id": pre(json!({})),
            "proxy-rewrite": pre(json!({"headers": {"set": {"a": "b"}}})), "response-rewrite": pre(json!({"headers": {"set": {"a": "b"}}}))}),
        ),
        named(
            "sleep",
            serverless(
                "rewrite",
                &function(&busy(1_000, "while true do ngx.sleep(0) for i = 1, 300000 do end end")),
            ),
        ),
        named("chunk", serverless("body_filter", &function("ngx.arg[1] = ('x'):rep(16000000)"))),
    ];
    routes.extend((0..10).map(|number| filter(number, "loops", "while true do end")));
    routes.extend((0..40).map(|number| filter(number, "slow", &busy(150_000, "return false"))));
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let (mut evil, mut plain) = (gateway.client(), gateway.client());
    // A quick machine makes the chunk in time.
    for (id, statuses) in [
        ("late", [500, 500]),
        ("before", [500, 500]),
        ("sleep", [500, 500]),
        ("chunk", [200, 500]),
        ("loops", [500, 500]),
        ("slow", [500, 500]),
    ] {
        let (got, text) = ask(&gateway, &mut evil, &mut plain, &format!("/{id}"), id);
        assert!(statuses.contains(&got), "{id}: {got} {text:.300}");
    }
    assert!(gateway.process.ended().is_none(), "the process lives");
}

const LOOP: &str = "return function() while true do end end";

/// Where Lua runs but in the rewrite phase.
#[test]
fn every_place_is_under_the_clock() {
    let named = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins});
    let mocking = json!({"response_status": 200, "response_example": "mocked", "with_mock_header": false});
    let evil_handler = "return function() xpcall(error, function() while true do end end) end";
    let script = |id: &str, source: &str| json!({"id": id, "uri": format!("/{id}"), "script": source, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
    let with = |mut route: Value, field: &str, value: &str| {
        route[field] = json!(value);
        route
    };
    let routes = vec![
        quick(),
        named("rewrite", serverless("rewrite", LOOP)),
        named("header_filter", serverless("header_filter", LOOP)),
        named("body_filter", serverless("body_filter", evil_handler)),
        named("log", serverless("log", LOOP)),
        named(
            "sleep",
            serverless("rewrite", "return function() ngx.sleep(0) while true do pcall(ngx.now) end end"),
        ),
        with(named("filter", json!({"mocking": mocking})), "filter_func", "function() while true do end end"),
        script("lookup", "return setmetatable({}, {__index = function() while true do end end})"),
        script("script", "return {access = function() while true do end end}"),
        named(
            "pre",
            json!({"mocking": {"response_status": 200, "response_example": "mocked",
            "_meta": {"pre_function": "return function() while true do end end"}}}),
        ),
        named(
            "template",
            json!({"body-transformer": {"request": {"input_format": "plain", "template": "{% while true do end %}"}},
            "mocking": mocking}),
        ),
    ];
    let expected = [
        ("rewrite", 500),
        ("header_filter", 500),
        ("body_filter", 500),
        ("log", 200),
        ("sleep", 500),
        ("filter", 500),
        ("script", 500),
        ("lookup", 500),
        ("pre", 500),
        ("template", 503),
    ];
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let (mut evil, mut plain) = (gateway.client(), gateway.client());
    for (id, status) in expected {
        let (got, text) = ask(&gateway, &mut evil, &mut plain, &format!("/{id}"), id);
        assert_eq!(got, status, "{id}: {text}");
    }
    assert!(gateway.process.ended().is_none(), "the process lives");
}

/// What is written is run once to see what it is.
#[test]
fn a_chunk_that_loops_is_refused() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    for (what, chunk) in [
        ("a loop", "while true do end"),
        ("a handler", "xpcall(error, function() while true do end end)"),
        ("a pattern", "local _ = ('a'):rep(3000):find(('a-'):rep(12) .. 'b') return function() end"),
        ("recursion", "local function f() ('x'):gsub('x', f) end f()"),
        ("coroutines", "local function f() return coroutine.wrap(f)() end f()"),
        ("memory", "t = {} for i = 1, 1e9 do t[i] = {i} end"),
        ("a long source", &"x = 1 ".repeat(300_000)),
    ] {
        let route = json!({"uri": "/a", "plugins": serverless("rewrite", chunk)});
        let before = cpu(&gateway);
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string());
        let took = cpu(&gateway) - before;
        assert_eq!(status, 400, "{what}: {answer}");
        assert!(took <= ENDS * 2, "{what} took {took:?}");
        assert!(memory(&gateway) < MEMORY_BYTES, "{what}");
    }
    assert!(gateway.process.ended().is_none(), "the process lives");
}

/// Clients make a script fill its tables: requests fail at the limit, then the interpreter starts over.
#[test]
fn a_full_interpreter_is_replaced() {
    let fill = "kept = kept or {} return function() for i = 1, 40 do kept[#kept + 1] = ('x'):rep(1000000) .. #kept end
        return 200, 'kept ' .. #kept end";
    let small = "return function() return 200, tostring(kept and #kept) end";
    let route = |id: &str, function: &str| json!({"id": id, "uri": format!("/{id}"), "plugins": serverless("rewrite", function)});
    let routes = json!({"routes": [route("fill", fill), route("small", small), quick()]});
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let (mut evil, mut plain) = (gateway.client(), gateway.client());
    let started = Instant::now();
    let (mut failed, mut replaced) = (0, 0);
    while replaced < 2 {
        assert!(
            started.elapsed() < PATIENCE * 3,
            "it is replaced twice, not {replaced} times; {failed} failed"
        );
        let (status, text) = ask(&gateway, &mut evil, &mut plain, "/fill", "filling");
        assert!(matches!(status, 200 | 500), "{status} {text}");
        failed += u32::from(status == 500);
        replaced = gateway.error_log().matches("the interpreter is replaced").count();
        assert!(memory(&gateway) < MEMORY_BYTES, "{} MiB", memory(&gateway) >> 20);
    }
    let (status, body) = ask(&gateway, &mut evil, &mut plain, "/small", "a small one");
    assert_eq!(status, 200, "{body}");
    assert!(gateway.process.ended().is_none(), "the process lives");
}
