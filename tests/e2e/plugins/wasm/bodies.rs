//! Bodies and trailers: asked for by a property, as in APISIX, or in any case with `process_bodies`.

use tidegate_testkit::{Upstream, upstream::Behaviour};

use super::kit::{Fixture, Module};

/// Sees both bodies and puts others in their place; with `asks` only after asking for them.
fn rewriting(asks: bool) -> Vec<u8> {
    let mut module = Module::default();
    let (request, response) = (module.text("wasm_process_req_body"), module.text("wasm_process_resp_body"));
    let (yes, prefix, suffix, length) =
        (module.text("true"), module.text("<"), module.text(">"), module.text("content-length"));
    let ask = |kind: &str| match asks {
        true => format!("(call $ok (call $set_property {kind} {yes}))"),
        false => String::new(),
    };
    let frame = |buffer: u32| {
        format!(
            "(call $ok (call $set_buffer (i32.const {buffer}) (i32.const 0) (i32.const 0) {prefix}))
             (call $ok (call $set_buffer (i32.const {buffer}) (i32.const -1) (i32.const 0) {suffix}))"
        )
    };
    // A body that is not whole is waited for.
    let whole = |buffer: u32| {
        format!(
            "(func (export \"proxy_on_{}_body\") (param i32 i32 i32) (result i32)
               (if (i32.eqz (local.get 2)) (then (return (i32.const 1))))
               {} (i32.const 0))",
            if buffer == 0 { "request" } else { "response" },
            frame(buffer)
        )
    };
    module
        .on("proxy_on_request_headers", 3, Some(0), &ask(&request))
        .on(
            "proxy_on_response_headers",
            3,
            Some(0),
            &format!("{} (call $ok (call $remove_header (i32.const 2) {length}))", ask(&response)),
        )
        .with(&whole(0))
        .with(&whole(1))
        .build()
}

const POST: &str = "HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody";
const CHUNKED: &str =
    "HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n";

fn echo() -> Upstream {
    Upstream::service(|request| (200, request.body_text()))
}

#[test]
fn bodies_are_changed_where_the_module_asks_for_them() {
    let modules = vec![("asking", rewriting(true)), ("silent", rewriting(false))];
    let fixture = Fixture::start_with(modules, "", "", echo());
    for body in [POST, CHUNKED] {
        assert_eq!(fixture.send(&format!("POST /asking {body}")).body_text(), "<<body>>");
        assert_eq!(fixture.send(&format!("POST /silent {body}")).body_text(), "body");
    }
}

#[test]
fn with_process_bodies_a_module_need_not_ask() {
    let fixture =
        Fixture::start_with(vec![("silent", rewriting(false))], ", process_bodies: true", "", echo());
    for body in [POST, CHUNKED] {
        assert_eq!(fixture.send(&format!("POST /silent {body}")).body_text(), "<<body>>");
    }
    let long = "x".repeat(300_000);
    let answer = fixture
        .send(&format!("POST /silent HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{long}", long.len()));
    assert_eq!(answer.body_text(), format!("<<{long}>>"));
    // Without a body of the request its callback does not run.
    assert_eq!(fixture.get("/silent").body_text(), "<>");
}

#[test]
fn trailers_of_requests_and_responses_are_seen() {
    let mut module = Module::default();
    let (name, value, own) = (module.text("x-sum"), module.text("changed"), module.text("x-own"));
    let trailing = module
        .on(
            "proxy_on_request_trailers",
            2,
            Some(0),
            &format!(
                "(call $ok (call $header (i32.const 1) {name} (i32.const 0) (i32.const 4)))
                 (call $ok (call $set_header (i32.const 1) {own} (call $at) (call $size)))"
            ),
        )
        .on("proxy_on_request_body", 3, Some(0), "")
        .on(
            "proxy_on_response_trailers",
            2,
            Some(0),
            &format!("(call $ok (call $set_header (i32.const 3) {name} {value}))"),
        )
        .build();
    let answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 7\r\n\r\n";
    let step = Upstream::answer(move |_| answer.to_vec());
    let upstream = Upstream::with(move |_| Behaviour { read_body: true, steps: vec![step.clone()] });
    let fixture = Fixture::start_with(vec![("trailing", trailing)], ", process_bodies: true", "", upstream);
    let mut client = fixture.gateway.client();
    client
        .send(
            b"POST /trailing HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: close\r\n\
              Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\n\r\n",
        )
        .expect("sent");
    let all = String::from_utf8_lossy(&client.to_close().expect("an answer")).into_owned();
    assert!(all.contains("hi") && all.to_lowercase().contains("x-sum: changed"), "{all}");
}

#[test]
fn a_paused_response_that_nothing_resumes_never_reaches_the_client() {
    let mut module = Module::default();
    let body = module.text("late");
    let fields = module.fields(&[]);
    let closing = module
        .on("proxy_on_response_headers", 3, Some(1), "(call $ok (call $close (i32.const 1)))")
        .with(&format!("(func $unused (call $ok (call $reply (i32.const 200) (i32.const 0) (i32.const 0) {body} {fields} (i32.const -1))))"))
        .build();
    let fixture = Fixture::start(vec![("closing", closing)], "");
    let answer = fixture.get("/closing");
    assert_eq!(answer.status(), 503);
    assert!(!answer.body_text().contains("hello"));
}
