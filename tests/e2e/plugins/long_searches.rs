//! Large patterns on long texts: a request uses little of a worker and is refused, wherever the pattern stands.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, Upstream, usage};

use crate::config::closed::put;

/// Each held a worker for seconds on some thousand characters.
const LARGE: [&str; 3] = ["(x{1,100}){1,100}y", r"(?i)(?:\w{1,80} ?){80}y", "(x{1,100}){1,100}(?=y)"];

/// Patterns have 16 ms of a request; the rest is for the request, and for what is slower without optimisation.
const MOST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 200 } else { 50 });

/// The same for a schema and a body of 30 KB: it was 100 ms more.
const SCHEMAS: Duration = Duration::from_millis(if cfg!(debug_assertions) { 80 } else { 40 });

fn route(gateway: &Gateway, upstream: &Upstream, plugins: &Value, vars: &Value) {
    let node = json!({"nodes": {upstream.address.to_string(): 1}});
    let mut route = json!({"uri": "/p*", "plugins": plugins, "upstream": node});
    if !vars.is_null() {
        route["vars"] = vars.clone();
    }
    put(gateway, "routes/p", &route.to_string());
}

fn quiet(gateway: &Gateway, upstream: &Upstream) {
    let node = json!({"nodes": {upstream.address.to_string(): 1}});
    put(gateway, "routes/quiet", &json!({"uri": "/quiet", "upstream": node}).to_string());
}

/// The status, and what the request took.
fn ask(gateway: &Gateway, target: &str, fields: &str) -> (u16, Duration) {
    let before = usage::processor_time(gateway);
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
    let answer = gateway.client().request(&request).unwrap_or_else(|error| panic!("{error}"));
    (answer.status(), usage::processor_time(gateway).saturating_sub(before))
}

fn assert_refused(gateway: &Gateway, what: &str, target: &str, fields: &str, status: u16) {
    let mut least = Duration::MAX;
    for _ in 0..4 {
        let (answer, took) = ask(gateway, target, fields);
        assert_eq!(answer, status, "{what}: {}", gateway.error_log());
        least = least.min(took);
    }
    // The others may have shared the machine with something else, or prepared what the next ones use.
    assert!(least < MOST, "{what} takes {least:?}");
    assert_eq!(ask(gateway, "/quiet", "").0, 200, "{what}");
}

#[test]
fn a_large_pattern_does_not_hold_a_worker() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    quiet(&gateway, &upstream);
    let long = "x".repeat(15_000);
    for pattern in LARGE {
        let abort = json!({"http_status": 418, "vars": [[["arg_a", "~~", pattern]]]});
        let case = json!([{"case": [["arg_a", "~~", pattern]], "actions": [["return", {"code": 403}]]}]);
        let places = [
            (json!({"uri-blocker": {"block_rules": [pattern]}}), 403),
            (json!({"ua-restriction": {"denylist": [pattern]}}), 403),
            (json!({"ua-restriction": {"allowlist": [pattern]}}), 403),
            (json!({"proxy-rewrite": {"regex_uri": [format!("^/p{pattern}"), "/$1"]}}), 500),
            (json!({"redirect": {"regex_uri": [format!("^/p{pattern}"), "/$1"]}}), 500),
            (json!({"cors": {"allow_origins_by_regex": [pattern]}}), 500),
            (json!({"fault-injection": {"abort": abort}}), 500),
            (json!({"workflow": {"rules": case}}), 500),
        ];
        let half = "x".repeat(12_000);
        let fields = format!("User-Agent: {half}\r\nOrigin: {half}\r\n");
        for (plugins, status) in places {
            route(&gateway, &upstream, &plugins, &Value::Null);
            let has = |name: &str| plugins.get(name).is_some();
            let (target, fields) = if has("ua-restriction") || has("cors") {
                ("/p".to_owned(), fields.as_str())
            } else if has("proxy-rewrite") || has("redirect") {
                (format!("/p{long}"), "")
            } else {
                (format!("/p?a={long}"), "")
            };
            assert_refused(&gateway, &plugins.to_string(), &target, fields, status);
            // What nobody made so long is served.
            let (answer, _) = ask(&gateway, "/p?a=xxx", "User-Agent: xxxy\r\nOrigin: xxx\r\n");
            let is_found = pattern != LARGE[1];
            let is_denied = match &plugins["ua-restriction"] {
                lists if lists.get("denylist").is_some() => is_found,
                lists => lists.get("allowlist").is_some() && !is_found,
            };
            assert_eq!(answer, if is_denied { 403 } else { 200 }, "{plugins}");
        }
        route(&gateway, &upstream, &json!({}), &json!([["arg_a", "~~", pattern]]));
        assert_refused(&gateway, &format!("vars {pattern}"), &format!("/p?a={long}"), "", 500);
    }
    let log = gateway.error_log();
    assert!(!log.contains("is stuck"), "{log}");
    assert!(log.contains("took more than 16 ms") && log.contains(LARGE[0]), "{log}");
}

#[test]
fn many_rules_take_no_longer_together() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    quiet(&gateway, &upstream);
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let rules = |pattern: &dyn Fn(u32) -> String| -> Vec<Value> {
        let rule = |number| {
            let vars = json!([["arg_a", "~~", pattern(number)]]);
            json!({"match": [{"vars": vars}], "weighted_upstreams": [{"upstream": node, "weight": 1}]})
        };
        (0..2000).map(rule).collect()
    };
    let split = |pattern: &dyn Fn(u32) -> String| {
        route(&gateway, &upstream, &json!({"traffic-split": {"rules": rules(pattern)}}), &Value::Null);
        // So many patterns take a while to compile.
        let begun = std::time::Instant::now();
        while ask(&gateway, "/p", "").0 == 404 {
            assert!(begun.elapsed() < tidegate_testkit::PATIENCE, "the route does not come");
        }
    };
    let mut random = 7_u32;
    let mut letter = || {
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        if random & 64 == 0 { 'a' } else { 'x' }
    };
    let mixed: String = (0..12_000).map(|_| letter()).chain("a0123456789".chars()).collect();
    // One search takes about a millisecond.
    split(&|number| format!("a[ax]{{40}}[^{}]*z{number}", number % 10));
    assert_refused(&gateway, "slow rules", &format!("/p?a={mixed}"), "", 500);
    // The patterns ask little; with all 2,000 it is over soon, or refused.
    split(&|number| format!("(a+)+{number}$"));
    let target = format!("/p?a={}", "a".repeat(15_000));
    let least = (0..6).map(|_| ask(&gateway, &target, "").1).min().unwrap_or_default();
    assert!(least < MOST, "{least:?}");
    assert_eq!(ask(&gateway, "/p?a=short", "").0, 200, "{}", gateway.error_log());
    assert!(!gateway.error_log().contains("is stuck"), "{}", gateway.error_log());
}

/// Bodies are searched too: of clients by schemas, of upstreams by filters.
#[test]
fn bodies_are_searched_within_bounds() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::service(|_| (200, "x".repeat(300_000)));
    quiet(&gateway, &upstream);
    let long = "x".repeat(200_000);
    let schema = json!({"items": {"type": "string", "pattern": LARGE[0]}});
    let validation = json!({"request-validation": {"body_schema": schema, "rejected_code": 422}});
    route(&gateway, &upstream, &validation, &Value::Null);
    let many = json!(vec!["x".repeat(60); 2000]).to_string();
    for body in [json!([long]).to_string(), many] {
        let head = format!(
            "POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let before = usage::processor_time(&gateway);
        let answer = gateway.client().request(&format!("{head}{body}")).expect("an answer");
        let took = usage::processor_time(&gateway).saturating_sub(before);
        assert_eq!(answer.status(), 422, "{}", gateway.error_log());
        assert!(took < 5 * MOST, "a schema takes {took:?}");
    }
    let filters = json!([{"regex": LARGE[0], "scope": "global", "replace": "z"}]);
    route(&gateway, &upstream, &json!({"response-rewrite": {"filters": filters}}), &Value::Null);
    // Two seconds, of a thread for long work.
    let (status, took) = ask(&gateway, "/p", "");
    assert_eq!(status, 502, "{}", gateway.error_log());
    assert!(took < Duration::from_secs(4), "a filter takes {took:?}");
    assert_eq!(ask(&gateway, "/quiet", "").0, 200);
    assert!(!gateway.error_log().contains("is stuck"), "{}", gateway.error_log());
}

/// Wherever it stands in a schema, and together with all other patterns of the request.
#[test]
fn patterns_of_schemas_have_the_time_of_the_request() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    quiet(&gateway, &upstream);
    let within = |rule: Value| json!({"properties": {"a": rule}});
    let pattern = json!({"pattern": LARGE[0]});
    let condition = json!({"if": within(pattern.clone()), "then": {"required": ["b"]}});
    let bodies = [
        within(pattern.clone()),
        json!({"patternProperties": {LARGE[0]: {"type": "object"}}}),
        json!({"not": within(pattern.clone())}),
        json!({"anyOf": [within(pattern.clone()), within(json!({"pattern": LARGE[2]}))]}),
        condition,
    ];
    let long = "x".repeat(15_000);
    let body = json!({"a": long, &long: 1}).to_string();
    let request = format!(
        "POST /p?a={long} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-A: {long}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let check = |what: &str, conf: &Value, vars: &Value, status: u16| {
        route(&gateway, &upstream, &json!({"request-validation": conf}), vars);
        let mut least = Duration::MAX;
        for _ in 0..4 {
            let before = usage::processor_time(&gateway);
            let answer = gateway.client().request(&request).expect("an answer");
            assert_eq!(answer.status(), status, "{what}: {}", gateway.error_log());
            least = least.min(usage::processor_time(&gateway).saturating_sub(before));
        }
        println!("{what}: {least:?}");
        assert!(least < SCHEMAS, "{what} takes {least:?}");
    };
    for schema in &bodies {
        check(&schema.to_string(), &json!({"body_schema": schema, "rejected_code": 422}), &Value::Null, 422);
    }
    // What came before has taken its part.
    let headers = json!({"properties": {"x-a": {"not": pattern}}});
    let both =
        json!({"header_schema": headers, "body_schema": within(pattern.clone()), "rejected_code": 422});
    check("headers and body", &both, &Value::Null, 422);
    let vars = json!([["arg_a", "!", "~~", "(x{1,60}){1,60}y"]]);
    check("vars and body", &json!({"body_schema": within(pattern), "rejected_code": 422}), &vars, 500);
}

/// Whoever writes one: of what is too large for any use, that it is that and not wrong; of what will meet its limit, that too.
#[test]
fn large_patterns_are_told_of_at_the_write() {
    let gateway = Gateway::start(EMBEDDED, None);
    let write = |place: usize, pattern: &str| {
        let blocker = json!({"uri-blocker": {"block_rules": [pattern]}});
        let schema =
            json!({"request-validation": {"body_schema": {"properties": {"a": {"pattern": pattern}}}}});
        let (vars, plugins) = match place {
            0 => (json!([]), blocker),
            1 => (json!([["arg_a", "~~", pattern]]), json!({})),
            _ => (json!([]), schema),
        };
        let upstream = json!({"nodes": {"127.0.0.1:1": 1}});
        let mut route = json!({"uri": "/p", "plugins": plugins, "upstream": upstream});
        if place == 1 {
            route["vars"] = vars;
        }
        let body = route.to_string();
        let mut client = Client::connect(gateway.admin).expect("the admin port");
        let head = format!(
            "PUT /apisix/admin/routes/1 HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.request(&format!("{head}{body}")).expect("an answer")
    };
    for place in 0..3 {
        for pattern in ["(x{1,900}){1,900}", "(?:(x{1,900}) ?){1,900}y", "(?!z)(x{1,900}){1,900}"] {
            let refused = write(place, pattern);
            let text = refused.body_text();
            assert_eq!(refused.status(), 400, "{place} {pattern}: {text}");
            assert!(
                text.contains("too large") && text.contains("smaller counts"),
                "{place} {pattern}: {text}"
            );
        }
        let large = write(place, LARGE[0]);
        assert!(large.status() < 300, "{place}: {}", large.body_text());
        let warning = large.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(warning.contains(LARGE[0]) && warning.contains("states"), "{place}: {warning}");
        assert_eq!(write(place, "^/[a-z]{1,63}$").header("X-Tidegate-Warning"), None, "{place}");
        assert_eq!(write(place, "(").status(), 400, "{place}");
    }
    gateway.wait_for_log("smaller counts in {m,n} make it smaller");
}

/// Whoever cannot tell whether an answer is to be rewritten keeps it.
#[test]
fn an_answer_whose_condition_takes_too_long_is_not_sent() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    quiet(&gateway, &upstream);
    let conf = json!({"vars": [["arg_a", "!", "~~", LARGE[0]]], "headers": {"remove": ["X-Secret"]}});
    route(&gateway, &upstream, &json!({"response-rewrite": conf}), &Value::Null);
    assert_eq!(ask(&gateway, "/p?a=short", "").0, 200);
    assert_eq!(ask(&gateway, &format!("/p?a={}", "x".repeat(15_000)), "").0, 502);
}
