//! What a stranger found, who tried to get in without the key.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Gateway, Upstream};

use super::{OPEN, admin, ask, put, refused, status};

/// What the inner requests of a batch are answered, sent from `from` with these fields.
fn batch(gateway: &Gateway, from: &str, fields: &str, items: &Value) -> Vec<Value> {
    let from = format!("{from}:0").parse().expect("an address");
    let mut client = Client::connect_from(from, gateway.http).expect("connects");
    let body = json!({ "pipeline": items }).to_string();
    let request = format!(
        "POST /apisix/batch-requests HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    );
    let answer = client.request(&request).expect("an answer");
    let answers: Value = serde_json::from_str(&answer.body_text())
        .unwrap_or_else(|_| panic!("{answer:?} {}", gateway.error_log()));
    answers.as_array().unwrap_or_else(|| panic!("{answers}")).clone()
}

/// Whatever is believed of whom, an inner request comes from the client of the outer one.
#[test]
fn a_batch_has_the_address_of_its_client() {
    let upstream = Upstream::start();
    let node = format!("upstream: {{type: roundrobin, nodes: {{'{}': 1}}}}", upstream.address);
    let routes = format!(
        "routes:\n- {{id: batch, uri: /apisix/batch-requests, plugins: {{public-api: {{}}}}}}\n\
         - {{id: own, uri: /own, plugins: {{ip-restriction: {{whitelist: [127.0.0.1]}}}}, {node}}}\n\
         - {{id: not, uri: /not, plugins: {{ip-restriction: {{blacklist: [127.0.0.2]}}}}, {node}}}\n\
         - {{id: for, uri: /for, remote_addr: 127.0.0.1, {node}}}\n\
         - {{id: said, uri: /said, plugins: {{ip-restriction: {{whitelist: [9.9.9.9]}}, \
           real-ip: {{source: http_x_forwarded_for, trusted_addresses: [127.0.0.1]}}}}, {node}}}\n"
    );
    let paths = ["/own", "/not", "/for", "/said"];
    let claims = json!({"x-real-ip": "127.0.0.1", "x-forwarded-for": "9.9.9.9", "x-client": "127.0.0.1"});
    let items: Vec<Value> = paths.iter().map(|path| json!({"path": path, "headers": claims})).collect();
    for settings in [
        "real_ip_from: []",
        "real_ip_from: [10.0.0.0/8]",
        "real_ip_header: proxy_protocol",
        "real_ip_header: X-Client",
        "real_ip_from: [127.0.0.1]",
    ] {
        let config = YAML_PROVIDER.replace("http: {", &format!("http: {{{settings}, "));
        let config = format!("{config}plugins: [real-ip, batch-requests, public-api, ip-restriction]\n");
        let gateway = Gateway::start(&config, Some(&routes));
        let statuses = |from: &str| -> Vec<u64> {
            let fields = "X-Forwarded-For: 9.9.9.9\r\nX-Client: 127.0.0.2\r\nX-Real-IP: 127.0.0.2\r\n";
            let fields = if from == "127.0.0.2" { fields } else { "" };
            let answers = batch(&gateway, from, fields, &json!(items));
            answers.iter().map(|answer| answer["status"].as_u64().expect("a status")).collect()
        };
        assert_eq!(statuses("127.0.0.2"), [403, 403, 404, 403], "{settings}");
        assert_eq!(statuses("127.0.0.1"), [200, 200, 200, 403], "{settings}");
    }
}

#[test]
fn a_host_in_brackets_has_no_port() {
    let routes = format!(
        "routes:\n- {{id: open, uri: /*, plugins: {{{OPEN}}}}}\n\
         - {{id: one, uri: /one, host: '[::1]', plugins: {{key-auth: {{}}}}}}\n\
         - {{id: two, uri: /two, hosts: ['[2001:db8::1]', dot.example.], plugins: {{key-auth: {{}}}}}}\n"
    );
    for router in ["radixtree_host_uri", "radixtree_uri", "radixtree_uri_with_parameter"] {
        let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n  router: {{http: {router}}}\n"));
        let gateway = Gateway::start(&config, Some(&routes));
        for (path, host) in [
            ("/one", "[::1]"),
            ("/one", "[::1]:24102"),
            ("/two", "[2001:DB8::1]:80"),
            ("/two", "dot.example"),
            ("/two", "dot.example.:80"),
        ] {
            let answer = gateway.client().get(host, path).expect("an answer");
            assert_eq!(answer.status(), 401, "{router} {host}");
        }
        assert_eq!(gateway.client().get("[::2]:80", "/one").expect("an answer").status(), 200, "{router}");
    }
}

fn warning(gateway: &Gateway, path: &str, object: &Value) -> String {
    let answer = admin(gateway, "PUT", path, "", &object.to_string());
    assert!(matches!(answer.status(), 200 | 201), "{object}: {}", answer.body_text());
    answer.header("X-Tidegate-Warning").unwrap_or_default().to_owned()
}

#[test]
fn a_path_that_no_request_has_is_warned_of_with_the_one_that_would_match() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (uri, form) in [
        ("//x/*", "write /x/*"),
        ("/a/../b/*", "write /b/*"),
        ("/a/./b", "write /a/b"),
        ("/a%20b/*", "write /a b/*"),
        ("/a ", "write /a"),
    ] {
        let told = warning(
            &gateway,
            "routes/1",
            &json!({"uri": uri, "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
        );
        assert!(told.contains("matches no request") && told.ends_with(form), "{uri}: {told}");
        put(&gateway, "routes/1", &json!({"uri": &form[6..], "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}}).to_string());
        assert_eq!(
            warning(
                &gateway,
                "routes/1",
                &json!({"uri": &form[6..], "plugins": {"key-auth": {}}, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
            ),
            ""
        );
    }
    let named = json!({"uri": "/h", "host": "h:8080", "plugins": {"mocking": {"response_example": "open"}}});
    assert!(warning(&gateway, "routes/1", &named).contains("without their port"));
    let config = EMBEDDED.replace("apisix:\n", "apisix:\n  router: {http: radixtree_uri}\n");
    let gateway = Gateway::start(&config, None);
    assert_eq!(warning(&gateway, "routes/1", &named), "");
    assert_eq!(gateway.client().get("h:8080", "/h").expect("an answer").status(), 200);
}

/// An empty header is not a key: it would be a counter that the client chooses.
#[test]
fn an_empty_header_counts_for_the_client_address() {
    let gateway = Gateway::start(EMBEDDED, None);
    let count = json!({"count": 1, "time_window": 600, "key": "http_x_k", "rejected_code": 429});
    let upstream = Upstream::start();
    let node = json!({"nodes": {upstream.address.to_string(): 1}, "type": "roundrobin"});
    put(
        &gateway,
        "routes/1",
        &json!({"uri": "/a", "plugins": {"limit-count": count}, "upstream": node}).to_string(),
    );
    assert_eq!(ask(&gateway, "/a", "").status(), 200);
    assert_eq!(ask(&gateway, "/a", "X-K:\r\n").status(), 429);
    assert_eq!(ask(&gateway, "/a", "X-K: k\r\n").status(), 200);
}

#[test]
fn a_reference_that_leads_nowhere_is_no_variable() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({
        "uri": "/a",
        "plugins": {"proxy-rewrite": {"headers": {"set": {"X-Tok": "$env://TIDEGATE_NOT_SET"}}}},
        "upstream": {"nodes": {upstream.address.to_string(): 1}, "type": "roundrobin"},
    });
    put(&gateway, "routes/1", &route.to_string());
    // As text, or not at all: never half of it.
    let answer = ask(&gateway, "/a", "");
    assert_eq!(answer.status(), 200);
    let seen = answer.body_text().to_lowercase();
    assert!(seen.contains("$env://tidegate_not_set"), "{seen}");
}

#[test]
fn a_condition_about_no_variable_is_not_stored() {
    let gateway = Gateway::start(EMBEDDED, None);
    for name in ["$uri", "(", "", "${uri}"] {
        let route = json!({"uri": "/a", "vars": [[name, "~~", "/"]], "plugins": {"key-auth": {}}});
        refused(&gateway, "PUT", "routes/1", &route.to_string());
    }
    for name in ["arg_a[]", "http_x-a", "cookie_a$", "post_arg.a[*].b"] {
        let route = json!({"uri": "/a", "vars": [[name, "~~", "/"]], "plugins": {"key-auth": {}}});
        put(&gateway, "routes/1", &route.to_string());
    }
    assert_eq!(status(&gateway, "/b"), 404);
}

#[test]
fn a_path_that_can_be_read_is_shut_whatever_stands_around_it() {
    for guard in [
        r#"uris: "/k/*""#,
        r#"uri: ["/k/*"]"#,
        "uri: /k/*, host: b\u{fc}cher.example",
        "uri: /k/*, hosts: [\"b b\"]",
        "uri: /k/*, hosts: [\"b b\", other.example]",
    ] {
        let routes = format!(
            "routes:\n- {{id: open, uri: /*, plugins: {{{OPEN}}}}}\n- {{id: guard, {guard}, plugins: {{key-auth: {{}}}}}}\n"
        );
        let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
        for host in ["h", "xn--bcher-kva.example", "other.example"] {
            let answer = gateway.client().get(host, "/k/a").expect("an answer");
            assert_eq!(answer.status(), 503, "{guard} {host}: {}", gateway.error_log());
        }
        assert_eq!(status(&gateway, "/c"), 200, "{guard}");
    }
}

/// What guards nothing as it is written is accepted as in APISIX, and said.
#[test]
fn a_guard_without_effect_is_warned_of() {
    let gateway = Gateway::start(EMBEDDED, None);
    let filter = json!([["request_method", "==", "get"]]);
    for (plugins, expected) in [
        (json!({"workflow": {"rules": []}}), "workflow: it has no rules"),
        (json!({"workflow": {"rules": [{"actions": []}]}}), "rule 1 has no effect"),
        (json!({"fault-injection": {"abort": {"http_status": 403, "vars": []}}}), "abort has no effect"),
        (json!({"key-auth": {"_meta": {"filter": filter}}}), "write GET"),
        (json!({"key-auth": {}}), ""),
    ] {
        let told = warning(
            &gateway,
            "routes/1",
            &json!({"uri": "/x", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}}),
        );
        assert!(told.contains(expected) && told.is_empty() == expected.is_empty(), "{plugins}: {told}");
        let told = warning(&gateway, "global_rules/1", &json!({ "plugins": plugins }));
        assert!(told.contains(expected), "{plugins}: {told}");
    }
}
