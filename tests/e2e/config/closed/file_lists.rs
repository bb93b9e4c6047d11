//! A key of apisix.yaml whose value is not a list, and an unknown key: what `test`, `reload`, `upgrade` and a start make of it.

use std::process::Command;

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, binary};

use super::{OPEN, rejected, status};

fn open_route() -> String {
    format!("routes: [{{id: 1, uri: /x, plugins: {{{OPEN}}}}}]\n")
}

const GUARD: &str = "global_rules: [{id: 1, plugins: {ip-restriction: {whitelist: [10.0.0.1]}}}]\n";

/// The code and what is printed.
fn code_of(gateway: &Gateway, verb: &str) -> (Option<i32>, String) {
    let output = Command::new(binary()).arg(verb).arg("--prefix").arg(gateway.prefix()).output();
    let output = output.expect("tidegate runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_list_without_items_takes_no_guard_away() {
    let good = format!("{GUARD}{}", open_route());
    let gateway = Gateway::start(YAML_PROVIDER, Some(&good));
    assert_eq!(status(&gateway, "/x"), 403);
    // A list whose items are commented out is null; the others are of another type.
    for list in
        ["global_rules:", "global_rules: {}", "global_rules: {id: 1}", "global_rules: off", "services:"]
    {
        gateway.write_routes(&format!("{list}\n{}", open_route()));
        let name = list.split(':').next().expect("a name");
        let told = format!("1:1: invalid data of [{name}], it should be a list; write {name}: [] for none");
        for verb in ["reload", "upgrade", "test"] {
            let (code, said) = code_of(&gateway, verb);
            assert_eq!(code, Some(1), "{list} {verb}: {said}");
            assert!(said.contains(&told), "{list} {verb}: {said}");
            assert_eq!(status(&gateway, "/x"), 403, "{list} {verb}");
        }
        assert!(gateway.error_log().contains(&told), "{list}: {}", gateway.error_log());
    }
    gateway.write_routes("routes:\n# - {id: 1, uri: /x}\n");
    let (code, said) = code_of(&gateway, "reload");
    assert_eq!((code, status(&gateway, "/x")), (Some(1), 403), "{said}");
    gateway.write_routes(&format!("global_rules: []\n{}", open_route()));
    let (code, said) = code_of(&gateway, "reload");
    assert_eq!((code, status(&gateway, "/x")), (Some(0), 200), "{said}");
}

#[test]
fn no_start_is_without_the_guards_of_such_a_list() {
    let text = format!("global_rules:\n{}", open_route());
    let mut gateway = Gateway::start_unready(YAML_PROVIDER, Some(&text));
    assert!(!gateway.process.wait_for_exit().success());
    gateway.process.wait_for_output("invalid data of [global_rules], it should be a list");
}

#[test]
fn a_reload_names_keys_that_no_list_has() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(&open_route()));
    gateway.write_routes(&format!("policies: [{{id: 1, plugins: {{}}}}]\n{}", open_route()));
    for verb in ["reload", "upgrade", "test"] {
        let (code, said) = code_of(&gateway, verb);
        assert_eq!((code, status(&gateway, "/x")), (Some(2), 200), "{verb}: {said}");
        assert!(said.contains("1:1: unknown key [policies] is ignored; expected routes"), "{verb}: {said}");
    }
    // One word of a list's name is near enough to it to hold its guards.
    gateway.write_routes(&format!("globals: [{{id: 1, plugins: {{}}}}]\n{}", open_route()));
    let (code, said) = code_of(&gateway, "reload");
    assert_eq!((code, status(&gateway, "/x")), (Some(2), 503), "{said}");
    assert!(said.contains("unknown key [globals]; did you mean global_rules?"), "{said}");
    assert_eq!(rejected(&gateway).len(), 1);
    gateway.write_routes(&format!("x-globals: [{{id: 1}}]\n{}", open_route()));
    let (code, said) = code_of(&gateway, "reload");
    assert_eq!((code, status(&gateway, "/x")), (Some(0), 200), "{said}");
}
