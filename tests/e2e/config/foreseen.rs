//! Who answers an explained request: for each configuration the gateway is asked, then gets the request, and has to do as it said.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Upstream, client::Client};

/// What is expected of an explanation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Upstream,
    Answered(u16),
    /// With a status that is not known beforehand.
    AnsweredSomehow,
    Maybe,
}

use Told::{Answered, AnsweredSomehow, Maybe, Upstream as Reaches};

const BODY: &str = "of the upstream";

fn put(gateway: &Gateway, path: &str, value: &Value) {
    let target = format!("/apisix/admin{path}?wait=applied&wait_timeout=60");
    let (status, body) = gateway.admin("PUT", &target, &value.to_string());
    assert!(matches!(status, 200 | 201), "{path}: {status} {body}");
}

fn explain(gateway: &Gateway, question: &Value) -> Value {
    let (status, body) = gateway.admin("POST", "/apisix/admin/explain", &question.to_string());
    assert_eq!(status, 200, "{question}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Plugins of a route, fields of the request with `GET` or another method in front, and what is told.
fn cases() -> Vec<(Value, &'static str, &'static str, Told)> {
    let abort = |percentage: u64| json!({"fault-injection": {"abort": {"http_status": 404, "percentage": percentage}}});
    let key = json!({"key-auth": {}});
    let split = |weights: [u64; 2]| {
        let targets = json!([{"upstream_id": "other", "weight": weights[0]}, {"weight": weights[1]}]);
        json!({"traffic-split": {"rules": [{"weighted_upstreams": targets}]}})
    };
    let mock = json!({"response_status": 202, "response_example": "{}"});
    vec![
        (json!({}), "GET", "", Reaches),
        (abort(100), "GET", "", Answered(404)),
        (abort(30), "GET", "", Maybe),
        (abort(0), "GET", "", Reaches),
        (
            json!({"fault-injection": {"abort": {"http_status": 503, "vars": [[["http_x", "==", "1"]]]}}}),
            "GET",
            "X: 1",
            Answered(503),
        ),
        (
            json!({"fault-injection": {"abort": {"http_status": 503, "vars": [[["http_x", "==", "1"]]]}}}),
            "GET",
            "X: 2",
            Reaches,
        ),
        (key.clone(), "GET", "", Answered(401)),
        (key.clone(), "GET", "apikey: wrong", Answered(401)),
        (key, "GET", "apikey: key-of-anna", Reaches),
        (json!({"basic-auth": {}}), "GET", "Authorization: Basic YW5uYTpwYXNz", Reaches),
        (json!({"basic-auth": {}}), "GET", "Authorization: Basic YW5uYTp4", Answered(401)),
        (json!({"jwt-auth": {}}), "GET", "", Answered(401)),
        (json!({"hmac-auth": {}}), "GET", "", Answered(401)),
        (
            json!({"jwe-decrypt": {"header": "Authorization", "forward_header": "X"}}),
            "GET",
            "",
            Answered(403),
        ),
        (json!({"ldap-auth": {"base_dn": "dc=a", "ldap_uri": "127.0.0.1:1"}}), "GET", "", Answered(401)),
        (
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {"basic-auth": {}}]}}),
            "GET",
            "",
            Answered(401),
        ),
        (
            json!({"multi-auth": {"auth_plugins": [{"key-auth": {}}, {"basic-auth": {}}]}}),
            "GET",
            "apikey: key-of-anna",
            Reaches,
        ),
        (json!({"mocking": mock}), "GET", "", Answered(202)),
        (json!({"mocking": mock, "limit-count": {"count": 9, "time_window": 60}}), "GET", "", Answered(202)),
        (
            json!({"mocking": {"response_example": "{}", "_meta": {"filter": [["arg_mock", "==", "1"]]}}}),
            "GET",
            "",
            Reaches,
        ),
        (json!({"redirect": {"uri": "/there", "ret_code": 302}}), "GET", "", Answered(302)),
        (json!({"redirect": {"http_to_https": true}}), "GET", "", Answered(301)),
        (json!({"ip-restriction": {"blacklist": ["127.0.0.0/8"]}}), "GET", "", Answered(403)),
        (json!({"ip-restriction": {"whitelist": ["127.0.0.1"]}}), "GET", "", Reaches),
        (json!({"ua-restriction": {"denylist": ["bad-bot"]}}), "GET", "User-Agent: bad-bot", Answered(403)),
        (
            json!({"referer-restriction": {"whitelist": ["a.com"]}}),
            "GET",
            "Referer: http://b.com/",
            Answered(403),
        ),
        (json!({"uri-blocker": {"block_rules": ["select"]}}), "GET", "", Reaches),
        (json!({"uri-blocker": {"block_rules": ["^/case"]}}), "GET", "", Answered(403)),
        (json!({"cors": {}}), "OPTIONS", "Origin: http://a.com", Answered(200)),
        (json!({"cors": {}}), "GET", "Origin: http://a.com", Reaches),
        (json!({"csrf": {"key": "k"}}), "POST", "", Answered(401)),
        (
            json!({"request-validation": {"header_schema": {"type": "object", "required": ["x-a"]}}}),
            "GET",
            "",
            Answered(400),
        ),
        (
            json!({"consumer-restriction": {"whitelist": ["bob"]}, "key-auth": {}}),
            "GET",
            "apikey: key-of-anna",
            Answered(403),
        ),
        (
            json!({"consumer-restriction": {"whitelist": ["anna"]}, "key-auth": {}}),
            "GET",
            "apikey: key-of-anna",
            Reaches,
        ),
        (json!({"limit-count": {"count": 1, "time_window": 60, "rejected_code": 429}}), "GET", "", Maybe),
        (json!({"limit-req": {"rate": 1, "burst": 0, "key": "remote_addr"}}), "GET", "", Maybe),
        (
            json!({"workflow": {"rules": [{"case": [["uri", "~~", "^/case"]], "actions": [["return", {"code": 410}]]}]}}),
            "GET",
            "",
            Answered(410),
        ),
        (
            json!({"serverless-pre-function": {"functions": ["return function() ngx.exit(418) end"]}}),
            "GET",
            "",
            Maybe,
        ),
        (json!({"public-api": {}}), "GET", "", Answered(404)),
        (json!({"public-api": {"uri": "/apisix/prometheus/metrics"}}), "GET", "", AnsweredSomehow),
        (
            json!({"openid-connect": {"client_id": "c", "client_secret": "s", "bearer_only": true, "discovery": "http://127.0.0.1:1/"}}),
            "GET",
            "",
            Answered(401),
        ),
        (json!({"forward-auth": {"uri": "http://127.0.0.1:1/"}}), "GET", "", Maybe),
        (
            json!({"proxy-rewrite": {"uri": "/x"}, "gzip": {}, "response-rewrite": {"headers": {"set": {"A": "b"}}}}),
            "GET",
            "",
            Reaches,
        ),
        (split([1, 1]), "GET", "", Reaches),
        (split([1, 0]), "GET", "", Reaches),
        (json!({"api-breaker": {"break_response_code": 502}}), "GET", "", Reaches),
        (json!({"client-control": {"max_body_size": 1}}), "POST", "Content-Length: 3", Answered(413)),
    ]
}

#[test]
fn the_gateway_does_as_explain_says() {
    let (own, other) =
        (Upstream::service(|_| (200, BODY.to_owned())), Upstream::service(|_| (200, BODY.to_owned())));
    let config = EMBEDDED;
    let gateway = Gateway::start(config, None);
    let nodes = |upstream: &Upstream| json!({"nodes": {upstream.address.to_string(): 1}});
    put(&gateway, "/upstreams/other", &nodes(&other));
    let plugins =
        json!({"key-auth": {"key": "key-of-anna"}, "basic-auth": {"username": "anna", "password": "pass"}});
    put(&gateway, "/consumers/anna", &json!({"username": "anna", "plugins": plugins}));
    for (number, (plugins, method, field, expected)) in cases().into_iter().enumerate() {
        let path = format!("/case{number}");
        let route = json!({"uri": path, "plugins": plugins, "upstream": nodes(&own)});
        put(&gateway, "/routes/one", &route);
        let (name, value) = field.split_once(": ").unwrap_or_default();
        let mut question = json!({"method": method, "url": format!("http://h{path}"), "headers": {}});
        // A body goes with its length.
        if name == "Content-Length" {
            question["body"] = json!("abc");
        } else if !name.is_empty() {
            question["headers"][name] = json!(value);
        }
        let explanation = explain(&gateway, &question);
        let result = &explanation["result"];
        let told = match (result["outcome"].as_str(), result["answer"]["status"].as_u64()) {
            (Some("upstream"), _) => Reaches,
            (Some("answered"), Some(status)) => Answered(status as u16),
            (Some("answered"), None) => AnsweredSomehow,
            _ => Maybe,
        };
        assert_eq!(told, expected, "{plugins} {method} {field}: {result:#}");
        let line = if field.is_empty() { String::new() } else { format!("{field}\r\n") };
        let body = if name == "Content-Length" { "abc" } else { "" };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: h\r\n{line}\r\n{body}");
        let mut client: Client = gateway.client();
        let answer = client.request(&request).expect("an answer");
        let is_of_upstream = answer.status() == 200 && answer.body_text() == BODY;
        let agrees = match told {
            Reaches => is_of_upstream,
            Answered(status) => !is_of_upstream && answer.status() == status,
            AnsweredSomehow => !is_of_upstream,
            Maybe => true,
        };
        assert!(agrees, "{plugins} {method} {field}: {result:#} and {}", answer.status());
    }
}

#[test]
fn the_first_sure_answer_ends_the_chain() {
    let upstream = Upstream::service(|_| (200, BODY.to_owned()));
    let gateway = Gateway::start(EMBEDDED, None);
    let nodes = json!({"nodes": {upstream.address.to_string(): 1}});
    let abort = json!({"abort": {"http_status": 404, "percentage": 100}});
    put(
        &gateway,
        "/routes/maintenance",
        &json!({"uri": "/a", "upstream": nodes,
        "plugins": {"key-auth": {}, "limit-count": {"count": 2, "time_window": 60}, "fault-injection": abort}}),
    );
    put(
        &gateway,
        "/routes/old",
        &json!({"uri": "/a", "status": 0, "priority": 5, "name": "the old one", "upstream": nodes}),
    );
    let explanation = explain(&gateway, &json!({"url": "http://h/a"}));
    let result = &explanation["result"];
    assert_eq!(
        result["summary"], "Answered here with 404 by fault-injection: its configuration says so",
        "{result:#}"
    );
    assert_eq!(result["upstreams"], json!([]));
    let does: Vec<String> = explanation["phases"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|phase| phase["plugins"].as_array().cloned().unwrap_or_default())
        .map(|plugin| format!("{} {}", plugin["plugin"], plugin["does"]).replace('"', ""))
        .collect();
    assert_eq!(does, ["fault-injection answers", "key-auth not_reached", "limit-count not_reached"]);
    // The disabled route that would have the request is named.
    let disabled =
        explanation["candidates"].as_array().into_iter().flatten().find(|one| one["route"] == "old");
    let disabled = disabled.unwrap_or_else(|| panic!("no candidate old: {explanation:#}"));
    assert_eq!((&disabled["verdict"], &disabled["name"]), (&json!("disabled"), &json!("the old one")));
    assert_eq!(disabled["reason"], "the route is disabled: its status is 0");

    // Nothing is counted by being asked about.
    put(
        &gateway,
        "/routes/maintenance",
        &json!({"uri": "/a", "upstream": nodes,
        "plugins": {"limit-count": {"count": 2, "time_window": 60, "rejected_code": 429}}}),
    );
    for _ in 0..5 {
        let result = &explain(&gateway, &json!({"url": "http://h/a"}))["result"];
        let summary = format!(
            "May be answered by limit-count (429); otherwise it reaches routes/maintenance, node {}",
            upstream.address
        );
        assert_eq!(result["summary"], summary.as_str());
    }
    assert_eq!(
        gateway.client().get("h", "/a").expect("an answer").header("X-RateLimit-Remaining"),
        Some("1")
    );
}

#[test]
fn shares_of_upstreams_and_changed_statuses_are_told() {
    let upstream = Upstream::service(|_| (200, BODY.to_owned()));
    let gateway = Gateway::start(EMBEDDED, None);
    let nodes = json!({"nodes": {upstream.address.to_string(): 1}});
    put(&gateway, "/upstreams/canary", &nodes);
    let rules = json!([{"weighted_upstreams": [{"upstream_id": "canary", "weight": 1}, {"weight": 3}]}]);
    put(
        &gateway,
        "/routes/shop",
        &json!({"uri": "/shop", "upstream": nodes, "plugins": {"traffic-split": {"rules": rules}, "key-auth": {}}}),
    );
    put(
        &gateway,
        "/consumers/anna",
        &json!({"username": "anna", "plugins": {"key-auth": {"key": "key-of-anna"}}}),
    );
    let without = explain(&gateway, &json!({"url": "http://h/shop"}));
    assert_eq!(
        without["result"]["summary"],
        "Answered here with 401 by key-auth: \"Missing API key in request\""
    );
    for question in [
        json!({"url": "http://h/shop", "headers": {"apikey": "key-of-anna"}}),
        json!({"url": "http://h/shop", "consumer": "anna"}),
    ] {
        let explanation = explain(&gateway, &question);
        let shares: Vec<(&str, f64)> = explanation["result"]["upstreams"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                (one["upstream"].as_str().unwrap_or_default(), one["percent"].as_f64().unwrap_or_default())
            })
            .collect();
        assert_eq!(shares, [("upstreams/canary", 25.0), ("routes/shop", 75.0)], "{explanation:#}");
        assert_eq!(explanation["route"]["node"], Value::Null);
    }
    let plugins = json!({"mocking": {"response_status": 404, "response_example": "{}"}, "response-rewrite": {"status_code": 200}});
    put(&gateway, "/routes/mocked", &json!({"uri": "/mocked", "plugins": plugins}));
    let result = explain(&gateway, &json!({"url": "http://h/mocked"}))["result"].clone();
    assert_eq!(result["status_changed_by"], json!(["response-rewrite"]), "{result:#}");
    assert_eq!(gateway.client().get("h", "/mocked").expect("an answer").status(), 200);
}

/// What is amiss beyond the plugins: no nodes, an open breaker, another message, no certificate.
#[test]
fn what_surely_fails_is_not_called_reached() {
    let upstream = Upstream::service(|_| (500, BODY.to_owned()));
    let gateway = Gateway::start(EMBEDDED, None);
    let nodes = json!({"nodes": {upstream.address.to_string(): 1}});
    let asked = |url: &str| explain(&gateway, &json!({"url": url}));
    let status = |path: &str| gateway.client().get("h", path).expect("an answer").status();

    let split = json!({"rules": [{"weighted_upstreams": [{"upstream": {"nodes": {}}, "weight": 1}]}]});
    put(&gateway, "/routes/a", &json!({"uri": "/a", "upstream": {"nodes": {}}}));
    put(&gateway, "/routes/b", &json!({"uri": "/b", "upstream": nodes, "plugins": {"traffic-split": split}}));
    for path in ["/a", "/b"] {
        let told = asked(&format!("http://h{path}"))["result"].clone();
        assert_eq!(
            (told["outcome"].as_str(), told["answer"]["status"].as_u64()),
            (Some("answered"), Some(503)),
            "{told:#}"
        );
        assert_eq!(told["answer"]["cause"]["code"], "no_nodes");
        assert_eq!(status(path), 503);
    }

    let breaker = json!({"api-breaker": {"break_response_code": 599, "unhealthy": {"http_statuses": [500], "failures": 1}}});
    put(&gateway, "/routes/c", &json!({"uri": "/c", "upstream": nodes, "plugins": breaker}));
    assert_eq!(asked("http://h/c")["result"]["outcome"], "upstream");
    assert_eq!((status("/c"), status("/c")), (500, 599));
    assert_eq!(asked("http://h/c")["result"]["outcome"], "may_be_answered");

    let denial = json!({"ip-restriction": {"blacklist": ["127.0.0.1"], "_meta": {"error_response": {"message": "not today"}}}});
    put(&gateway, "/routes/d", &json!({"uri": "/d", "upstream": nodes, "plugins": denial}));
    assert_eq!(asked("http://h/d")["result"]["answer"]["reason"], "\"not today\"");

    let notes = asked("https://h/a")["notes"].to_string();
    assert!(notes.contains("no certificate matches h: the TLS handshake fails"), "{notes}");
    assert!(!asked("https://127.0.0.1/a")["notes"].to_string().contains("certificate"), "no name");
}
