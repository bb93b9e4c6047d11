//! `POST /apisix/admin/explain` and `tidegate explain`: what they say, and that requests do as they say.

use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::{Upstream, free_port};

fn explain(gateway: &Gateway, question: &Value) -> Value {
    let (status, body) = gateway.admin("POST", "/apisix/admin/explain", &question.to_string());
    assert_eq!(status, 200, "{question}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

fn put(gateway: &Gateway, path: &str, value: &Value) {
    let (status, body) = gateway.admin(
        "PUT",
        &format!("/apisix/admin{path}?wait=applied&wait_timeout=60"),
        &value.to_string(),
    );
    assert!(matches!(status, 200 | 201), "{path}: {status} {body}");
}

/// What became of each candidate: `route verdict reason`, without what an answer leaves out.
fn verdicts(explanation: &Value) -> Vec<String> {
    let candidates = explanation["candidates"].as_array().expect("candidates");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    candidates
        .iter()
        .map(|candidate| {
            let parts = ["route", "verdict", "reason"].map(|name| text(&candidate[name]));
            parts.join(" ").trim().to_owned()
        })
        .collect()
}

fn routes(gateway: &Gateway, upstream: &Upstream) {
    let nodes = json!({ upstream.address.to_string(): 1 });
    for (id, mut route) in [
        ("won", json!({"uri": "/a", "priority": 1})),
        ("shadowed", json!({"uri": "/a"})),
        ("prefix", json!({"uri": "/*"})),
        ("posts", json!({"uri": "/a", "methods": ["POST"], "priority": 9})),
        ("far", json!({"uri": "/a", "remote_addr": "10.0.0.0/8", "priority": 8})),
        ("vars", json!({"uri": "/a", "vars": [["arg_x", "==", "1"], ["http_y", "==", "2"]], "priority": 7})),
        ("other-host", json!({"uri": "/a", "host": "other.com"})),
        ("other-path", json!({"uri": "/b"})),
    ] {
        route["upstream"] = json!({ "nodes": nodes });
        route["plugins"] = json!({"response-rewrite": {"headers": {"set": {"X-Route": id}}}});
        put(gateway, &format!("/routes/{id}"), &route);
    }
}

#[test]
fn candidates_tell_why_they_lost_and_requests_agree() {
    let upstream = Upstream::service(|_| (200, "hello".to_owned()));
    let gateway = Gateway::start(EMBEDDED, None);
    routes(&gateway, &upstream);
    let explanation = explain(&gateway, &json!({"url": "http://h.com/a?x=1"}));
    assert_eq!(
        verdicts(&explanation),
        [
            "posts lost the method is GET, the route takes only POST",
            "far lost the client's address is 127.0.0.1, the route takes only 10.0.0.0/8",
            "vars lost the condition http_y == \"2\" does not hold",
            "won won",
            "shadowed shadowed route won has priority 1, this one 0",
            "prefix shadowed route won has the more specific path /a",
            "other-host lost the host is h.com, the route is for other.com",
        ],
        "{explanation:#}"
    );
    // Each question, and the same as a request: the route that answers is the one that was told.
    for (method, host, target, fields) in [
        ("GET", "h.com", "/a?x=1", ""),
        ("GET", "h.com", "/a?x=1", "Y: 2\r\n"),
        ("POST", "h.com", "/a", ""),
        ("GET", "other.com", "/a", ""),
        ("GET", "other.com:81", "/%61", ""),
        ("GET", "h.com", "/elsewhere", ""),
        ("GET", "h.com", "/b/../a", ""),
    ] {
        let headers: Value = if fields.is_empty() { json!({}) } else { json!({"Y": "2"}) };
        let question = json!({"method": method, "url": format!("http://{host}{target}"), "headers": headers});
        let told = explain(&gateway, &question)["route"]["id"].clone();
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}Content-Length: 0\r\n\r\n");
        let answer = gateway.client().request(&request).expect("an answer");
        assert_eq!(answer.header("X-Route").map(|id| json!(id)), Some(told), "{question}");
    }
    let far = explain(&gateway, &json!({"url": "http://h.com/a", "client_ip": "10.1.2.3"}));
    assert_eq!(far["route"]["id"], "far");
    for bad in [json!({}), json!({"url": "nowhere"}), json!({"url": "/", "consumer": "nobody"})] {
        let (status, body) = gateway.admin("POST", "/apisix/admin/explain", &bad.to_string());
        assert_eq!(status, 400, "{bad}: {body}");
    }
}

#[test]
fn plugins_tell_their_phase_order_and_where_fields_come_from() {
    let gateway = Gateway::start(EMBEDDED, None);
    let limit = |count: u32| json!({"count": count, "time_window": 60, "rejected_code": 429});
    put(
        &gateway,
        "/services/s",
        &json!({
            "upstream": {"nodes": {"127.0.0.1:1": 1}},
            "plugins": {"limit-count": limit(1), "response-rewrite": {"body": "x"}},
        }),
    );
    put(&gateway, "/plugin_configs/p", &json!({"plugins": {"limit-count": limit(2)}}));
    put(
        &gateway,
        "/routes/1",
        &json!({
            "uri": "/a", "service_id": "s", "plugin_config_id": "p",
            "plugins": {"key-auth": {}, "limit-count": limit(3),
                "proxy-rewrite": {"uri": "/x", "_meta": {"filter": [["arg_z", "==", "1"]]}}},
        }),
    );
    put(&gateway, "/global_rules/g", &json!({"plugins": {"request-id": {}}}));
    put(&gateway, "/consumer_groups/cg", &json!({"plugins": {"limit-count": limit(4)}}));
    put(
        &gateway,
        "/consumers/jack",
        &json!({
            "username": "jack", "group_id": "cg", "plugins": {"key-auth": {"key": "jacks-secret-key"}},
        }),
    );

    let explanation = explain(&gateway, &json!({"url": "http://h/a"}));
    let rewrite = &explanation["phases"][0];
    assert_eq!(rewrite["phase"], "rewrite");
    let names: Vec<&str> = rewrite["plugins"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["plugin"].as_str())
        .collect();
    assert_eq!(names, ["request-id", "key-auth", "proxy-rewrite"], "{explanation:#}");
    assert_eq!(rewrite["plugins"][0]["from"], "global_rules/g");
    assert_eq!(rewrite["plugins"][2]["runs"], false, "its filter does not hold");

    let plugin = |explanation: &Value, name: &str| {
        let plugins = explanation["plugins"].as_array().cloned().unwrap_or_default();
        plugins.into_iter().find(|plugin| plugin["plugin"] == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let field = |plugin: &Value, path: &str| {
        let fields = plugin["fields"].as_array().cloned().unwrap_or_default();
        fields
            .into_iter()
            .find(|field| field["path"] == path)
            .unwrap_or_else(|| panic!("no {path} in {plugin}"))
    };
    let limit = plugin(&explanation, "limit-count");
    assert_eq!(limit["from"], "routes/1");
    assert_eq!(limit["hides"], json!(["plugin_configs/p", "services/s"]));
    assert_eq!(field(&limit, "/count"), json!({"path": "/count", "value": 3, "from": "routes/1"}));
    assert_eq!(field(&limit, "/policy"), json!({"path": "/policy", "value": "local", "from": "default"}));
    assert_eq!(plugin(&explanation, "response-rewrite")["from"], "services/s");

    let as_jack = explain(&gateway, &json!({"url": "http://h/a", "consumer": "jack"}));
    let limit = plugin(&as_jack, "limit-count");
    assert_eq!(
        (&limit["from"], &field(&limit, "/count")["value"]),
        (&json!("consumer_groups/cg"), &json!(4))
    );
    assert_eq!(limit["hides"], json!(["routes/1", "plugin_configs/p", "services/s"]));
    assert!(!as_jack.to_string().contains("jacks-secret-key"));
}

#[test]
fn secrets_are_masked() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(
        &gateway,
        "/routes/1",
        &json!({
            "uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}},
            "plugins": {"csrf": {"key": "route-secret-key"}},
        }),
    );
    let explanation = explain(&gateway, &json!({"url": "/a"}));
    assert!(!explanation.to_string().contains("route-secret-key"), "{explanation:#}");
    assert!(explanation.to_string().contains("***"), "{explanation:#}");
}

fn run(gateway: &Gateway, arguments: &[&str]) -> (bool, String, String) {
    let config = gateway.prefix().join("conf/config.yaml");
    let output = Command::new(binary())
        .arg("--prefix")
        .arg(gateway.prefix())
        .arg("-c")
        .arg(config)
        .arg("explain")
        .args(arguments)
        .output()
        .expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_command_asks_the_running_gateway() {
    let upstream = Upstream::service(|_| (200, "hello".to_owned()));
    let gateway = Gateway::start(EMBEDDED, None);
    routes(&gateway, &upstream);
    let (good, printed, complaint) = run(&gateway, &["GET", "http://h.com/a?x=1", "-H", "Y: 2"]);
    assert!(good, "{complaint}");
    let node = format!("route vars, upstream routes/vars, node {}\n", upstream.address);
    assert!(printed.contains(&node), "{printed}");
    assert!(printed.contains("shadowed  route won"), "{printed}");
    assert!(printed.contains("/headers/set/X-Route = \"vars\"  (routes/vars)"), "{printed}");
    let (good, printed, _) = run(&gateway, &["GET", "http://h.com/a", "--client-ip", "10.0.0.1", "--json"]);
    assert!(good);
    let explanation: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(explanation["route"]["id"], "far");
    let (good, _, complaint) = run(&gateway, &["GET", "nowhere"]);
    assert!(!good && complaint.contains("http://HOST/PATH"), "{complaint}");
    let (good, _, complaint) = run(&gateway, &["GET", "/a", "--offline"]);
    let pid = gateway.pid().expect("a pid");
    let said =
        format!("process {pid} serves from this folder and has its database open; leave --offline out");
    assert!(!good && complaint.contains(&said), "{complaint}");
}

#[test]
fn the_command_reads_files_without_a_gateway() {
    let yaml = "routes:\n- {id: one, uri: /a/*, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n\
                - {id: two, uri: /a/b, host: x.com, upstream: {nodes: {\"127.0.0.1:1\": 1}}}\n";
    let mut gateway = Gateway::start(YAML_PROVIDER, Some(yaml));
    gateway.process.stop();
    let (good, printed, complaint) = run(&gateway, &["GET", "http://x.com/a/b"]);
    assert!(good, "{complaint}");
    assert!(printed.contains("route two, upstream routes/two, node 127.0.0.1:1\n"), "{printed}");
    assert!(printed.contains("shadowed  route one"), "{printed}");
    let missing = format!("http://127.0.0.1:{}/none", free_port());
    let (good, printed, _) = run(&gateway, &["GET", &missing]);
    assert!(good && printed.contains("no route\n"), "{printed}");
}

/// What a peer says of itself counts in a question as it does in a request: whom the peer is believed to be decides.
#[test]
fn claims_of_peers_count_as_they_do_in_requests() {
    let mocked = |answer: &str| json!({"mocking": {"response_example": answer, "with_mock_header": false}});
    let says = |name: &str, value: &str| json!([[name, "==", value]]);
    for believed in [false, true] {
        let mut config = EMBEDDED.to_owned();
        let peer = if believed { "127.0.0.1" } else { "192.0.2.1" };
        config = config.replacen("apisix:\n", &format!("apisix:\n  trusted_addresses: [{peer}]\n"), 1);
        let real_ip =
            format!("nginx_config:\n  http: {{real_ip_from: [{peer}], real_ip_header: X-Real-IP}}\n");
        config = config.replacen("nginx_config:\n", &real_ip, 1);
        let gateway = Gateway::start(&config, None);
        for (id, route) in [
            ("any", json!({"uri": "/*", "plugins": mocked("any")})),
            (
                "proto",
                json!({"uri": "/proto", "vars": says("http_x_forwarded_proto", "https"), "plugins": mocked("proto")}),
            ),
            (
                "user",
                json!({"uri": "/user", "vars": says("http_x_consumer_username", "root"), "plugins": mocked("user")}),
            ),
            ("hop", json!({"uri": "/hop", "vars": says("http_x_hop", "1"), "plugins": mocked("hop")})),
            ("far", json!({"uri": "/far", "remote_addr": "10.0.0.0/8", "plugins": mocked("far")})),
        ] {
            put(&gateway, &format!("/routes/{id}"), &route);
        }
        for (path, name, value, wins) in [
            ("/proto", "X-Forwarded-Proto", "https", believed),
            ("/user", "X-Consumer-Username", "root", false),
            ("/far", "X-Real-IP", "10.1.2.3", believed),
            ("/hop", "X-Hop", "1", false),
        ] {
            let mut headers = json!({name: value});
            if path == "/hop" {
                headers["Connection"] = json!("X-Hop");
            }
            let question = json!({"url": format!("http://h{path}"), "headers": headers});
            let told = explain(&gateway, &question);
            let lines: String = headers
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap_or_default()))
                .collect();
            let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
            let served = gateway.client().request(&request).expect("an answer").body_text();
            let expected = if wins { &path[1..] } else { "any" };
            let won = verdicts(&told).into_iter().find(|verdict| verdict.contains(" won"));
            assert_eq!(served.trim(), expected, "{path}, believed: {believed}");
            assert_eq!(won, Some(format!("{expected} won")), "{path}, believed: {believed}: {told}");
        }
    }
}

/// What only the way of a request knows: a host that asks for certificates, a body, the node of a key.
#[test]
fn refusals_bodies_and_nodes_are_told_as_they_are_served() {
    let (one, two) =
        (Upstream::service(|_| (200, "one".to_owned())), Upstream::service(|_| (200, "two".to_owned())));
    let gateway = Gateway::start(EMBEDDED, None);
    let nodes = json!({ one.address.to_string(): 1, two.address.to_string(): 1 });
    let hashed = json!({"type": "chash", "hash_on": "vars", "key": "arg_k", "nodes": nodes});
    put(&gateway, "/routes/hashed", &json!({"uri": "/hashed", "upstream": hashed}));
    let mocked = |answer: &str| json!({"mocking": {"response_example": answer, "with_mock_header": false}});
    let vars = json!([["post_arg.a", "==", "1"]]);
    put(
        &gateway,
        "/routes/body",
        &json!({"uri": "/body", "vars": vars, "methods": ["POST"], "plugins": mocked("body")}),
    );
    put(&gateway, "/routes/other", &json!({"uri": "/body", "priority": -1, "plugins": mocked("other")}));

    for key in 0..8 {
        let target = format!("/hashed?k={key}");
        let told = explain(&gateway, &json!({ "url": target }));
        let served = gateway.client().request(&format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let address = if served.expect("an answer").body_text() == "one" { one.address } else { two.address };
        assert_eq!(told["route"]["node"], json!(address.to_string()), "{told}");
    }
    let form = json!({"Content-Type": "application/x-www-form-urlencoded"});
    for (body, route) in [("a=1", "body"), ("a=2", "other"), ("", "other")] {
        let question = json!({"method": "POST", "url": "/body", "headers": form, "body": body});
        assert_eq!(explain(&gateway, &question)["route"]["id"], route, "{body}");
    }
    // A body that nobody can read: refused where a condition asks for it, and not where another route comes first.
    put(
        &gateway,
        "/routes/before",
        &json!({"uri": "/body", "methods": ["PUT"], "priority": 9, "plugins": mocked("before")}),
    );
    for (method, status, route) in [("POST", 400, json!(null)), ("PUT", 200, json!("before"))] {
        let headers = json!({"Content-Type": "application/json"});
        let question = json!({"method": method, "url": "/body", "headers": headers, "body": "{bad"});
        let told = explain(&gateway, &question);
        let request = format!(
            "{method} /body HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{{bad"
        );
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), status, "{method}");
        let refused = if status == 200 { json!(null) } else { json!(status) };
        assert_eq!((&told["refused"], &told["route"]["id"]), (&refused, &route), "{told}");
        assert!(told["candidates"].as_array().is_some_and(|candidates| candidates.len() >= 2), "{told}");
    }
    let told = explain(&gateway, &json!({"url": "/a/%zz"}));
    let served = gateway.client().request("GET /a/%zz HTTP/1.1\r\nHost: h\r\n\r\n").expect("an answer");
    assert_eq!(told["refused"], json!(served.status()), "{told}");
}

#[test]
fn the_port_is_part_of_the_question_and_the_nearest_path_of_the_answer() {
    let gateway = Gateway::start(EMBEDDED, None);
    let port = gateway.http.port();
    for (id, uri, vars) in [
        ("here", "/orders/*", json!([["server_port", "~~", format!("^{port}$")]])),
        ("elsewhere", "/elsewhere", json!([["server_port", "==", "81"]])),
    ] {
        let route = json!({"uri": uri, "vars": vars, "plugins": {"mocking": {"response_example": id}}});
        put(&gateway, &format!("/routes/{id}"), &route);
    }
    for (url, expected) in [
        (format!("http://127.0.0.1:{port}/orders/1"), "here"),
        ("http://a.test/orders/1".to_owned(), "here"),
        ("/orders/1".to_owned(), "here"),
        ("http://a.test:81/elsewhere".to_owned(), "elsewhere"),
        (format!("http://a.test:{port}/elsewhere"), ""),
        ("http://a.test:81/orders/1".to_owned(), ""),
    ] {
        let explanation = explain(&gateway, &json!({ "url": url }));
        assert_eq!(explanation["route"]["id"].as_str().unwrap_or_default(), expected, "{explanation:#}");
    }
    assert_eq!(gateway.client().get("a.test", "/orders/1").expect("an answer").body_text(), "here");
    let (success, printed, said) = run(&gateway, &["GET", "/order/1"]);
    assert!(
        success && printed.contains("no route has a path that fits /order/1; did you mean /orders/*?"),
        "{printed}{said}"
    );
}
