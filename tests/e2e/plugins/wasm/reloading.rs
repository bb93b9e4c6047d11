//! Modules that change while the gateway runs, and faults of their section.

use std::fs;

use tidegate_testkit::{Gateway, eventually, gateway::YAML_PROVIDER};

use super::kit::{Fixture, Module};

fn saying(word: &str) -> Vec<u8> {
    let mut module = Module::default();
    let (body, none) = (module.text(word), module.fields(&[]));
    module
        .on(
            "proxy_on_request_headers",
            3,
            Some(1),
            &format!("(call $ok (call $reply (i32.const 200) (i32.const 0) (i32.const 0) {body} {none} (i32.const -1)))"),
        )
        .build()
}

#[test]
fn a_reload_takes_the_new_module_and_keeps_what_works() {
    let fixture = Fixture::start(vec![("word", saying("first"))], "");
    let said = || fixture.get("/word").body_text();
    assert_eq!(said(), "first");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(ok && text.contains("reloaded"), "{text}");
    fixture.write("word", &saying("second"));
    assert_eq!(said(), "first", "nothing changes before the reload");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(ok, "{text}");
    eventually("the module is new", || said() == "second");
    fixture.write("word", b"broken");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(!ok && text.contains("plugin word cannot be loaded"), "{text}");
    assert_eq!(said(), "second");
    fs::remove_file(fixture.folder.path().join("word.wasm")).expect("removed");
    let (ok, text) = fixture.gateway.verb("reload");
    assert!(!ok && text.contains("No such file"), "{text}");
    assert_eq!(said(), "second");
}

#[test]
fn faults_of_the_section_are_named() {
    let check = |list: &str, reason: &str| {
        let config = format!("{YAML_PROVIDER}wasm: {{plugins: [{list}]}}\n");
        let gateway = Gateway::start_unready(&config, Some("routes: []\n"));
        let (ok, text) = gateway.verb("test");
        assert!(!ok && text.contains(reason), "{list}: {text}");
    };
    check("{name: a, file: a.wasm}", "property \"priority\" is required");
    check("{name: a, priority: 1}", "property \"file\" is required");
    check("{name: key-auth, priority: 1, file: a.wasm}", "the name key-auth is taken by another plugin");
    check("{name: a, priority: 1, file: a.wasm, phase: rewrite}", "phase is unknown");
}
