//! Modules that fail, that compute for ever, or that cannot be used: their own requests are refused, and others go on.

use std::{
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate_testkit::{Upstream, upstream::Behaviour, usage::processor_time};

use super::kit::{Fixture, Module};

fn at_head(body: &str) -> Vec<u8> {
    Module::default().on("proxy_on_request_headers", 3, Some(0), body).build()
}

#[test]
fn a_callback_that_fails_ends_its_request() {
    let modules = vec![
        ("endless", at_head("(loop $again (br $again))")),
        ("trap", at_head("unreachable")),
        (
            "deep",
            Module::default()
                .with("(func $deep (param i32) (call $deep (local.get 0)) (call $deep (local.get 0)))")
                .on("proxy_on_request_headers", 3, Some(0), "(call $deep (i32.const 1))")
                .build(),
        ),
        (
            "greedy",
            at_head(
                "(loop $again (call $fail_unless (i32.ne (memory.grow (i32.const 64)) (i32.const -1))) (br $again))",
            ),
        ),
        ("leaving", at_head("(call $exit (i32.const 3))")),
    ];
    let fixture = Fixture::start(modules, "");
    for (name, reason) in [
        ("endless", "time limit of 50 ms exceeded"),
        ("trap", "unreachable"),
        ("deep", "stack overflow"),
        ("greedy", "wasm.instance_memory, 67108864 bytes"),
        ("leaving", "exit code 3"),
    ] {
        for _ in 0..3 {
            assert_eq!(fixture.get(&format!("/{name}")).status(), 503, "{name}");
            assert_eq!(fixture.get("/plain").status(), 200, "{name}");
        }
        fixture.gateway.wait_for_log(&format!("{name}: failed to run wasm plugin: "));
        fixture.gateway.wait_for_log(reason);
    }
    assert!(fixture.upstream.seen().iter().all(|seen| seen.text().contains("/plain")));
}

/// Loops for requests with that header only.
fn sometimes() -> Vec<u8> {
    let mut module = Module::default();
    let name = module.text("x-loop");
    module
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            &format!(
                "(if (i32.eqz (call $header (i32.const 0) {name} (i32.const 0) (i32.const 4)))
                   (then (loop $again (br $again))))"
            ),
        )
        .on("proxy_on_response_headers", 3, Some(0), "")
        .build()
}

#[test]
fn an_endless_loop_ends_in_time_and_harms_no_other_request() {
    let fixture = Fixture::start(vec![("sometimes", sometimes())], "");
    assert_eq!(fixture.get("/sometimes").status(), 200);
    std::thread::scope(|scope| {
        let looping = scope.spawn(|| {
            (0..10)
                .map(|_| {
                    let begun = Instant::now();
                    let answer = fixture.send("GET /sometimes HTTP/1.1\r\nHost: h\r\nX-Loop: 1\r\n\r\n");
                    assert_eq!(answer.status(), 503);
                    begun.elapsed()
                })
                .min()
        });
        while !looping.is_finished() {
            assert_eq!(fixture.get("/sometimes").status(), 200);
            assert_eq!(fixture.get("/plain").status(), 200);
        }
        let shortest = looping.join().expect("the loops").expect("some");
        // The others have a processor meanwhile: the shortest is what the limit makes it.
        assert!(shortest < Duration::from_millis(600), "{shortest:?}");
    });
}

/// Answers requests of `/NAME/held` once the gate is open, others at once.
fn gated(gate: &Arc<RwLock<()>>) -> Upstream {
    let gate = gate.clone();
    let head = Upstream::answer(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec());
    let body = Upstream::answer(move |request| {
        if request.target().contains("/held") {
            drop(gate.read());
        }
        b"hello".to_vec()
    });
    Upstream::with(move |_| Behaviour { read_body: true, steps: vec![head.clone(), body.clone()] })
}

/// Does this in callbacks of both heads, for requests with that header only.
fn where_asked(name: &str, body: &str) -> Vec<u8> {
    let mut module = Module::default();
    let name = module.text(name);
    let asked = format!(
        "(if (i32.eqz (call $header (i32.const 0) {name} (i32.const 0) (i32.const 4))) (then {body}))"
    );
    module
        .on("proxy_on_request_headers", 3, Some(0), &asked)
        .on("proxy_on_response_headers", 3, Some(0), &asked)
        .build()
}

/// The refusal of a request passes no other instance, where the same would happen again.
#[test]
fn a_request_has_the_limit_once_and_ends_one_instance() {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().expect("a gate");
    let looping = where_asked("x-loop", "(loop $again (br $again))");
    let fixture = Fixture::start_with(vec![("looping", looping)], "", "", gated(&gate));
    let mut held = fixture.gateway.client();
    held.send(b"GET /looping/held HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    fixture.upstream.wait_for(1);
    // The first instance is taken: there are two from here on.
    assert_eq!(fixture.get("/looping").status(), 200);
    let before = processor_time(&fixture.gateway);
    assert_eq!(fixture.send("GET /looping HTTP/1.1\r\nHost: h\r\nX-Loop: 1\r\n\r\n").status(), 503);
    let took = processor_time(&fixture.gateway) - before;
    assert!(took < Duration::from_millis(75), "the limit is 50 ms: {took:?}");
    drop(closed);
    assert_eq!(held.response().expect("a response").status(), 200, "{}", fixture.gateway.error_log());
}

#[test]
fn a_paused_response_whose_instance_fails_at_another_request_is_refused() {
    let gate = Arc::new(RwLock::new(()));
    let closed = gate.write().expect("a gate");
    let mut module = Module::default();
    let (trap, path) = (module.text("x-trap"), module.text(":path"));
    let pausing = module
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            &format!("(call $fail_unless (call $header (i32.const 0) {trap} (i32.const 0) (i32.const 4)))"),
        )
        .on(
            "proxy_on_response_headers",
            3,
            Some(1),
            &format!(
                "(call $ok (call $header (i32.const 0) {path} (i32.const 0) (i32.const 4)))
                 (call $ok (call $log (i32.const 3) (call $at) (call $size)))"
            ),
        )
        .build();
    let fixture = Fixture::start_with(vec![("pausing", pausing)], "", "", gated(&gate));
    // As many as a worker has instances: one more shares the first.
    let mut paused: Vec<_> = (0..8)
        .map(|number| {
            let mut client = fixture.gateway.client();
            client
                .send(format!("GET /pausing/held{number} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes())
                .expect("sent");
            fixture.gateway.wait_for_log(&format!("wasm plugin pausing: /pausing/held{number}"));
            client
        })
        .collect();
    assert_eq!(fixture.send("GET /pausing HTTP/1.1\r\nHost: h\r\nX-Trap: 1\r\n\r\n").status(), 503);
    drop(closed);
    let answer = paused[0].response().expect("a response");
    assert_eq!(answer.status(), 503);
    assert!(!answer.body_text().contains("hello"), "{}", answer.body_text());
    fixture
        .gateway
        .wait_for_log("pausing: failed to run wasm plugin: its instance failed at another request");
}

#[test]
fn the_limits_are_configured() {
    let section = "  time_limit_ms: 10\n  instance_memory: 4m\n";
    let modules = vec![
        ("endless", at_head("(loop $again (br $again))")),
        ("greedy", at_head("(call $fail_unless (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))")),
    ];
    let upstream = Upstream::service(|_| (200, String::new()));
    let fixture = Fixture::start_with(modules, "", section, upstream);
    assert_eq!(fixture.get("/endless").status(), 503);
    fixture.gateway.wait_for_log("time limit of 10 ms exceeded");
    assert_eq!(fixture.get("/greedy").status(), 503);
    fixture.gateway.wait_for_log("memory of an instance exceeds wasm.instance_memory, 4194304 bytes");
}

#[test]
fn all_instances_share_a_limit() {
    // What both have at first fits, on each worker.
    let large = at_head("(call $fail_unless (i32.ne (memory.grow (i32.const 400)) (i32.const -1)))");
    let modules = vec![("first", at_head("")), ("second", large)];
    let upstream = Upstream::service(|_| (200, String::new()));
    let fixture = Fixture::start_with(modules, "", "  memory: 20971520\n", upstream);
    assert_eq!(fixture.get("/first").status(), 200);
    assert_eq!(fixture.get("/second").status(), 503);
    fixture.gateway.wait_for_log("memory of all instances exceeds wasm.memory, 20971520 bytes");
}

#[test]
fn a_failing_filter_of_responses_lets_nothing_through() {
    let at = |name: &str, count| Module::default().on(name, count, Some(0), "unreachable").build();
    let modules =
        vec![("head", at("proxy_on_response_headers", 3)), ("body", at("proxy_on_response_body", 3))];
    let fixture = Fixture::start(modules, ", process_bodies: true");
    let answer = fixture.get("/head");
    assert_eq!(answer.status(), 503);
    assert!(!answer.body_text().contains("hello"));
    // The head of this one is out already.
    let mut client = fixture.gateway.client();
    client.send(b"GET /body HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").expect("sent");
    let all = client.to_close().unwrap_or_default();
    assert!(!String::from_utf8_lossy(&all).contains("hello"), "{}", String::from_utf8_lossy(&all));
    assert_eq!(fixture.get("/plain").body_text(), "hello");
}

#[test]
fn a_module_that_cannot_be_used_denies_its_routes_and_is_named() {
    let foreign = wat::parse_str(r#"(module (memory (export "memory") 1))"#).expect("a module");
    let importing = |name: &str| {
        let text = format!(
            r#"(module (import "env" "{name}" (func)) (memory (export "memory") 1) (func (export "proxy_abi_version_0_2_1")))"#
        );
        wat::parse_str(text).expect("a module")
    };
    let cases = [
        ("absent", Vec::new(), "absent.wasm: No such file or directory"),
        ("broken", b"\0asm broken".to_vec(), "broken.wasm: "),
        ("unknown", importing("mystery"), "it imports what is not offered: env.mystery"),
        (
            "misspelled",
            importing("proxy_get_buffer_bytet"),
            "it imports what is not offered: env.proxy_get_buffer_bytet (did you mean proxy_get_buffer_bytes?)",
        ),
        (
            "uncalled",
            Module::default().on("proxy_on_request_header", 3, Some(0), "").build(),
            "its function proxy_on_request_header is never called; did you mean proxy_on_request_headers?",
        ),
        (
            "idle",
            Module::default().on("proxy_on_vm_start", 2, Some(1), "").build(),
            "none of its functions runs: it exports none of proxy_on_request_headers, ",
        ),
        ("foreign", foreign, "it is not a module of proxy-wasm"),
        (
            "older",
            Module::default().speaking("proxy_abi_version_0_1_0").build(),
            "it speaks proxy_abi_version_0_1_0",
        ),
        (
            "mistyped",
            Module::default().on("proxy_on_request_headers", 2, Some(0), "").build(),
            "its function proxy_on_request_headers has another type",
        ),
    ];
    let modules = cases.iter().map(|(name, module, _)| (*name, module.clone())).collect();
    let fixture = Fixture::start(modules, "");
    for (name, _, reason) in &cases {
        assert_eq!(fixture.get(&format!("/{name}")).status(), 503, "{name}");
        fixture
            .gateway
            .wait_for_log(&format!("plugin {name} cannot be loaded, and objects that use it are rejected"));
        fixture.gateway.wait_for_log(reason);
    }
    fixture.gateway.wait_for_log("or take the plugin out of wasm.plugins");
    assert_eq!(fixture.get("/plain").status(), 200);
    assert_eq!(fixture.upstream.seen().len(), 1);
}

#[test]
fn a_module_that_says_no_denies_its_route() {
    let saying_no = |name: &str| {
        let filter = Module::default().on("proxy_on_request_headers", 3, Some(0), "");
        filter.on(name, 2, Some(0), "").build()
    };
    let modules = vec![
        ("start", saying_no("proxy_on_vm_start")),
        ("conf", saying_no("proxy_on_configure")),
        ("fine", at_head("")),
    ];
    let fixture = Fixture::with_admin(modules, "");
    let put = |name: &str| {
        let route = json!({"uri": "/a", "plugins": {name: {"conf": "c"}}, "upstream": fixture.node()});
        fixture.gateway.admin("PUT", "/apisix/admin/routes/1?wait=applied", &route.to_string())
    };
    assert_eq!(put("fine").0, 201);
    for (name, function) in [("start", "proxy_on_vm_start"), ("conf", "proxy_on_configure")] {
        let (status, text) = put(name);
        assert!(status == 400 && text.contains(&format!("{function} returned false")), "{status} {text}");
    }
    assert_eq!(fixture.get("/a").status(), 200);
}
