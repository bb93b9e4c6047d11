//! Paths as Kong compares them, and routes that are not understood.

use tidegate_testkit::{Gateway, Upstream};

/// Version 3 has Rust's expressions, version 2 PCRE.
#[test]
fn expressions_are_those_of_the_version() {
    let upstream = Upstream::start();
    let file = |version: &str, path: &str| {
        format!(
            "_format_version: '{version}'\nservices:\n- name: s\n  url: http://{}\n  routes:\n\
             \x20 - {{name: guarded, paths: ['{path}'], plugins: [{{name: key-auth}}]}}\n  - {{name: rest, paths: [/]}}\n",
            upstream.address
        )
    };
    for (version, path, requests) in [
        ("2.1", "/\\<adm", vec![("/<adm", 401), ("/adm", 200)]),
        ("2.1", "/[a&&b]z", vec![("/az", 401), ("/&z", 401), ("/cz", 200)]),
        ("3.0", "~/[a-c&&b-d]z", vec![("/bz", 501), ("/az", 501)]),
        ("3.0", "~*/cc", vec![("/cc", 501)]),
        ("3.0", "~/h[0-9]+$", vec![("/h1", 401), ("/h", 200)]),
    ] {
        let gateway = Gateway::start_from("kong", &file(version, path));
        for (target, expected) in requests {
            let status = gateway.client().get("h", target).expect("an answer").status();
            assert_eq!(status, expected, "{version} {path}: {target}: {}", gateway.error_log());
        }
    }
}

/// Expressions see characters, and the path in which reserved characters stay escaped; others see bytes and the decoded path.
#[test]
fn paths_are_compared_as_kong_compares_them() {
    let upstream = Upstream::start();
    let file = |route: &str, rest: &str| {
        format!(
            "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n  - {{name: one, {route}}}\n\
             \x20 - {{name: rest, {rest}}}\n",
            upstream.address
        )
    };
    let key = "plugins: [{name: key-auth}]";
    let (guarded, open) = (
        |path: &str| file(&format!("paths: ['{path}'], {key}"), "paths: [/]"),
        |path: &str| file(&format!("paths: ['{path}']"), &format!("paths: [/], {key}")),
    );
    let expression = |text: &str| {
        file(
            &format!("expression: '{text}', priority: 1, strip_path: false, {key}"),
            "expression: 'http.path ^= \"/\"', priority: 0",
        )
    };
    for (text, requests) in [
        (
            guarded(r"~/api/\w+/admin$"),
            vec![("/api/%C3%A9/admin", 401), ("/api/x/admin", 401), ("/api/-/admin", 200)],
        ),
        (guarded("~(?i)/api/[a-z]+/admin$"), vec![("/api/%E2%84%AA/admin", 401), ("/api/A/admin", 401)]),
        (guarded("~/api/.{1,3}/admin$"), vec![("/api/%C3%A9%C3%A9/admin", 501)]),
        (guarded(r"~/n/\d$"), vec![("/n/%D9%A1", 401), ("/n/1", 401), ("/n/x", 200)]),
        (guarded("~/admin|/secret"), vec![("/admin", 501), ("/x/secret", 501), ("/x", 200)]),
        (guarded("/admin%2Fx"), vec![("/admin%2Fx", 401), ("/admin%2fx", 401), ("/admin/x", 200)]),
        (guarded("/users/@me"), vec![("/users/@me", 401), ("/users/%40me", 200)]),
        (guarded("/users/%40me"), vec![("/users/%40me", 401), ("/users/@me", 200)]),
        (guarded(r"~/users/%40\w+"), vec![("/users/%40x", 501)]),
        (guarded("~/admin%25x"), vec![("/admin%25x", 501)]),
        (open("~/pub$"), vec![("/pub", 200), ("/pub%0A", 401)]),
        (open(r"~/pub/\W+$"), vec![("/pub/%C3%A9", 401), ("/pub/-", 200)]),
        (open("~/pub/[^a]b$"), vec![("/pub/%C3%A9b", 501)]),
        (open("/pub%2Fx"), vec![("/pub/x", 401), ("/pub%2Fx", 200)]),
        (open("/pub/@x"), vec![("/pub/%40x", 401), ("/pub/@x", 200)]),
        (expression(r#"http.path ~ "^/x/\\w+$""#), vec![("/x/%C3%A9", 401), ("/x/-", 200)]),
        (expression(r#"http.path == "/a%2Fb""#), vec![("/a%2Fb", 401), ("/a/b", 200)]),
        (expression(r#"http.path ^= "/a%2Fb""#), vec![("/a%2Fbc", 401), ("/a/b", 200)]),
        (
            expression(r#"http.path ^= "/a" && http.path =^ ".end""#),
            vec![("/a.end", 401), ("/a.end%0A", 200)],
        ),
    ] {
        let gateway = Gateway::start_from("kong", &text);
        for (target, expected) in requests {
            let status = gateway.client().get("h", target).expect("an answer").status();
            assert_eq!(status, expected, "{text}: {target}: {}", gateway.process.output());
        }
    }
    // What is left of the path stays escaped.
    let gateway = Gateway::start_from("kong", &guarded("/users/%40me").replace(key, ""));
    upstream.take();
    assert_eq!(gateway.client().get("h", "/users/%40me/x").expect("an answer").status(), 200);
    let seen = upstream.take();
    assert!(seen.iter().all(|request| request.text().contains("GET /x HTTP")), "{seen:?}");
}

/// Routes that are not understood take what they may take, before others.
#[test]
fn routes_that_are_not_understood_are_closed() {
    let upstream = Upstream::start();
    let text = format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{}\n  routes:\n\
         \x20 - {{name: ahead, paths: ['~/a/(?!pub)'], plugins: [{{name: key-auth}}]}}\n\
         \x20 - {{name: to, paths: [/to], destinations: [{{port: 8000}}]}}\n\
         \x20 - {{name: rest, paths: [/]}}\n",
        upstream.address
    );
    let gateway = Gateway::start_from("kong", &text);
    let status = |path: &str| gateway.client().get("h", path).expect("an answer").status();
    // Rust's expressions have no look-ahead: Kong refuses it, and nobody knows what it is to take.
    assert_eq!((status("/a/pub"), status("/a/x")), (501, 501));
    assert_eq!(status("/to"), 501);
    let expression = text.replace(
        "name: to, paths: [/to], destinations: [{port: 8000}]",
        "name: e, expression: 'net.dst.port == 8000'",
    );
    let gateway = Gateway::start_from("kong", &expression);
    assert_eq!(gateway.client().get("h", "/e").expect("an answer").status(), 501);
}
