//! Keys that one request shows: the same request with the key and without it.

use serde_json::{Value, json};
use tidegate_testkit::Upstream;
use tidegate_testkit::gateway::Gateway;

use super::standalone;

const ROUTES: &str = r#"routes:
- {id: hello, uri: /hello, plugins: {mocking: {response_example: fine}}}
- {id: encoded, uri: /x/a/b, plugins: {mocking: {response_example: fine}}}
- {id: host, uri: /r, host: a.test, plugins: {mocking: {response_example: by-host}}}
- {id: path, uri: /r, priority: 10, plugins: {mocking: {response_example: by-path}}}
- {id: post, uri: /post, vars: [[post_arg_name, "==", x]], plugins: {mocking: {response_example: fine}}}
- {id: valid, uri: /valid, vars: [["post_arg.a[*]", has, 1]], plugins: {mocking: {response_example: fine}}}
- {id: graphql, uri: /graphql, vars: [[graphql_operation, "==", query]], plugins: {mocking: {response_example: fine}}}
- {id: client, uri: /client, remote_addr: 9.9.9.9, plugins: {mocking: {response_example: fine}}}
- {id: redirect, uri: /redirect, plugins: {redirect: {http_to_https: true}}}
- {id: status, uri: /moved, plugins: {public-api: {}}}
- {id: batch, uri: /moved-batch, plugins: {public-api: {}}}
- {id: echo, uri: /echo, upstream: {type: roundrobin, nodes: {"@UPSTREAM@": 1}}}
"#;

/// What a request shows when the keys are set, and not otherwise, or the other way around.
enum Shows {
    With(&'static str),
    Without(&'static str),
}

struct Case {
    keys: Vec<(&'static str, Value)>,
    request: String,
    shows: Shows,
}

fn case(keys: &[(&'static str, Value)], request: &str, shows: Shows) -> Case {
    Case { keys: keys.to_vec(), request: request.replace('\n', "\r\n"), shows }
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\nHost: a.test\nConnection: close\n{headers}\n")
}

fn post(path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\nHost: a.test\nConnection: close\nContent-Type: {kind}\nContent-Length: {length}\n\n{body}"
    )
}

fn paths() -> Vec<Case> {
    use Shows::{With, Without};
    vec![
        case(&[("apisix.delete_uri_tail_slash", json!(true))], &get("/hello/", ""), With(" 200 ")),
        case(&[("apisix.normalize_uri_like_servlet", json!(true))], &get("/hello;x=1", ""), With(" 200 ")),
        case(&[("apisix.match_uri_encoded_slash", json!(true))], &get("/x/a%2Fb", ""), Without(" 200 ")),
        case(&[("apisix.router.http", json!("radixtree_uri"))], &get("/r", ""), With("by-path")),
        case(
            &[("apisix.enable_server_tokens", json!(false))],
            &get("/hello", ""),
            Without("server: apisix/"),
        ),
        case(
            &[("apisix.show_upstream_status_in_response_header", json!(true))],
            &get("/echo", ""),
            With("x-apisix-upstream-status: 200"),
        ),
        case(&[("plugin_attr.redirect.https_port", json!(8443))], &get("/redirect", ""), With(":8443/")),
        case(&[("plugin_attr.node-status.uri", json!("/moved"))], &get("/moved", ""), With(" 200 ")),
        case(
            &[("plugin_attr.batch-requests.uri", json!("/moved-batch"))],
            &post("/moved-batch", "application/json", r#"{"pipeline": [{"path": "/hello"}]}"#),
            With(" 200 "),
        ),
    ]
}

fn bodies_and_peers() -> Vec<Case> {
    use Shows::{With, Without};
    let form = format!("name=x&pad={}", "a".repeat(1_200_000));
    vec![
        case(
            &[("apisix.max_post_args_readable_size", json!(1))],
            &post("/post", "application/x-www-form-urlencoded", &form),
            Without(" 200 "),
        ),
        case(
            &[("apisix.body_memory.parsed", json!("1k"))],
            &post("/valid", "application/json", &format!("{{\"a\":[{}1]}}", "1,".repeat(100))),
            Without(" 200 "),
        ),
        case(
            &[("graphql.max_size", json!(20))],
            &post("/graphql", "application/graphql", "query Long { someField { another } }"),
            Without(" 200 "),
        ),
        case(
            &[("nginx_config.http.client_max_body_size", json!(10))],
            &post("/hello", "text/plain", "more than ten bytes"),
            With(" 413 "),
        ),
        case(
            &[("nginx_config.http.real_ip_header", json!("X-Client"))],
            &get("/client", "X-Client: 9.9.9.9\n"),
            With(" 200 "),
        ),
        case(
            &[("nginx_config.http.real_ip_from", json!(["10.0.0.0/8"]))],
            &get("/client", "X-Real-IP: 9.9.9.9\n"),
            Without(" 200 "),
        ),
        case(
            &[
                ("nginx_config.http.real_ip_header", json!("X-Forwarded-For")),
                ("nginx_config.http.real_ip_recursive", json!("on")),
            ],
            &get("/client", "X-Forwarded-For: 9.9.9.9, 127.0.0.1\n"),
            With(" 200 "),
        ),
        case(
            &[("apisix.trusted_addresses", json!(["127.0.0.1"]))],
            &get("/echo", "X-Forwarded-Host: from-a-proxy\n"),
            With("x-forwarded-host: from-a-proxy"),
        ),
    ]
}

fn start(keys: &[(&'static str, Value)], upstream: &Upstream) -> Gateway {
    let plugins = ["mocking", "redirect", "public-api", "node-status", "batch-requests"];
    let mut all = vec![("plugins", json!(plugins))];
    all.extend_from_slice(keys);
    let routes = ROUTES.replace("@UPSTREAM@", &upstream.address.to_string());
    Gateway::start(&standalone(&all), Some(&routes))
}

fn check(cases: &[Case]) {
    let upstream = Upstream::start();
    let plain = start(&[], &upstream);
    for case in cases {
        let keyed = start(&case.keys, &upstream);
        let answers = [&keyed, &plain].map(|gateway| {
            let mut client = gateway.client();
            client.send(case.request.as_bytes()).expect("sends");
            let bytes = client.to_close().unwrap_or_default();
            String::from_utf8_lossy(&bytes).to_lowercase()
        });
        let (text, expected) = match case.shows {
            Shows::With(text) => (text, [true, false]),
            Shows::Without(text) => (text, [false, true]),
        };
        let found = answers.each_ref().map(|answer| answer.contains(text));
        let shown = answers.map(|answer| answer.chars().take(600).collect::<String>());
        assert_eq!(found, expected, "{:?}: {text:?} with and without: {shown:#?}", case.keys);
    }
}

#[test]
fn paths_answers_and_addresses_of_apis() {
    check(&paths());
}

#[test]
fn bodies_and_the_addresses_of_clients() {
    check(&bodies_and_peers());
}

#[test]
fn plugins_that_are_not_listed_are_off() {
    let upstream = Upstream::start();
    let gateway = start(&[("plugins", json!(["mocking"]))], &upstream);
    assert_ne!(gateway.client().get("a.test", "/redirect").expect("an answer").status(), 301);
    assert_eq!(gateway.client().get("a.test", "/hello").expect("an answer").status(), 200);
    assert!(
        std::net::TcpStream::connect(gateway.metrics).is_err(),
        "prometheus is off, and its port with it"
    );
}
