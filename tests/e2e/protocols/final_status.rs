//! Whatever status a function or plugin names, the client gets an answer that ends its request.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

const NO_STATUS: &str = "not a status that ends a request";

/// The body of a function, the status of the answer, and what the log says. 299 is the upstream's.
const CASES: &[(&str, u16, &str)] = &[
    ("ngx.exit(100)", 500, NO_STATUS),
    ("ngx.exit(101)", 500, NO_STATUS),
    ("ngx.exit(103)", 500, NO_STATUS),
    ("ngx.exit(199)", 500, NO_STATUS),
    ("ngx.exit(99)", 500, NO_STATUS),
    ("ngx.exit(1)", 500, NO_STATUS),
    ("ngx.exit(1000)", 500, NO_STATUS),
    ("ngx.exit(65536 + 200)", 500, NO_STATUS),
    ("ngx.exit(1e300)", 500, NO_STATUS),
    ("ngx.exit(-1)", 500, NO_STATUS),
    ("ngx.exit(ngx.AGAIN)", 500, NO_STATUS),
    ("ngx.exit(ngx.DONE)", 500, NO_STATUS),
    ("ngx.exit(0 / 0)", 500, "number expected"),
    ("ngx.exit(1 / 0)", 500, "number expected"),
    ("ngx.exit('teapot')", 500, "number expected"),
    ("ngx.exit({})", 500, "number expected"),
    ("ngx.exit()", 500, "number expected"),
    ("ngx.exit(ngx.OK)", 299, ""),
    ("ngx.exit(ngx.DECLINED)", 299, ""),
    ("ngx.exit('403')", 403, ""),
    ("ngx.exit(403.9)", 403, ""),
    ("ngx.exit(200)", 200, ""),
    ("ngx.exit(999)", 999, ""),
    ("ngx.say('x') ngx.exit(100)", 500, NO_STATUS),
    ("ngx.say('x') ngx.exit(0)", 200, ""),
    ("ngx.status = 100 ngx.say('x')", 500, "invalid status"),
    ("ngx.status = 0 ngx.say('x')", 500, "invalid status"),
    ("ngx.status = 1200 ngx.say('x')", 500, "invalid status"),
    ("ngx.status = 201.5 ngx.say('x')", 201, ""),
    ("return 100", 500, NO_STATUS),
    ("return 100, 'x'", 500, NO_STATUS),
    ("return 102, {a = 1}", 500, NO_STATUS),
    ("return -1", 500, NO_STATUS),
    ("return -200, 'x'", 500, NO_STATUS),
    ("return 50", 500, NO_STATUS),
    ("return 1000, 'x'", 500, NO_STATUS),
    ("return 0 / 0, 'x'", 500, NO_STATUS),
    ("return '403'", 500, "a status that is not a number"),
    ("return true", 500, "a status that is not a number"),
    ("return 0", 299, ""),
    ("return 0, 'x'", 200, ""),
    ("return 403.5, 'x'", 403, ""),
    ("return 999, 'x'", 999, ""),
    ("require('apisix.core').response.exit(100)", 500, "invalid status"),
    ("require('apisix.core').response.exit(100, 'x')", 500, "invalid status"),
    ("require('apisix.core').response.exit(0)", 500, "invalid status"),
    ("require('apisix.core').response.exit(2000, {})", 500, "invalid status"),
    ("ngx.redirect('/a', 100)", 500, "are allowed"),
    ("ngx.redirect('/a', 200)", 500, "are allowed"),
    ("ngx.redirect('/a', 'x')", 500, "are allowed"),
    ("ngx.redirect('/a')", 302, ""),
    ("ngx.redirect('/a', 308)", 308, ""),
];

fn ask(client: &mut tidegate_testkit::Client, path: &str) -> u16 {
    client.send(format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()).expect("sends");
    client.response().unwrap_or_else(|error| panic!("{path} is answered: {error:?}")).status()
}

#[test]
fn every_status_ends_in_an_answer() {
    let mocking = json!({"response_status": 299, "response_example": "mocked", "with_mock_header": false});
    let of_functions = CASES.iter().enumerate().map(|(number, (body, _, _))| {
        let function = format!("return function(conf, ctx) {body} end");
        let serverless = json!({"phase": "rewrite", "functions": [function]});
        json!({"id": format!("r{number}"), "uri": format!("/{number}"),
            "plugins": {"serverless-pre-function": serverless, "mocking": mocking}})
    });
    let routes: Vec<Value> = of_functions.collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({"routes": routes}).to_string()));
    let (mut client, mut wrong) = (gateway.client(), Vec::new());
    for (number, (body, status, said)) in CASES.iter().enumerate() {
        let got = ask(&mut client, &number.to_string());
        if got != *status {
            wrong.push(format!("{body}: {got}"));
        }
        gateway.wait_for_log(said);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The status that is sent is final, whatever late phases ask for.
#[test]
fn late_phases_leave_a_final_status() {
    let late = |id: &str, phase: &str, body: &str| {
        json!({"id": id, "uri": format!("/{id}"), "plugins": {
            "serverless-pre-function": {"phase": phase, "functions": [format!("return function() {body} end")]},
            "mocking": {"response_status": 299, "response_example": "mocked", "with_mock_header": false}}})
    };
    let mocked = |id: &str, status: u16| {
        json!({"id": id, "uri": format!("/{id}"), "plugins": {"mocking":
            {"response_status": status, "response_example": "x", "with_mock_header": false}}})
    };
    let routes = json!({"routes": [
        late("exit", "header_filter", "ngx.exit(100)"),
        late("set", "header_filter", "ngx.status = 100"),
        late("switch", "header_filter", "ngx.status = 101"),
        late("return", "header_filter", "return 100"),
        late("body", "body_filter", "ngx.exit(100)"),
        late("log", "log", "ngx.exit(100)"),
        mocked("mocked100", 100),
        mocked("mocked101", 101),
        mocked("mocked199", 199),
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let mut client = gateway.client();
    for (id, status) in [
        ("exit", 500),
        ("set", 500),
        ("switch", 500),
        ("return", 299),
        ("body", 500),
        ("log", 299),
        ("mocked100", 500),
        ("mocked101", 500),
        ("mocked199", 500),
    ] {
        assert_eq!(ask(&mut client, id), status, "{id}: {}", gateway.error_log());
    }
    gateway.wait_for_log("199 is not a final status; sending 500");
}
