//! Routes of which no path can be read: they are named, and nothing is said to be shut that is open.

use serde_json::Value;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Client, Gateway, eventually};

fn rejected(gateway: &Gateway) -> Vec<(String, String)> {
    let mut client = Client::connect(gateway.control).expect("connects");
    let answer = client.get("localhost", "/v1/rejected").expect("an answer").body_text();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    let text = |item: &Value, name: &str| item[name].as_str().unwrap_or_default().to_owned();
    let list = answer["list"].as_array().cloned().unwrap_or_default();
    list.iter()
        .map(|item| (format!("{}/{}", text(item, "kind"), text(item, "id")), text(item, "effect")))
        .collect()
}

#[test]
fn a_route_without_a_path_is_said_to_be_open() {
    let not_known = "unknown: other routes may serve its requests";
    for (item, name) in [
        ("{id: g, Uri: '/g', plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: 7, plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: '', plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uris: ['', 5], plugins: {key-auth: {}}}", "routes/g"),
        ("{id: g, uri: 'g/*', plugins: {key-auth: 1}}", "routes/g"),
        ("", "routes/arr_1"),
        ("text", "routes/arr_1"),
        ("[{uri: /g}]", "routes/arr_1"),
    ] {
        let file = format!(
            "routes:\n- {item}\n- {{id: open, uri: '/*', plugins: {{mocking: {{response_example: x}}}}}}\n"
        );
        let gateway = Gateway::start(YAML_PROVIDER, Some(&file));
        assert_eq!(rejected(&gateway), [(name.to_owned(), not_known.to_owned())], "{item}");
        let log = gateway.error_log();
        assert!(
            log.contains(&format!("{name} cannot be used")) && log.contains("NOT refused"),
            "{item}: {log}"
        );
    }
}

/// Also an empty text is not a path: the old one stays.
#[test]
fn a_path_that_becomes_unreadable_stays_shut() {
    let file = |uri: &str| {
        format!(
            "routes:\n- {{id: g, {uri}, plugins: {{key-auth: {{}}}}}}\n- {{id: open, uri: '/*', plugins: {{mocking: {{response_example: x}}}}}}\n"
        )
    };
    for uri in ["uri: ''", "uris: ['']", "uris: ''", "uri: 7", "Uri: '/g'"] {
        let gateway = Gateway::start(YAML_PROVIDER, Some(&file("uri: /g")));
        let status = || gateway.client().get("h", "/g").expect("an answer").status();
        assert_eq!(status(), 401);
        gateway.write_routes(&file(uri));
        eventually("the file is read", || status() != 401);
        assert_eq!(status(), 503, "{uri}");
    }
}

/// The old one stays also beside others that can be read.
#[test]
fn a_path_that_becomes_unreadable_among_others_stays_shut() {
    let open = "- {id: open, uri: '/*', plugins: {mocking: {response_example: x}}}";
    let file = |route: &str| format!("routes:\n- {{id: g, {route}, plugins: {{key-auth: {{}}}}}}\n{open}\n");
    for route in [
        "uris: ['', /b]",
        "uris: [5, /b]",
        "uris: [[/a], /b]",
        "uri: '', uris: [/b]",
        "uri: 5, uris: [/b]",
        "uris: [a, /b], timeout: 3",
        "uris: [/b], path: /a",
        "uris: [/b], path: a/*",
        "uris: [//a, /b], timeout: 3",
        "uris: [/b], plugin_config_id: '9', uri: /%61",
        "uris: [/a, /b], methods: [GET, PSOT]",
        "uris: [/a, /b], methods: [GET], Methods: [POST]",
    ] {
        let mut gateway = Gateway::start(YAML_PROVIDER, Some(&file("uris: [/a, /b]")));
        let status = |gateway: &Gateway, path: &str| {
            let request = format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
            gateway.client().request(&request).expect("an answer").status()
        };
        assert_eq!(status(&gateway, "/a"), 401);
        gateway.write_routes(&file(route));
        eventually("the file is read", || status(&gateway, "/b") == 503);
        assert_eq!(status(&gateway, "/a"), 503, "{route}");
        let effect = "its requests are answered 503";
        assert_eq!(rejected(&gateway), [("routes/g".to_owned(), effect.to_owned())], "{route}");
        gateway.process.stop();
        gateway.restart();
        assert_eq!(status(&gateway, "/b"), 503, "{route}");
        if !route.contains("methods") {
            let not_known = "unknown: other routes may serve its requests";
            assert_eq!(rejected(&gateway), [("routes/g".to_owned(), not_known.to_owned())], "{route}");
            assert!(gateway.error_log().contains("some of its paths cannot be read"), "{route}");
        }
    }
}

/// What of a service's hosts cannot be read makes its routes wider, not narrower.
#[test]
fn an_unreadable_host_of_a_service_opens_nothing() {
    let file = |hosts: &str| {
        format!(
            "services:\n- {{id: s, hosts: {hosts}, plugins: {{key-auth: {{}}}}}}\nroutes:\n- {{id: g, uri: /g, service_id: s}}\n\
             - {{id: open, uri: '/*', plugins: {{mocking: {{response_example: x}}}}}}\n"
        )
    };
    for hosts in ["[a.example, '']", "[a.example, 'b example']", "[a.example, 5]", "5"] {
        let gateway = Gateway::start(YAML_PROVIDER, Some(&file("[a.example, b.example]")));
        let status = || gateway.client().get("b.example", "/g").expect("an answer").status();
        assert_eq!(status(), 401);
        gateway.write_routes(&file(hosts));
        eventually("the file is read", || status() != 401);
        assert_eq!(status(), 503, "{hosts}");
    }
}

/// In the router that looks for the host first: a route that has lost its hosts stands before those of wildcards and those
/// without a host, and before its equals. Each case: what breaks it, and what it is broken by.
#[test]
fn a_guard_that_loses_its_hosts_comes_before_open_routes() {
    let mocking = "plugins: {mocking: {response_example: x}}";
    let file = |guard: &str, service: &str, open: &str| {
        format!(
            "services:\n- {service}\nroutes:\n- {{id: g, uri: '/admin/*', {guard}, plugins: {{key-auth: {{}}}}}}\n- {{id: a, {open}, {mocking}}}\n"
        )
    };
    let (hosts, service) = ("hosts: [a.test, b.test]", "{id: s, hosts: [a.test, b.test]}");
    for (whole, broken, services) in [
        (hosts, "hosts: [a.test, 5]", service),
        (hosts, "hosts: ['b.test ', x.test]", service),
        (hosts, "hosts: []", service),
        (hosts, "hosts: null", service),
        (hosts, "Hosts: [a.test]", service),
        (hosts, "hosts: [x.test], Hosts: [a.test]", service),
        (hosts, "hosts: ['a.*']", service),
        (hosts, "host: [a.test]", service),
        (hosts, "hosts: a.test", service),
        (hosts, "hosts: 'a.test,b.test'", service),
        (hosts, "hosts: ['$env://H']", service),
        (hosts, "hosts: [\"a.test\\n\"]", service),
        (hosts, "hosts: ['a.test:80'], labels: 5", service),
        (hosts, "hosts: ['.test'], plugin_config_id: '9'", service),
        ("service_id: s", "service_id: s", "{id: s, hosts: [b.test, 5]}"),
        ("service_id: s", "service_id: s", "{id: s, hosts: [b.test], Hosts: [a.test]}"),
        ("service_id: s", "service_id: s", "{id: s, hosts: a.test}"),
        ("service_id: s", "service_id: s", "{id: other, hosts: [a.test]}"),
        ("service_id: s", "Service_id: s", service),
        ("service_id: s", "service_id: {}", service),
    ] {
        for open in [
            "uri: '/*', host: a.test",
            "uri: '/*', host: '*.test'",
            "uri: '/admin/*'",
            "uri: '/admin/x', host: '*.test'",
        ] {
            let mut gateway = Gateway::start(YAML_PROVIDER, Some(&file(whole, service, open)));
            let status =
                |gateway: &Gateway| gateway.client().get("a.test", "/admin/x").expect("an answer").status();
            assert_eq!(status(&gateway), 401, "{whole} {open}");
            gateway.write_routes(&file(broken, services, open));
            eventually("the file is read", || status(&gateway) != 401);
            assert_eq!(status(&gateway), 503, "{broken} {services} {open}");
            gateway.process.stop();
            gateway.restart();
            assert_eq!(status(&gateway), 503, "{broken} {services} {open}, after a restart");
        }
    }
}

/// A misspelled priority may be any.
#[test]
fn a_guard_that_loses_its_priority_comes_first() {
    let file = |priority: &str| {
        format!(
            "routes:\n- {{id: g, uri: '/g', {priority}: 10, plugins: {{key-auth: {{}}}}}}\n\
             - {{id: a, uri: '/g', priority: 5, plugins: {{mocking: {{response_example: x}}}}}}\n"
        )
    };
    let gateway = Gateway::start(YAML_PROVIDER, Some(&file("priority")));
    let status = || gateway.client().get("h", "/g").expect("an answer").status();
    assert_eq!(status(), 401);
    gateway.write_routes(&file("Priority"));
    eventually("the file is read", || status() != 401);
    assert_eq!(status(), 503);
}

/// What is no list may hold guards.
#[test]
fn a_list_that_is_none_is_named() {
    for (file, name) in
        [("routes: {g: {uri: /g}}\n", "routes"), ("ssls: text\n", "ssls"), ("consumers: 5\n", "consumers")]
    {
        let mut gateway = Gateway::start_unready(YAML_PROVIDER, Some(file));
        assert!(!gateway.process.wait_for_exit().success(), "{file}");
        gateway.process.wait_for_output(&format!("1:1: invalid data of [{name}], it should be a list"));
    }
}
