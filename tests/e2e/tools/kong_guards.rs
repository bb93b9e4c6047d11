//! Guards in Kong's files: what has no counterpart here closes its routes, wherever it stands.

use std::{fs, process::Command};

use tidegate_testkit::{
    Gateway, Upstream,
    gateway::{YAML_PROVIDER, binary},
};

/// Plugins of Kong and of others that may turn somebody away, each with the least configuration.
const GUARDS: [(&str, &str); 49] = [
    ("key-auth", "{}"),
    ("basic-auth", "{}"),
    ("jwt", "{}"),
    ("jwt", "{maximum_expiration: 60}"),
    ("hmac-auth", "{}"),
    ("key-auth", "{surprise: [1]}"),
    ("key-auth", "{key_in_query: 'false'}"),
    ("key-auth", "{run_on_preflight: 'false'}"),
    ("key-auth", "{key_in_header: false, key_in_query: false}"),
    ("jwt", "{header_names: [], uri_param_names: [], cookie_names: []}"),
    ("acl", "{allow: [admins]}"),
    ("ip-restriction", "{allow: [10.0.0.1]}"),
    ("ip-restriction", "{deny: [127.0.0.1]}"),
    ("ip-restriction", "{whitelist: [10.0.0.1]}"),
    ("ip-restriction", "{blacklist: [127.0.0.1]}"),
    ("ip-restriction", "{allow: [127.0.0.0/8], deny: [127.0.0.1]}"),
    ("ip-restriction", "{allow: [nonsense]}"),
    ("ip-restriction", "{}"),
    ("request-termination", "{status_code: 403}"),
    ("request-size-limiting", "{surprise: 1}"),
    ("request-size-limiting", "{require_content_length: true}"),
    ("rate-limiting", "{}"),
    ("rate-limiting", "{minute: 5, limit_by: moon}"),
    ("pre-function", "{access: [\"kong.response.exit(403)\"]}"),
    ("post-function", "{access: [\"return kong.response.exit(403)\"]}"),
    ("ldap-auth", "{}"),
    ("ldap-auth-advanced", "{}"),
    ("oauth2", "{}"),
    ("oauth2-introspection", "{}"),
    ("openid-connect", "{issuer: 'http://127.0.0.1:1'}"),
    ("mtls-auth", "{}"),
    ("header-cert-auth", "{}"),
    ("session", "{}"),
    ("opa", "{}"),
    ("jwt-signer", "{}"),
    ("key-auth-enc", "{}"),
    ("vault-auth", "{}"),
    ("request-validator", "{}"),
    ("injection-protection", "{}"),
    ("rate-limiting-advanced", "{}"),
    ("rate-limiting-advanced", "{limit: [5], window_size: [60]}"),
    ("rate-limiting-advanced", "{limit: [5, 50], window_size: [1, 60], window_type: fixed}"),
    ("rate-limiting-advanced", "{limit: [5], window_size: [61], window_type: fixed}"),
    (
        "rate-limiting-advanced",
        "{limit: [5], window_size: [60], window_type: fixed, compound_identifier: [ip]}",
    ),
    ("rate-limiting", "{minute: 5, limit_by: consumer-group}"),
    ("forward-proxy", "{}"),
    ("my-custom-auth", "{}"),
    ("websocket-validator", "{}"),
    ("ace", "{}"),
];

fn plugin(number: usize, owner: &str) -> String {
    let (name, config) = GUARDS[number];
    let owner = if owner.is_empty() { String::new() } else { format!(", {owner}") };
    format!("{{name: {name}, config: {config}{owner}}}")
}

/// All guards on routes, on services, and from outside, each beside an open route for everything.
#[test]
fn no_guard_opens() {
    let upstream = Upstream::start();
    let mut text = "_format_version: '3.0'\nservices:\n".to_owned();
    for number in 0..GUARDS.len() {
        let on = plugin(number, "");
        text += &format!(
            "- {{name: a{number}, url: 'http://@UP@', routes: [{{name: a{number}, paths: [/a{number}/], plugins: [{on}]}}]}}\n"
        );
        text += &format!(
            "- {{name: b{number}, url: 'http://@UP@', plugins: [{on}], routes: [{{name: b{number}, paths: [/b{number}/]}}]}}\n"
        );
        text += &format!(
            "- {{name: c{number}, url: 'http://@UP@', routes: [{{name: c{number}, paths: [/c{number}/]}}]}}\n"
        );
        text += &format!(
            "- {{name: d{number}, url: 'http://@UP@', routes: [{{name: d{number}, paths: [/d{number}/]}}]}}\n"
        );
    }
    text += "- {name: open, url: 'http://@UP@', routes: [{name: open, paths: [/]}]}\nplugins:\n";
    for number in 0..GUARDS.len() {
        text += &format!("- {}\n", plugin(number, &format!("route: c{number}")));
        text += &format!("- {}\n", plugin(number, &format!("service: {{name: d{number}}}")));
    }
    text += "consumers: [{username: jack}]\n";
    let gateway = Gateway::start_from("kong", &text.replace("@UP@", &upstream.address.to_string()));
    let mut client = gateway.client();
    assert_eq!(client.get("h", "/open").expect("an answer").status(), 200);
    upstream.take();
    let mut open = Vec::new();
    for (number, (name, config)) in GUARDS.iter().enumerate() {
        for place in ["a", "b", "c", "d"] {
            let answer = gateway.client().get("h", &format!("/{place}{number}/x")).expect("an answer");
            if answer.status() < 400 {
                open.push(format!("{place} {name} {config}: {}", answer.status()));
            }
        }
    }
    assert!(open.is_empty(), "{}", open.join("\n"));
    assert!(upstream.take().is_empty(), "nothing reached the upstream");
}

/// For one consumer on one route, for all routes, and what a chain of filters does.
#[test]
fn guards_of_other_places_close_too() {
    let upstream = Upstream::start();
    let service = |name: &str, more: &str| {
        format!(
            "- {{name: {name}, url: 'http://{}', {more}routes: [{{name: {name}, paths: [/{name}]}}]}}\n",
            upstream.address
        )
    };
    let text = format!(
        "_format_version: '3.0'\nservices:\n{}{}{}plugins:\n\
         - {{name: ip-restriction, route: one, consumer: jack, config: {{deny: [127.0.0.1]}}}}\n\
         consumers:\n- {{username: jack, keyauth_credentials: [{{key: k}}], plugins: [{{name: my-guard}}]}}\n",
        service("one", "plugins: [{name: key-auth}], "),
        service("two", "plugins: [{name: key-auth}], "),
        service("three", "filter_chains: [{filters: [{name: guard}]}], "),
    );
    let gateway = Gateway::start_from("kong", &text);
    for path in ["/one", "/two", "/three"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\napikey: k\r\n\r\n");
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), 501, "{path}");
    }
    // Global ones close all.
    let text =
        format!("_format_version: '3.0'\nservices:\n{}plugins: [{{name: my-guard}}]\n", service("one", ""));
    let gateway = Gateway::start_from("kong", &text);
    assert_eq!(gateway.client().get("h", "/one").expect("an answer").status(), 501);
}

/// Guards that depend on who asks, over which protocol, and how a path is written.
#[test]
fn doors_beside_the_guards() {
    let upstream = Upstream::start();
    let address = upstream.address;
    let text = format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://{address}/base\n  routes:\n\
         \x20 - {{name: both, paths: [/both], plugins: [{{name: key-auth, config: {{anonymous: anon}}}}, \
         {{name: basic-auth, config: {{anonymous: anon}}}}, {{name: acl, config: {{deny: [g1]}}}}]}}\n\
         \x20 - {{name: named, paths: [/named], snis: [a.com], plugins: [{{name: key-auth}}]}}\n\
         \x20 - {{name: slash, paths: ['~/u/[^/]+/secret$'], plugins: [{{name: key-auth}}]}}\n\
         \x20 - {{name: near, paths: [/near], plugins: [{{name: ip-restriction, config: {{deny: [127.0.0.1/32]}}}}]}}\n\
         \x20 - {{name: open, paths: [/]}}\n\
         consumers:\n- {{username: anon}}\n\
         - {{username: al, basicauth_credentials: [{{username: al, password: p, skip_hash: true}}], acls: [{{group: g1}}]}}\n"
    );
    let gateway = Gateway::start_from("kong", &text);
    for (target, field, expected) in [
        ("/both", "Authorization: Basic YWw6cA==", 501),
        ("/named", "A: b", 401),
        ("/u/x%2fy/secret", "A: b", 401),
        ("/u/%2f/secret", "A: b", 401),
        ("/u/x/secret", "A: b", 401),
        ("/near", "X-Real-IP: 9.9.9.9", 403),
        ("/else", "A: b", 200),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        assert_eq!(answer.status(), expected, "{target} {field}: {}", gateway.error_log());
    }
    // A path with a line feed stays below that of the service.
    upstream.take();
    assert_eq!(gateway.client().get("h", "/x%0ay").expect("an answer").status(), 200);
    let seen = upstream.take();
    assert!(seen.iter().all(|request| request.text().contains("GET /base/x%0Ay")), "{seen:?}");
}

/// `kong config db_export` writes hashes in the place of passwords.
#[test]
fn a_hash_is_not_a_password() {
    let upstream = Upstream::start();
    let text = format!(
        "_format_version: '3.0'\n_transform: false\nservices:\n- {{name: s, url: 'http://{}', routes: [{{name: a, paths: [/a], \
         plugins: [{{name: basic-auth}}]}}]}}\nconsumers:\n- {{username: u, basicauth_credentials: [{{username: a, password: b3f070}}]}}\n",
        upstream.address
    );
    let gateway = Gateway::start_from("kong", &text);
    // a:b3f070
    let request = "GET /a HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpiM2YwNzA=\r\n\r\n";
    let answer = gateway.client().request(request).expect("an answer");
    assert!(matches!(answer.status(), 401 | 501), "{}", answer.status());
}

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

pub(crate) fn import(arguments: &[&str], text: &str, variables: &[(&str, &str)]) -> (bool, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kong.yaml");
    fs::write(&file, text).expect("written");
    fs::write(folder.path().join("env"), "# of a test\nexport DECK_PORT=9\nDECK_KEY=\"from the file\"\n")
        .expect("written");
    let mut command = Command::new(binary());
    command.args(["import", "kong"]).arg(&file).args(arguments).current_dir(folder.path());
    let output = command.envs(variables.iter().copied()).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_missing_can_be_allowed() {
    let text = "_format_version: '3.0'\nservices: [{name: s, url: 'http://127.0.0.1:9', plugins: [{name: my-auth}], routes: [{name: r, paths: [/]}]}]\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("closed by import (r)")
            && report.contains("0 of 1 routes behave as in Kong; 1 is closed"),
        "{report}"
    );
    let (_, objects, report) = import(&["--allow-missing", "my-auth"], text, &[]);
    assert!(
        !objects.contains("closed by import") && report.contains("not supported: plugin my-auth"),
        "{report}"
    );
}

#[test]
fn variables_come_from_the_environment_or_a_file() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, port: '${{ env \"DECK_PORT\" }}'}]\n\
                consumers: [{username: u, keyauth_credentials: [{key: '${{ env \"DECK_KEY\" }}'}, {key: '{vault://env/my-key}'}]}]\n";
    let (fine, _, report) = import(&[], text, &[]);
    assert!(!fine && report.contains("kong.yaml:2:") && report.contains("DECK_PORT is not set"), "{report}");
    let (fine, objects, report) = import(&[], text, &[("DECK_PORT", "8"), ("DECK_KEY", "a: [b")]);
    assert!(fine && objects.contains("a: [b") && objects.contains("$ENV://MY_KEY"), "{objects}{report}");
    let (fine, objects, report) = import(&["--env-file", "env"], text, &[]);
    assert!(fine && objects.contains("from the file"), "{objects}{report}");
    let filtered = text.replace("\"DECK_PORT\"", "\"DECK_PORT\" | toInt");
    let (fine, objects, report) = import(&["--env-file", "env"], &filtered, &[]);
    assert!(fine, "{objects}{report}");
    let versions = text.replace("'3.0'", "'${{ env \"DECK_VERSION\" }}'");
    let (fine, _, report) = import(&["--env-file", "env"], &versions, &[("DECK_VERSION", "3.0")]);
    assert!(fine, "{report}");
    let quoted = text.replace("'${{ env \"DECK_KEY\" }}'", "\"${{ env \"DECK_KEY\" }}, whole\"");
    let (fine, objects, report) = import(&["--env-file", "env"], &quoted, &[]);
    assert!(fine && objects.contains("from the file, whole"), "{objects}{report}");
    let named = text.to_owned() + "vaults: [{name: env, prefix: mine, config: {prefix: some_}}]\n";
    let (fine, objects, report) = import(&["--env-file", "env"], &named.replace("//env/", "//mine/"), &[]);
    assert!(fine && objects.contains("$ENV://SOME_MY_KEY"), "{objects}{report}");
    let (fine, _, report) = import(&[], &text.replace("DECK_PORT", "PATH"), &[]);
    assert!(!fine && report.contains("DECK_NAME"), "{report}");
}

/// Kong refuses such a file; the guard in it must not be left out.
#[test]
fn plugins_that_are_no_list_are_refused() {
    let text = "_format_version: '3.0'\nservices:\n- name: s\n  url: http://127.0.0.1:1\n  routes:\n  - name: r\n    paths: [/a]\n    \
                plugins: {name: key-auth}\n";
    let (fine, _, said) = import(&[], text, &[]);
    assert!(!fine && said.contains("8:5: plugins is not a list"), "{said}");
}

#[test]
fn several_workspaces_are_refused() {
    let one = "_format_version: '3.0'\nservices: [{name: s, host: h, ws_id: a, _comment: mine}]\n";
    let (fine, _, report) = import(&["--strict"], one, &[]);
    assert!(fine, "{report}");
    let (fine, _, report) = import(&[], &format!("{one}plugins: [{{name: cors, ws_id: b}}]\n"), &[]);
    assert!(!fine && report.contains("several workspaces"), "{report}");
}

/// A chain of filters is not a plugin, whatever its name.
#[test]
fn a_filter_chain_named_like_a_plugin_closes() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, routes: [{name: r, paths: [/]}]}]\n\
                filter_chains: [{name: cors, filters: [{name: guard}]}, {name: key-auth, filters: [{name: x}]}]\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("closed by import (r)") && report.contains("plugin filter chain cors"),
        "{report}"
    );
}

/// Two consumers are never one here: the second one is nobody.
#[test]
fn names_that_become_one_do_not_merge() {
    let text = "_format_version: '3.0'\nconsumers:\n- {username: a b, keyauth_credentials: [{key: first}]}\n\
                - {username: a_b, keyauth_credentials: [{key: second}]}\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(objects.contains("first") && !objects.contains("second"), "{objects}");
    assert!(report.contains("kong.yaml:4: closed: consumer a_b: another consumer is a_b here"), "{report}");
}

/// What counts once only is refused where it is there twice, with both places.
#[test]
fn what_is_there_twice_is_refused() {
    let service = |name: &str, route: &str| {
        format!("- {{name: {name}, host: h, routes: [{{name: {route}, paths: [/{route}]}}]}}\n")
    };
    let services = |more: &str| format!("_format_version: '3.0'\nservices:\n{}{more}", service("s", "r"));
    let consumers = |one: &str, other: &str| services(&format!("consumers:\n- {{{one}}}\n- {{{other}}}\n"));
    let plugins = |one: &str, other: &str| services(&format!("plugins:\n- {{{one}}}\n- {{{other}}}\n"));
    for (text, wanted) in [
        // Keys of a mapping: the last one would count.
        (
            "_format_version: '3.0'\nservices:\n- name: s\n  plugins: [{name: key-auth}]\n  host: h\n  plugins: []\n"
                .to_owned(),
            "kong.yaml:6:3: key \"plugins\" is given twice, first at 4:3",
        ),
        (services("services: []\n"), "kong.yaml:4:1: key \"services\" is given twice, first at 2:1"),
        (
            services("plugins: [{name: key-auth, config: {key_in_query: false, key_in_query: true}}]\n"),
            "key \"key_in_query\" is given twice",
        ),
        // Names of entities.
        (services(&service("s", "other")), "kong.yaml:4:10: duplicate service \"s\", first at 3:10"),
        (services(&service("other", "r")), "duplicate route \"r\", first at 3:"),
        (services("routes:\n- {name: r, service: s}\n"), "kong.yaml:5:10: duplicate route \"r\", first at 3:"),
        (services("upstreams:\n- name: u\n- name: u\n"), "kong.yaml:6:9: duplicate upstream \"u\", first at 5:9"),
        (services("upstreams:\n- {name: u, targets: [{target: 'a:1'}, {target: 'a:1'}]}\n"), "target \"a:1\""),
        (consumers("username: a", "username: a"), "kong.yaml:6:14: duplicate consumer \"a\", first at 5:14"),
        (consumers("username: a, custom_id: i", "username: b, custom_id: i"), "duplicate consumer \"i\""),
        (services("consumer_groups:\n- name: g\n- name: g\n"), "duplicate consumer group \"g\""),
        (
            consumers("username: a, keyauth_credentials: [{key: x}]", "username: b, keyauth_credentials: [{key: x}]"),
            "duplicate key of key-auth, first at 5:",
        ),
        (
            consumers(
                "username: a, basicauth_credentials: [{username: x, password: p}]",
                "username: b, basicauth_credentials: [{username: x, password: q}]",
            ),
            "duplicate user of basic-auth \"x\"",
        ),
        // Of two plugins at one place the first one would count.
        (
            plugins("name: ip-restriction, config: {deny: [10.0.0.1]}", "name: ip-restriction, config: {deny: [10.0.0.2]}"),
            "kong.yaml:6:3: duplicate plugin ip-restriction of the file, first at 5:3",
        ),
        (
            plugins("name: acl, service: s, config: {deny: [a]}", "name: acl, service: {name: s}, config: {deny: [b]}"),
            "duplicate plugin acl of s",
        ),
    ] {
        let (fine, objects, report) = import(&[], &text, &[]);
        assert!(!fine && objects.is_empty() && report.contains(wanted), "{text}\n{wanted}\n{report}");
        assert!(!report.contains("\"x\"") || wanted.contains("\"x\""), "a key is a secret: {report}");
    }
    // One name is fine for entities of different kinds, and one plugin at different places.
    let fine = consumers("username: s", "username: r, plugins: [{name: key-auth}]")
        + "plugins: [{name: key-auth}, {name: key-auth, service: s}, {name: key-auth, route: r}]\n";
    let (fine, _, report) = import(&[], &fine, &[]);
    assert!(fine, "{report}");
}

/// The verdict counts routes, each once, and tells apart which answer as in Kong, which differ, and which are closed.
#[test]
fn the_verdict_counts_what_differs() {
    let text = "_format_version: '3.0'\nservices:\n\
                - name: s\n  host: h\n  routes:\n\
                \x20 - {name: same, paths: [/a, /b, /c]}\n\
                \x20 - {name: near, paths: [/d, /e], plugins: [{name: bot-detection}]}\n\
                \x20 - {name: shut, paths: [/f, /g], plugins: [{name: ldap-auth}]}\n\
                \x20 - {name: moved, paths: [/h], protocols: [https]}\n\
                \x20 - {name: keyed, paths: [/i], plugins: [{name: key-auth}]}\n";
    let verdict = |text: &str| {
        let (fine, _, report) = import(&[], text, &[]);
        assert!(fine, "{report}");
        let line = report.lines().find(|line| line.contains("routes behave as in Kong")).expect("a verdict");
        let (file, verdict) = line.split_once(": ").expect("the file's name");
        verdict.replace(" routes behave as in Kong", "").replace(file, "@")
    };
    assert_eq!(verdict(text), "2 of 5; 2 answer differently: @:7, @:9; 1 is closed: @:8");
    // What is approximated for a service holds for all of its routes, and consumers for those that ask who they are.
    let service = text.replace("  host: h\n", "  host: u\n  tls_verify_depth: 1\n");
    assert_eq!(verdict(&service), "0 of 5; 4 answer differently: @:7, @:8, @:10, @:11; 1 is closed: @:9");
    let consumers = format!("{text}consumers:\n- {{username: a b, keyauth_credentials: [{{key: k}}]}}\n");
    assert_eq!(verdict(&consumers), "1 of 5; 3 answer differently: @:7, @:9, @:10; 1 is closed: @:8");
    let everywhere = format!("{text}plugins: [{{name: grpc-web}}]\n");
    assert!(verdict(&everywhere).starts_with("0 of 5; 4 answer differently"), "{}", verdict(&everywhere));
}

/// Guards whose order or end is another one here.
#[test]
fn guards_that_end_or_come_later_close() {
    let text = "_format_version: '3.0'\nservices: [{name: s, host: h, routes: [{name: r, paths: [/], plugins: [\
                {name: request-termination, config: {status_code: 200}}, @GUARD@]}]}]\n";
    for guard in [
        "{name: ip-restriction, config: {deny: [127.0.0.1]}}",
        "{name: acl, config: {allow: [a]}}",
        "{name: bot-detection}",
        "{name: rate-limiting, config: {minute: 1}}",
        "{name: request-size-limiting, config: {allowed_payload_size: 1}}",
    ] {
        let (_, objects, report) = import(&[], &text.replace("@GUARD@", guard), &[]);
        assert!(
            objects.contains("closed by import (r)") && report.contains("request-termination answers before"),
            "{guard}: {report}"
        );
    }
    let text = "_format_version: '3.0'\nconsumers:\n- {username: a, keyauth_credentials: [{key: kept}, {key: ended, ttl: 60}]}\n\
                keyauth_credentials:\n- {key: loose, consumer: a, ttl: 1}\n";
    let (_, objects, report) = import(&[], text, &[]);
    assert!(
        objects.contains("kept") && !objects.contains("ended") && !objects.contains("loose"),
        "{objects}"
    );
    assert!(report.contains("kong.yaml:3: closed: consumer a: keyauth_credentials: `ttl`"), "{report}");
}

/// Who the client is decides for itself only where config.yaml says so.
#[test]
fn addresses_are_believed_as_written() {
    let upstream = Upstream::start();
    let text = format!(
        "_format_version: '3.0'\nservices: [{{name: s, url: 'http://{}', routes: [{{name: r, paths: [/], plugins: [\
         {{name: ip-restriction, config: {{allow: [9.9.9.9]}}}}]}}]}}]\n",
        upstream.address
    );
    let ask = |config: &str| {
        let gateway = Gateway::start_from_with(config, "kong", &text);
        let request = "GET / HTTP/1.1\r\nHost: h\r\nX-Real-IP: 9.9.9.9\r\n\r\n";
        gateway.client().request(request).expect("an answer").status()
    };
    let with = |keys: &str| YAML_PROVIDER.replace("http: {", &format!("http: {{{keys}, "));
    assert_eq!(ask(YAML_PROVIDER), 403, "not the default of APISIX");
    assert_eq!(ask(&with("real_ip_header: X-Real-IP")), 403);
    assert_eq!(ask(&with("real_ip_from: [10.0.0.1]")), 403);
    assert_eq!(ask(&with("real_ip_from: [127.0.0.1]")), 200, "the operator wrote it");
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
