//! Regular expressions that each keep their limit, many of them for one request: together they have a limit, too, and
//! the request that exceeds it is refused.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::processor_time;
use tidegate_testkit::{Gateway, Message, Upstream};

const PATTERNS: usize = 400;

/// Takes long on texts that have no z, and at once where they begin so.
fn slow(number: usize) -> String {
    format!("^(?:x|(?!y).)*z{number}$")
}

fn start(upstream: &Upstream) -> Gateway {
    let node = upstream.address.to_string();
    let route = |id: &str, uri: &str, plugins: Value| json!({"id": id, "uri": uri, "plugins": plugins, "upstream": {"nodes": {&node: 1}}});
    let mut routes: Vec<Value> = (0..PATTERNS)
        .map(|number| {
            let mut one = route(
                &format!("v{number}"),
                "/vars",
                json!({"response-rewrite": {"body": format!("v{number}")}}),
            );
            one["vars"] = json!([["arg_a", "~~", slow(number)]]);
            one
        })
        .collect();
    let all: Vec<String> = (0..PATTERNS).map(slow).collect();
    let pairs: Vec<String> = all.iter().flat_map(|pattern| [pattern.clone(), "/".to_owned()]).collect();
    routes.extend([
        route("agents", "/agents", json!({"ua-restriction": {"denylist": all}})),
        route("rewritten", "/rewritten*", json!({"proxy-rewrite": {"regex_uri": pairs}})),
        route("quiet", "/quiet", json!({})),
    ]);
    Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()))
}

/// The answer, and what it took of the processor.
fn ask(gateway: &Gateway, path: &str, agent: &str) -> (Message, Duration) {
    let before = processor_time(gateway);
    let mut client = gateway.client();
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nUser-Agent: {agent}\r\n\r\n");
    let answer = client.request(&request).expect("an answer");
    (answer, processor_time(gateway) - before)
}

#[test]
fn patterns_of_one_request_have_a_time_together() {
    let upstream = Upstream::service(|_| (200, "fine".to_owned()));
    let gateway = start(&upstream);
    let text = "a".repeat(1000);
    // Some of it goes into compiling patterns for texts of this length.
    let cases = [
        (format!("/vars?a={text}"), "curl", 500),
        ("/agents".to_owned(), text.as_str(), 403),
        (format!("/rewritten{text}"), "curl", 500),
    ];
    for (path, agent, status) in &cases {
        let (answer, took) = ask(&gateway, path, agent);
        println!("{path:.20}: {} after {took:?}", answer.status());
        assert_eq!(answer.status(), *status, "{path:.20}");
        assert!(took < Duration::from_millis(1500), "{path:.20} took {took:?}");
    }
    // A busy machine may charge one pattern more than a single search has; then the next request says it.
    let said = "for one request took more than 16 ms in total";
    let vars = format!("/vars?a={text}");
    let is_said =
        (0..20).any(|_| gateway.error_log().contains(said) || ask(&gateway, &vars, "curl").0.status() != 500);
    assert!(is_said && gateway.error_log().contains(said), "{}", gateway.error_log());

    // What is quickly judged is served, however many patterns there are.
    for (path, agent, body) in
        [("/vars?a=z399", "curl", "v399"), ("/agents", "curl", "fine"), ("/quiet", "curl", "fine")]
    {
        // A debug build on a busy machine may spend the time of one request; not that of ten.
        let served = |answer: Message| (answer.status(), answer.body_text()) == (200, body.to_owned());
        assert!((0..10).any(|_| served(ask(&gateway, path, agent).0)), "{path}");
    }
}
