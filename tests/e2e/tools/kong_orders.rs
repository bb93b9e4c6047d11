//! The order of Kong's routes, where its versions and settings differ.

use tidegate_testkit::{Gateway, Upstream};

use super::kong_guards::import;

fn file(address: &str, guard: &str, open: &str) -> String {
    format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{address}\n  routes:\n\
         \x20 - {{name: open, {open}}}\n  - {{name: guard, {guard}, plugins: [{{name: key-auth}}]}}\n"
    )
}

/// The default router puts plain hosts and expressions before the number of conditions, `strict` and the traditional one do not.
#[test]
fn a_guard_of_doubtful_order_closes() {
    let upstream = Upstream::start();
    for (guard, open, expected) in [
        ("paths: ['~/a/.*']", "paths: [/a], methods: [GET]", 501),
        ("hosts: [h.test]", "paths: [/a], methods: [GET]", 501),
        ("hosts: [h.test]", "hosts: ['*.test'], paths: [/], methods: [GET]", 501),
        ("hosts: [h.test]", "hosts: ['*.other'], paths: [/], methods: [GET]", 401),
        ("paths: ['~/a/.*']", "headers: {x-a: ['1']}", 501),
        ("paths: ['~/a'], regex_priority: -1", "paths: ['~/a/.*']", 501),
        // All agree.
        ("paths: ['~/a/.*']", "paths: [/a], methods: [GET], headers: {x-a: ['1']}, hosts: ['*.test']", 200),
        ("paths: ['~/a/.*']", "paths: [/a]", 401),
        ("paths: [/a], methods: [GET]", "paths: [/a/b]", 401),
        ("hosts: [h.test], paths: [/a]", "paths: [/a/b]", 401),
        ("hosts: [h.test], paths: [/a]", "hosts: [h.test], paths: [/]", 401),
        ("paths: ['~/a/.*'], methods: [GET]", "paths: ['~/a/.*']", 401),
        ("paths: ['~/c/.*']", "paths: [/a], methods: [GET]", 200),
    ] {
        let gateway = Gateway::start_from("kong", &file(&upstream.address.to_string(), guard, open));
        let request = "GET /a/b HTTP/1.1\r\nHost: h.test\r\nX-A: 1\r\n\r\n";
        let status = gateway.client().request(request).expect("an answer").status();
        assert_eq!(status, expected, "{guard} | {open}: {}", gateway.process.output());
    }
}

#[test]
fn a_doubtful_order_is_reported() {
    let text = file("127.0.0.1:9", "paths: ['~/a/.*']", "paths: [/a], methods: [GET]");
    let (fine, _, report) = import(&["--strict"], &text, &[]);
    assert!(!fine && report.contains("kong.yaml:6: closed: route open: route guard of line 7"), "{report}");
    assert!(report.contains("kong.yaml:7: closed: route guard: route open of line 6"), "{report}");
    // Another upstream, or a plugin that turns nobody away: who is served is the same.
    for other in ["plugins: [{name: cors}]", "plugins: [{name: correlation-id}]"] {
        let (_, objects, report) = import(&[], &text.replace("plugins: [{name: key-auth}]", other), &[]);
        assert!(!objects.contains("closed by import"), "{other}: {objects}");
        assert!(report.contains("approximated: route guard: route open of line 6"), "{other}: {report}");
        assert!(report.contains("0 of 2 routes behave as in Kong"), "{other}: {report}");
    }
    // Before version 3 there was one order.
    let old = text.replace("'3.0'", "'2.1'").replace("'~/a/.*'", "/a/.*");
    let (fine, _, report) = import(&["--strict"], &old, &[]);
    assert!(fine, "{report}");
}
