//! Files that Kong refuses, whose conditions, guards or groups would be lost here.

use tidegate_testkit::{Gateway, Upstream};

use super::kong_files::import;

/// A service `s` with a route, and what stands at the top.
fn file(service: &str, route: &str, top: &str) -> String {
    format!(
        "_format_version: '3.0'\nservices:\n- name: s\n  url: http://127.0.0.1:9\n{service}  routes:\n  - {{name: r, {route}}}\n{top}"
    )
}

fn refused(text: &str, wanted: &str) {
    let (fine, objects, report) = import(&[], text, &[]);
    assert!(!fine && objects.is_empty() && report.contains(wanted), "{text}\n{wanted}\n{report}");
}

#[test]
fn conditions_of_another_form_are_refused() {
    for (route, wanted) in [
        ("hosts: {a.test: 1}", "kong.yaml:6:22: hosts is a list of texts; Kong refuses"),
        ("hosts: [~]", "kong.yaml:6:23: hosts is a list of texts"),
        ("hosts: ['']", "hosts is a list of texts"),
        ("methods: {POST: true}", "methods is a list of texts"),
        ("methods: !!set {POST}", "methods is a list of texts"),
        ("paths: [[/a]]", "paths is a list of texts"),
        ("paths: [a]", "begins with neither"),
        ("snis: {a: b}", "snis is a list of texts"),
        ("headers: ['x-a:1']", "kong.yaml:6:24: headers is a mapping"),
        ("headers: {x-a: [~]}", "a header is a list of texts"),
        ("headers: {x-a: {b: c}}", "a header is a list of texts"),
        ("paths: [/a], sources: [10.0.0.1]", "kong.yaml:6:38: sources has mappings"),
        ("paths: [/a], sources: {ip: 10.0.0.1}", "sources is a list"),
        ("paths: [/a], sources: [{}]", "sources has mappings"),
        ("paths: [/a], sources: [{ip: ~}]", "sources has mappings"),
        ("paths: [/a], sources: [{adress: 10.0.0.1}]", "sources has mappings"),
        ("tags: [a]", "kong.yaml:6:5: a route needs a condition"),
        ("paths: [], hosts: ~", "a route needs a condition"),
        ("paths: [/a], protocols: [https, tcp]", "protocols of HTTP stand beside those of TCP"),
        ("paths: [/a], protocols: []", "protocols are http"),
        ("paths: [/a], protocols: [~]", "protocols is a list of texts"),
        ("paths: [/a], protocols: [htps]", "protocols are http"),
        ("paths: ['~/a'], regex_priority: high", "regex_priority is a whole number"),
    ] {
        refused(&file("", route, ""), wanted);
    }
    for fine in
        ["hosts: a.test", "paths: /a", "paths: [/a], hosts: ~, headers: ~, protocols: ~", "headers: {x-a: b}"]
    {
        let (served, _, report) = import(&[], &file("", fine, ""), &[]);
        assert!(served, "{fine}: {report}");
    }
}

/// What Kong reads as a flag, by the words of YAML 1.1, and nothing else.
#[test]
fn flags_are_clearly_flags() {
    let upstream = Upstream::start();
    let with = |service: &str| {
        file(service, "paths: [/a], strip_path: Yes", "")
            .replace("127.0.0.1:9", &upstream.address.to_string())
    };
    for word in ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "!!bool no"] {
        let defaults = format!("_info: {{defaults: {{service: {{enabled: {word}}}}}}}\n{}", with(""));
        for text in [with(&format!("  enabled: {word}\n")), defaults] {
            let gateway = Gateway::start_from("kong", &text);
            assert_eq!(gateway.client().get("h", "/a").expect("an answer").status(), 404, "{word}");
        }
    }
    for word in ["true", "Yes", "ON"] {
        let gateway = Gateway::start_from("kong", &with(&format!("  enabled: {word}\n")));
        assert_eq!(gateway.client().get("h", "/a").expect("an answer").status(), 200, "{word}");
    }
    for word in ["~", "0", "1", "'no'", "''", "n", "[no]", "'false'"] {
        let wanted = "kong.yaml:5:12: `enabled` of a service is neither true nor false";
        refused(&with(&format!("  enabled: {word}\n")), wanted);
        refused(
            &file("", &format!("paths: [/a], strip_path: {word}"), ""),
            "`strip_path` of a route is neither",
        );
        let plugin = format!("paths: [/a], plugins: [{{name: key-auth, enabled: {word}}}]");
        refused(&file("", &plugin, ""), "`enabled` of a plugin is neither");
    }
    refused(
        &file("", "paths: [/a]", "_transform: n\n"),
        "kong.yaml:7:13: `_transform` of the file is neither",
    );
}

/// A guard of something that is not there, or under another name.
#[test]
fn what_is_not_there_is_refused() {
    let guard = "config: {deny: [127.0.0.1]}";
    for (service, route, top, wanted) in [
        (
            "",
            "",
            "plugins:\n- {name: ip-restriction, service: {id: nope}, @}\n",
            "kong.yaml:8:3: the service of plugin ip-restriction is not in the file",
        ),
        ("", "", "plugins: [{name: ip-restriction, route: R, @}]\n", "the route of plugin ip-restriction"),
        ("", "", "plugins: [{name: ip-restriction, route: {}, @}]\n", "the route of plugin ip-restriction"),
        (
            "",
            "",
            "plugins: [{name: ip-restriction, consumer: {custom_id: x}, @}]\n",
            "the consumer of plugin ip-restriction",
        ),
        ("", "", "plugins: [{name: ip-restriction, consumer_group: x, @}]\n", "the consumer_group of plugin"),
        ("", "", "consumer_group_plugins: [{name: ip-restriction, @}]\n", "the consumer_group of plugin"),
        ("", "", "acls: [{group: g, consumer: nobody}]\n", "the consumer of one of acls is not in the file"),
        (
            "",
            "",
            "consumers: [{username: u}]\nconsumer_group_consumers: [{consumer: u, consumer_group: g}]\n",
            "the group of a consumer",
        ),
        ("", "", "consumer_groups: [{name: g, consumers: [u]}]\n", "a consumer of a group"),
        (
            "",
            "",
            "plugin: [{name: ip-restriction, @}]\n",
            "kong.yaml:7:1: `plugin` of the file: Kong has no such",
        ),
        (
            "  plugin: [{name: ip-restriction, @}]\n",
            "",
            "",
            "kong.yaml:5:3: `plugin` of a service: Kong has no such field",
        ),
        ("", ", plugin: [{name: ip-restriction, @}]", "", "`plugin` of a route"),
        ("", ", host: [a.test]", "", "`host` of a route"),
        ("", ", enabled: false", "", "`enabled` of a route"),
        ("", ", plugins: [{name: ip-restriction, conf: {}}]", "", "`conf` of a plugin"),
        ("", "", "consumers: [{username: u, consumer_groups: [g]}]\n", "`consumer_groups` of a consumer"),
        ("", "", "consumers: [{username: u, enabled: false}]\n", "`enabled` of a consumer"),
        ("", "", "consumers: [{username: u, acls: [zz]}]\n", "a group of an ACL is a mapping"),
        ("", "", "consumers: [{username: u, acls: [{name: zz}]}]\n", "`name` of a group of an ACL"),
        ("", "", "consumers: [{username: u, acls: [{tags: [a]}]}]\n", "a group of an ACL needs `group`"),
        ("", "", "consumers: [{username: u, acls: {group: zz}}]\n", "acls is not a list"),
        ("", "", "consumers: [{username: u, groups: {name: G}}]\n", "groups is not a list"),
        ("", "", "consumers: [{username: u, groups: G}]\n", "groups is not a list"),
        (
            "",
            "",
            "consumers: [{username: u, keyauth_credentials: {key: k}}]\n",
            "keyauth_credentials is not a list",
        ),
        ("", ", plugins: [~]", "", "a plugin is a mapping"),
        ("", "", "services_: []\n", "`services_` of the file"),
    ] {
        let text = file(service, &format!("paths: [/a]{route}"), top).replace('@', guard);
        refused(&text, wanted);
    }
}

/// Files of a part of a Kong name groups that are not in them.
#[test]
fn a_consumer_whose_group_is_not_there_is_nobody() {
    let upstream = Upstream::start();
    let top = "consumer_groups: [{name: G, plugins: [{name: ip-restriction, config: {deny: [127.0.0.1]}}]}]\n\
               consumers:\n- {username: lost, keyauth_credentials: [{key: lost}], groups: [{name: g}]}\n\
               - {username: in, keyauth_credentials: [{key: in}], groups: [G]}\n\
               - {username: out, keyauth_credentials: [{key: out}]}\n";
    let text = file("", "paths: [/a], plugins: [{name: key-auth}]", top);
    let gateway = Gateway::start_from("kong", &text.replace("127.0.0.1:9", &upstream.address.to_string()));
    for (key, expected) in [("lost", 401), ("in", 403), ("out", 200)] {
        let request = format!("GET /a HTTP/1.1\r\nHost: h\r\napikey: {key}\r\n\r\n");
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), expected, "{key}");
    }
    let (_, _, report) = import(&[], &text, &[]);
    assert!(report.contains("kong.yaml:9: closed: consumer lost: one of its groups"), "{report}");
}

/// What belongs to a service that is not enabled is left out with it.
#[test]
fn plugins_and_routes_of_a_service_that_is_off() {
    let top = "plugins: [{name: key-auth, service: s}, {name: acl, route: r, config: {allow: [a]}}, {name: cors, route: t}]\n\
               routes: [{name: t, paths: [/t], service: s}]\n";
    let (fine, objects, report) = import(&["--strict"], &file("  enabled: no\n", "paths: [/a]", top), &[]);
    assert!(fine && !objects.contains("key-auth") && !objects.contains("/t"), "{objects}{report}");
    assert!(report.contains("plugin key-auth: its service is not enabled"), "{report}");
}
