//! The order of Kong's routes, where its versions and settings differ.

use tidegate_testkit::{Gateway, Upstream};

use super::kong_files::import;

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

/// Of routes with one priority Kong asks the one with the higher id first.
#[test]
fn routes_of_one_priority_go_by_their_ids() {
    let upstream = Upstream::start();
    let (high, low) = ("f0000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-00000000000f");
    let file = |guard: &str, open: &str| {
        format!(
            "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n\
             \x20 - {{name: open, {open}}}\n  - {{name: guard, {guard}, plugins: [{{name: key-auth}}]}}\n",
            upstream.address
        )
    };
    let with = |id: &str, fields: &str| format!("id: {id}, {fields}");
    let regexes = ("paths: ['~/a/x$'], strip_path: false", "paths: ['~/a/[^/]*'], strip_path: false");
    let prefixes = ("paths: [/a]", "paths: [/a]");
    for (guard, open, target, expected) in [
        (with(high, regexes.0), with(low, regexes.1), "/a/x", 401),
        (with(low, regexes.0), with(high, regexes.1), "/a/x", 200),
        (with(high, prefixes.0), with(low, prefixes.1), "/a", 401),
        (with(low, prefixes.0), with(high, prefixes.1), "/a", 200),
        // Without ids nobody knows.
        (regexes.0.to_owned(), with(low, regexes.1), "/a/x", 501),
        (regexes.0.to_owned(), regexes.1.to_owned(), "/a/x", 501),
        (prefixes.0.to_owned(), prefixes.1.to_owned(), "/a", 501),
        // Kong makes two routes of the guard, with ids of their own.
        (with(high, "paths: ['~/a/x$', /b]"), with(low, regexes.1), "/a/x", 501),
        // What cannot meet needs no order.
        ("paths: ['~/a/[0-9]+$']".to_owned(), "paths: ['~/a/[a-z]+$']".to_owned(), "/a/1", 401),
        ("paths: ['~/a/[0-9]+$']".to_owned(), "paths: ['~/a/[0-9]+/b$']".to_owned(), "/a/1/b", 200),
        ("paths: [/a], methods: [GET]".to_owned(), "paths: [/a], methods: [POST]".to_owned(), "/a", 401),
        ("paths: [/a], hosts: [h]".to_owned(), "paths: [/a], hosts: [i]".to_owned(), "/a", 401),
        ("paths: ['~/a/x$'], regex_priority: 1".to_owned(), "paths: ['~/a/.*']".to_owned(), "/a/x", 401),
        // Kong writes expressions for headers in small letters.
        (r"paths: [/a], headers: {x-a: ['~*^\D$']}".to_owned(), "paths: [/a]".to_owned(), "/a", 401),
        // Some of Kong's versions do not count sources.
        ("paths: [/a]".to_owned(), "paths: [/], sources: [{ip: 127.0.0.0/8}]".to_owned(), "/a", 501),
    ] {
        let gateway = Gateway::start_from("kong", &file(&guard, &open));
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n\r\n");
        let status = gateway.client().request(&request).expect("an answer").status();
        assert_eq!(status, expected, "{guard} | {open}: {target}: {}", gateway.error_log());
    }
}
