//! `proxy_http_call`: what a service answers decides.

use tidegate_testkit::{
    Upstream,
    upstream::{Behaviour, Step},
};

use super::kit::{Fixture, Module};

/// Asks a service for the request, with answer `action`. Below 300 its header goes upstream; else the client is refused.
fn asking(service: &str, action: u32) -> Vec<u8> {
    let mut module = Module::default();
    let server = module.text(service);
    let fields =
        module.fields(&[(":method", "GET"), (":path", "/decide?x"), ("host", "auth"), ("x-from", "wasm")]);
    let (name, status) = (module.text("x-user"), module.text(":status"));
    let (none, refusal, failed) = (module.fields(&[]), module.text("refused"), module.text("no answer"));
    module
        .with("(global $stream (mut i32) (i32.const 0))")
        .on(
            "proxy_on_request_headers",
            3,
            Some(action),
            &format!(
                "(global.set $stream (local.get 0))
                 (call $ok (call $call {server} {fields} (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                   (i32.const 5000) (i32.const 8)))"
            ),
        )
        .on(
            "proxy_on_http_call_response",
            5,
            None,
            &format!(
                "(call $ok (call $effective (global.get $stream)))
                 (if (i32.eqz (local.get 2)) (then
                   (call $ok (call $reply (i32.const 500) (i32.const 0) (i32.const 0) {failed} {none} (i32.const -1)))
                   return))
                 (call $ok (call $header (i32.const 6) {status} (i32.const 0) (i32.const 4)))
                 (if (i32.ne (i32.load8_u (call $at)) (i32.const 50)) (then
                   (call $ok (call $reply (i32.const 403) (i32.const 0) (i32.const 0) {refusal} {none} (i32.const -1)))
                   return))
                 (call $ok (call $header (i32.const 6) {name} (i32.const 0) (i32.const 4)))
                 (call $ok (call $set_header (i32.const 0) {name} (call $at) (call $size)))
                 (drop (call $continue (i32.const 0)))"
            ),
        )
        .build()
}

fn service(status: u16) -> Upstream {
    let answer = format!("HTTP/1.1 {status} S\r\nX-User: ada\r\nContent-Length: 2\r\n\r\nok").into_bytes();
    let step = Upstream::answer(move |_| answer.clone());
    Upstream::with(move |_| Behaviour { read_body: true, steps: vec![step.clone()] })
}

#[test]
fn a_service_decides_whether_the_module_pauses_or_not() {
    let (yes, no) = (service(200), service(401));
    let modules = vec![
        ("paused", asking(&yes.address.to_string(), 1)),
        ("unpaused", asking(&yes.address.to_string(), 0)),
        ("refused", asking(&no.address.to_string(), 0)),
        ("nobody", asking("127.0.0.1:1", 1)),
    ];
    let fixture = Fixture::start(modules, "");
    for path in ["/paused", "/unpaused"] {
        assert_eq!(fixture.get(path).status(), 200, "{path}");
        let seen = fixture.upstream.take()[0].text();
        assert!(seen.to_lowercase().contains("x-user: ada\r\n"), "{path}: {seen}");
    }
    let asked = yes.take()[0].text();
    assert!(asked.starts_with("GET /decide?x HTTP/1.1\r\n") && asked.contains("auth\r\n"), "{asked}");
    let answer = fixture.get("/refused");
    assert_eq!((answer.status(), answer.body_text().as_str()), (403, "refused"));
    let answer = fixture.get("/nobody");
    assert_eq!((answer.status(), answer.body_text().as_str()), (500, "no answer"));
    assert!(fixture.upstream.take().is_empty());
    fixture.gateway.wait_for_log("nobody: a call of the wasm plugin has no answer");
}

#[test]
fn a_worker_goes_on_while_a_service_thinks() {
    let silent = Upstream::with(|_| Behaviour { read_body: true, steps: vec![Step::Silence] });
    let fixture = Fixture::start(vec![("asking", asking(&silent.address.to_string(), 1))], "");
    let mut waiting = fixture.gateway.client();
    waiting.send(b"GET /asking HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    silent.wait_for(1);
    for _ in 0..20 {
        assert_eq!(fixture.get("/plain").status(), 200);
    }
}

/// Holds the response until the service has answered, and puts its answer into the head.
#[test]
fn a_response_waits_for_a_service() {
    let yes = service(200);
    let mut module = Module::default();
    let server = module.text(yes.address.to_string());
    let fields = module.fields(&[(":path", "/")]);
    let (name, mark) = (module.text("x-user"), module.text("!"));
    let holding = module
        .with("(global $stream (mut i32) (i32.const 0))")
        .on(
            "proxy_on_response_headers",
            3,
            Some(1),
            &format!(
                "(global.set $stream (local.get 0))
                 (call $ok (call $call {server} {fields} (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)
                   (i32.const 5000) (i32.const 8)))"
            ),
        )
        .on(
            "proxy_on_http_call_response",
            5,
            None,
            &format!(
                "(call $ok (call $header (i32.const 6) {name} (i32.const 0) (i32.const 4)))
                 (call $ok (call $effective (global.get $stream)))
                 (call $ok (call $set_header (i32.const 2) {name} (call $at) (call $size)))
                 (call $ok (call $set_buffer (i32.const 1) (i32.const -1) (i32.const 0) {mark}))
                 (call $ok (call $continue (i32.const 1)))"
            ),
        )
        .build();
    let fixture = Fixture::start(vec![("holding", holding)], "");
    let answer = fixture.get("/holding");
    assert_eq!((answer.status(), answer.header("X-User")), (200, Some("ada")));
    assert_eq!(answer.body_text(), "hello!");
}
