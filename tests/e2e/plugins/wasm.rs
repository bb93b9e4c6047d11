//! Plugins in WebAssembly (proxy-wasm): what a module may do with requests, in modules written as text.

mod beside;
mod bodies;
mod calls;
mod faults;
mod kit;
mod reloading;
mod sdks;

use std::fs;

use serde_json::json;
use tidegate_testkit::{eventually, gateway::workspace_root};

use kit::{Fixture, Module};

/// The configuration goes into a header of both heads.
pub(super) fn tags() -> Vec<u8> {
    let mut module = Module::default();
    let (name, path, new_path) = (module.text("x-conf"), module.text(":path"), module.text("/changed?a=b"));
    let (status, teapot) = (module.text(":status"), module.text("418"));
    let gone = module.text("x-gone");
    module
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            &format!(
                "(call $ok (call $buffer (i32.const 7) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 4)))
                 (call $ok (call $set_header (i32.const 0) {name} (call $at) (call $size)))
                 (call $ok (call $remove_header (i32.const 0) {gone}))
                 (call $ok (call $set_header (i32.const 0) {path} {new_path}))"
            ),
        )
        .on(
            "proxy_on_response_headers",
            3,
            Some(0),
            &format!(
                "(call $ok (call $buffer (i32.const 7) (i32.const 0) (i32.const -1) (i32.const 0) (i32.const 4)))
                 (call $ok (call $add_header (i32.const 2) {name} (call $at) (call $size)))
                 (call $ok (call $set_header (i32.const 2) {status} {teapot}))"
            ),
        )
        .build()
}

#[test]
fn heads_of_requests_and_responses_are_changed() {
    let fixture = Fixture::start(vec![("tags", tags())], "");
    let answer = fixture.send("GET /tags HTTP/1.1\r\nHost: h\r\nX-Gone: 1\r\nX_Conf: forged\r\n\r\n");
    assert_eq!((answer.status(), answer.header("X-Conf")), (418, Some("tags")));
    assert_eq!(answer.body_text(), "hello");
    let seen = fixture.upstream.take()[0].text().to_lowercase();
    assert!(seen.starts_with("get /changed?a=b http/1.1\r\n"), "{seen}");
    assert!(
        seen.contains("x-conf: tags\r\n") && !seen.contains("x-gone") && !seen.contains("forged"),
        "{seen}"
    );
    // Without the plugin nothing is.
    assert_eq!(fixture.get("/plain").status(), 200);
}

#[test]
fn an_object_is_handed_over_as_json_and_each_owner_has_a_context() {
    let fixture = Fixture::with_admin(vec![("tags", tags())], "");
    let put = |id: &str, conf: serde_json::Value| {
        let route = json!({"uri": format!("/{id}"), "plugins": {"tags": conf}, "upstream": fixture.node()});
        fixture.gateway.admin("PUT", &format!("/apisix/admin/routes/{id}?wait=applied"), &route.to_string())
    };
    assert_eq!(put("a", json!({"conf": {"b": [1, true]}})).0, 201);
    assert_eq!(put("c", json!({"conf": "text"})).0, 201);
    for _ in 0..3 {
        assert_eq!(fixture.get("/a").header("X-Conf"), Some(r#"{"b":[1,true]}"#));
        assert_eq!(fixture.get("/c").header("X-Conf"), Some("text"));
    }
    assert_eq!(put("a", json!({"conf": "new"})).0, 200);
    assert_eq!(fixture.get("/a").header("X-Conf"), Some("new"));
    for (conf, reason) in [
        (json!({}), "conf"),
        (json!({"conf": ""}), "value should match only one schema, but matches none"),
        (json!({"conf": {}}), "value should match only one schema, but matches none"),
        (json!({"conf": 123}), "value should match only one schema, but matches none"),
    ] {
        let (status, text) = put("a", conf);
        assert!(status == 400 && text.contains(reason), "{text}");
    }
    let (status, text) = fixture.gateway.admin("GET", "/apisix/admin/plugins/list", "");
    assert!(status == 200 && text.contains("\"tags\""), "{text}");
}

/// Logs the numbers of its contexts, as APISIX's example does.
fn numbered(word: &str) -> Vec<u8> {
    let mut module = Module::default();
    let line = module.text(format!("{word} plugin 0 http 0"));
    let at = line.trim_start_matches("(i32.const ").split(')').next().and_then(|at| at.parse::<usize>().ok());
    let at = at.expect("a place");
    let (plugin, http) = (at + word.len() + 8, at + word.len() + 15);
    module
        .with("(global $parent (mut i32) (i32.const 0))")
        .on(
            "proxy_on_context_create",
            2,
            None,
            "(if (local.get 1) (then (global.set $parent (local.get 1))))",
        )
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            &format!(
                "(i32.store8 (i32.const {plugin}) (i32.add (global.get $parent) (i32.const 48)))
                 (i32.store8 (i32.const {http}) (i32.add (local.get 0) (i32.const 48)))
                 (call $ok (call $log (i32.const 3) {line}))"
            ),
        )
        .build()
}

#[test]
fn contexts_are_numbered_as_in_apisix_and_the_phase_decides_the_order() {
    let fixture = Fixture::with_admin(vec![("early", numbered("early")), ("late", numbered("late"))], "");
    let route = json!({"uri": "/a", "upstream": fixture.node(), "plugins": {"early": {"conf": "a"}, "late": {"conf": "b"}}});
    assert_eq!(
        fixture.gateway.admin("PUT", "/apisix/admin/routes/1?wait=applied", &route.to_string()).0,
        201
    );
    assert_eq!(fixture.get("/a").status(), 200);
    fixture.gateway.wait_for_log("late plugin 1 http 2");
    let log = fixture.gateway.error_log();
    let at = |text: &str| log.find(text).unwrap_or_else(|| panic!("{text}: {log}"));
    assert!(at("early plugin 1 http 2") < at("late plugin 1 http 2"), "{log}");
}

#[test]
fn a_module_in_phase_rewrite_runs_before_all_of_phase_access() {
    let fixture = Fixture::with_admin(vec![("tags", tags())], ", http_request_phase: rewrite");
    let route = json!({"uri": "/a", "upstream": fixture.node(), "plugins": {
        "tags": {"conf": "t"},
        "serverless-pre-function": {"phase": "access", "functions": [
            "return function(conf, ctx) ngx.header['X-Saw'] = ngx.req.get_headers()['x-conf'] ngx.exit(202) end"]}}});
    let (status, text) =
        fixture.gateway.admin("PUT", "/apisix/admin/routes/1?wait=applied", &route.to_string());
    assert_eq!(status, 201, "{text}");
    // The head of the gateway's own answer passes the module as well.
    let answer = fixture.get("/a");
    assert_eq!((answer.header("X-Saw"), answer.header("X-Conf")), (Some("t"), Some("t")));
}

#[test]
fn a_module_answers_in_the_place_of_the_upstream() {
    let mut module = Module::default();
    let (body, fields) =
        (module.text("not you\n"), module.fields(&[("x-reason", "none"), ("content-type", "text/x")]));
    let refusing = module
        .on(
            "proxy_on_request_headers",
            3,
            Some(1),
            &format!(
                "(call $ok (call $reply (i32.const 403) (i32.const 0) (i32.const 0) {body} {fields} (i32.const -1)))"
            ),
        )
        .build();
    let mut module = Module::default();
    let (body, fields) = (module.text("instead"), module.fields(&[]));
    let instead = module
        .on(
            "proxy_on_response_headers",
            3,
            Some(1),
            &format!(
                "(call $ok (call $reply (i32.const 451) (i32.const 0) (i32.const 0) {body} {fields} (i32.const -1)))"
            ),
        )
        .build();
    let fixture = Fixture::start(vec![("refusing", refusing), ("instead", instead)], "");
    let answer = fixture.get("/refusing");
    assert_eq!((answer.status(), answer.body_text().as_str()), (403, "not you\n"));
    assert_eq!((answer.header("X-Reason"), answer.header("Content-Type")), (Some("none"), Some("text/x")));
    assert!(fixture.upstream.take().is_empty());
    let answer = fixture.get("/instead");
    assert_eq!((answer.status(), answer.body_text().as_str()), (451, "instead"));
    assert_eq!(fixture.upstream.take().len(), 1);
}

/// The value of a property, in a header of the response.
fn property(path: &str) -> Vec<u8> {
    let mut module = Module::default();
    let (path, name) = (module.text(path), module.text("x-value"));
    module
        .on(
            "proxy_on_response_headers",
            3,
            Some(0),
            &format!(
                "(if (i32.eqz (call $property {path} (i32.const 0) (i32.const 4)))
                   (then (call $ok (call $set_header (i32.const 2) {name} (call $at) (call $size)))))"
            ),
        )
        .build()
}

#[test]
fn properties_tell_of_the_request() {
    let cases = [
        ("p0", "remote_addr", Some("127.0.0.1")),
        ("p1", "request\0path", Some("/p1?x=y")),
        ("p2", "request\0url_path", Some("/p2")),
        ("p3", "request\0method", Some("GET")),
        ("p4", "request\0headers\0x-in", Some("in")),
        ("p5", "plugin_root_id", Some("p5")),
        ("p6", "arg_x", Some("y")),
        ("p7", "request\0protocol", Some("HTTP/1.1")),
        ("p8", "nothing\0such", None),
        ("p9", "route_id", Some("p9")),
    ];
    let modules = cases.iter().map(|(name, path, _)| (*name, property(path))).collect();
    let fixture = Fixture::start(modules, "");
    for (name, path, expected) in cases {
        let answer = fixture.send(&format!("GET /{name}?x=y HTTP/1.1\r\nHost: h\r\nX-In: in\r\n\r\n"));
        assert_eq!(answer.header("X-Value"), expected, "{path}");
    }
}

#[test]
fn what_a_program_prints_is_in_the_error_log() {
    let mut module = Module::default();
    let line = module.text("printed by the program\n");
    let printing = module
        .with(&format!(
            "(func $two (param $at i32) (param $size i32)
               (i32.store (i32.const 16) (local.get $at)) (i32.store (i32.const 20) (local.get $size)))
             (func $print (call $two {line})
               (call $ok (call $fd_write (i32.const 2) (i32.const 16) (i32.const 1) (i32.const 24))))"
        ))
        .on(
            "proxy_on_request_headers",
            3,
            Some(0),
            "(call $print)
             (call $ok (call $random (i32.const 32) (i32.const 8)))
             (call $ok (call $clock (i32.const 0) (i64.const 0) (i32.const 40)))
             (call $fail_unless (i64.gt_u (i64.load (i32.const 40)) (i64.const 1700000000000000000)))
             (call $ok (call $environ (i32.const 48) (i32.const 52)))
             (call $ok (i32.load (i32.const 48)))",
        )
        .speaking("proxy_abi_version_0_2_0")
        .build();
    let fixture = Fixture::start(vec![("printing", printing)], "");
    assert_eq!(fixture.get("/printing").status(), 200);
    eventually("the line is there", || {
        fixture.gateway.error_log().contains("wasm plugin printing: printed by the program")
    });
}

/// `UPDATE_DOCS=1` makes it anew.
#[test]
fn the_example_is_made_of_its_text() {
    let folder = workspace_root().join("docs/guide/wasm");
    let made = wat::parse_file(folder.join("greet.wat")).expect("a module");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(folder.join("greet.wasm"), &made).expect("written");
    }
    assert_eq!(fs::read(folder.join("greet.wasm")).unwrap_or_default(), made, "run with UPDATE_DOCS=1");
}
