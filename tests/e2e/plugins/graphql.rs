//! Plugins for GraphQL: what they make of requests, and what they keep of answers.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

fn gateway(upstream: &Upstream, plugins: &Value) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes = json!({"routes": [{"id": "1", "uri": "/*", "plugins": plugins, "upstream": target}]});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

fn send(gateway: &Gateway, method: &str, target: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let text =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    let mut client = gateway.client();
    client.send(text.as_bytes()).expect("sends");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

const QUERY: &str =
    "query Q($name: String!, $list: [Int]) { persons(name: $name, list: $list) { id } } query R { r }";

#[test]
fn degraphql_asks_for_the_client() {
    let upstream = Upstream::start();
    let conf = json!({"query": QUERY, "operation_name": "Q", "variables": ["name", "list"], "max_req_body_size": 100});
    let gateway = gateway(&upstream, &json!({"degraphql": conf, "proxy-rewrite": {"uri": "/graphql"}}));
    let body = r#"{"name":"Niek","other":1,"list":[1,2]}"#;
    assert_eq!(send(&gateway, "POST", "/x?a=1", "Content-Type: text/plain\r\n", body).status(), 200);
    let seen = upstream.take().remove(0).message;
    let question: Value = serde_json::from_str(&seen.body_text()).expect("JSON");
    assert_eq!(
        question,
        json!({"operationName": "Q", "query": QUERY, "variables": {"name": "Niek", "list": [1, 2]}})
    );
    assert_eq!((seen.target(), seen.header("Content-Type")), ("/graphql?a=1", Some("application/json")));

    assert_eq!(send(&gateway, "GET", "/x?name=Ni%20ek&list=1&list=2&a=1", "", "").status(), 200);
    let seen = upstream.take().remove(0).message;
    let target = seen.target();
    assert!(target.starts_with("/graphql?operationName=Q&query=query%20Q%28%24name"), "{target}");
    let variables = "&variables=%7B%22list%22%3A%5B%221%22%2C%222%22%5D%2C%22name%22%3A%22Ni%20ek%22%7D";
    assert!(target.ends_with(variables), "{target}");

    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(100));
    for (method, fields, body, status) in [
        ("POST", "", "", 400),
        ("POST", "", "\"AA\"", 400),
        ("POST", "", "{", 400),
        ("POST", "Content-Encoding: gzip\r\n", body, 400),
        ("POST", "", long.as_str(), 503),
        ("PUT", "", body, 405),
        ("HEAD", "", "", 405),
    ] {
        assert_eq!(send(&gateway, method, "/x", fields, body).status(), status, "{method} {fields}{body}");
    }
    assert!(upstream.take().is_empty());
}

#[test]
fn degraphql_without_variables() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, &json!({"degraphql": {"query": "{ persons { id } }"}}));
    let coded = "Content-Encoding: gzip\r\nContent-Type: a/b\r\n";
    assert_eq!(send(&gateway, "POST", "/x", coded, "anything").status(), 200);
    assert_eq!(send(&gateway, "POST", "/x", "", "").status(), 200);
    assert_eq!(send(&gateway, "GET", "/x?a=1", "", "").status(), 200);
    let seen = upstream.take();
    for request in &seen[..2] {
        assert_eq!(request.message.body_text(), r#"{"query":"{ persons { id } }"}"#);
        assert_eq!(request.message.header("Content-Encoding"), None);
    }
    assert_eq!(seen[2].message.target(), "/x?query=%7B%20persons%20%7B%20id%20%7D%20%7D");
}

const JSON: &str = "Content-Type: application/json\r\n";

fn query(text: &str) -> String {
    json!({ "query": text }).to_string()
}

#[test]
fn limits_by_depth() {
    let upstream = Upstream::start();
    let limit = json!({"count": 20, "time_window": 60, "rejected_code": 429, "rejected_msg": "too much", "max_cost": 4});
    let gateway = gateway(&upstream, &json!({"graphql-limit-count": limit}));
    let cost = |body: &str| {
        let answer = send(&gateway, "POST", "/", JSON, body);
        (
            answer.status(),
            answer.header("X-Graphql-Query-Cost").map(str::to_owned),
            answer.header("X-RateLimit-Remaining").map(str::to_owned),
        )
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(cost(&query("{ a { b { c { d } } } }")), (200, text("4"), text("16")));
    assert_eq!(cost(&query("{ a { ...F } } fragment F on T { b }")), (200, text("2"), text("14")));
    assert_eq!(
        cost(&query("{ a { b { c { d { e } } } } }")),
        (403, text("5"), text("9")),
        "charged, and refused"
    );
    assert_eq!(cost(&query("{ a }")), (200, text("1"), text("8")));
    let graphql = "Content-Type: application/graphql\r\n";
    let shorthand = send(&gateway, "POST", "/", graphql, "{ persons { id name } }");
    assert_eq!(shorthand.header("X-RateLimit-Remaining"), Some("6"));
    assert_eq!(cost(&query("{ a { b { c { d } } } }")), (200, text("4"), text("2")));
    assert_eq!(cost(&query("{ a { b } }")), (200, text("2"), text("0")));
    let refused = send(&gateway, "POST", "/", JSON, &query("{ a { b } }"));
    assert_eq!((refused.status(), refused.body_text().as_str()), (429, "{\"error_msg\":\"too much\"}\n"));
    for (method, target, fields, body, status, words) in [
        ("GET", "/?query=%7Ba%7D", "", "", 405, ""),
        ("POST", "/", "", "", 400, "can't get graphql request body"),
        ("POST", "/", "", "{}", 400, "invalid graphql request, error content-type"),
        ("POST", "/", JSON, "{\"query\": \"{a}\",}", 400, "Expected object key string"),
        ("POST", "/", JSON, "{}", 400, "json body[query] is nil"),
        ("POST", "/", JSON, "{\"query\": \"\"}", 400, "empty graphql query"),
        ("POST", "/", JSON, "{\"query\": \"{a(b)}\"}", 400, "failed to parse graphql query"),
        ("POST", "/", JSON, "{\"query\": \"{...A} fragment A on T {...A}\"}", 400, "must not form cycles"),
        ("POST", "/", JSON, "{\"query\": \"{a}\", \"query\": \"{a{b}}\"}", 400, "invalid graphql request"),
        ("POST", "/?query=x", JSON, "{\"query\": \"{a}\"}", 400, "beside a body"),
        ("POST", "/", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", "x", 415, ""),
    ] {
        let answer = send(&gateway, method, target, fields, body);
        assert_eq!(answer.status(), status, "{method} {target} {body}");
        assert!(answer.body_text().contains(words), "{body}: {}", answer.body_text());
    }
}

/// A shop with a schema.
fn shop() -> Upstream {
    let field = |name: &str, of: &str| json!({"name": name, "args": [], "type": {"name": of}});
    let list = |name: &str, of: &str| {
        let args = json!([{"name": "first", "defaultValue": "20"}]);
        json!({"name": name, "args": args, "type": {"name": null, "ofType": {"name": of}}})
    };
    let schema = json!({"data": {"__schema": {"queryType": {"name": "Query"}, "types": [
        {"name": "Query", "fields": [list("products", "PC"), list("top", "PC")]},
        {"name": "PC", "fields": [field("nodes", "Product")]},
        {"name": "Product", "fields": [field("name", "String"), list("reviews", "RC")]},
        {"name": "RC", "fields": [field("nodes", "Review")]},
        {"name": "Review", "fields": [field("body", "String")]},
    ]}}})
    .to_string();
    Upstream::service(move |request| {
        let asks = request.body_text().contains("__schema");
        match (asks, request.target()) {
            (true, "/broken") => (500, String::new()),
            (true, _) => (200, schema.clone()),
            _ => (200, "{}".to_owned()),
        }
    })
}

#[test]
fn limits_by_decorations() {
    let upstream = shop();
    let gateway = Gateway::start(tidegate_testkit::gateway::EMBEDDED, None);
    let put = |path: &str, value: Value| {
        let (status, body) =
            gateway.admin("PUT", &format!("/apisix/admin/{path}?wait=applied"), &value.to_string());
        assert!(matches!(status, 200 | 201), "{path}: {body}");
    };
    let service = |more: Value| {
        let mut limit = json!({"count": 100_000, "time_window": 60, "cost_strategy": "node_quantifier"});
        limit.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
        json!({"upstream": node, "plugins": {"graphql-limit-count": limit}})
    };
    put("services/shop", service(json!({"introspection_headers": {"X-Key": "k"}})));
    for (id, path) in [("1", "Query.products"), ("2", "Product.reviews")] {
        put(
            &format!("services/shop/graphql_cost_decorations/{id}"),
            json!({"field_path": path, "mul_arguments": ["first"]}),
        );
    }
    put("routes/1", json!({"service_id": "shop", "uris": ["/graphql", "/broken"]}));
    let cost_at = |target: &str, body: &Value| {
        let answer = send(&gateway, "POST", target, JSON, &body.to_string());
        (answer.status(), answer.header("X-Graphql-Query-Cost").unwrap_or_default().to_owned())
    };
    let cost = |text: &str| cost_at("/graphql", &json!({"query": text}));
    let text = "{ products(first: 50) { nodes { name reviews(first: 20) { nodes { body } } } } }";
    assert_eq!(cost(text), (200, "52".to_owned()));
    assert_eq!(cost("{ products { nodes { name } } }"), (200, "2".to_owned()));
    let variable = json!({"query": "query($n: Int) { products(first: $n) { nodes { reviews(first: 1) { nodes { body } } } } }", "variables": {"n": 9}});
    assert_eq!(cost_at("/graphql", &variable), (200, "11".to_owned()));
    let asked: Vec<_> =
        upstream.take().into_iter().filter(|request| request.text().contains("__schema")).collect();
    assert_eq!(asked.len(), 1, "the schema is asked for once");
    assert_eq!(asked[0].message.header("X-Key"), Some("k"));
    assert_eq!((asked[0].message.header("Host"), asked[0].message.target()), (Some("h"), "/graphql"));

    put(
        "services/shop/graphql_cost_decorations/1",
        json!({"field_path": "Query.products", "mul_arguments": ["first"], "add_value": 5}),
    );
    assert_eq!(cost("{ products(first: 4) { nodes { name } } }"), (200, "6".to_owned()));
    put(
        "services/shop",
        service(
            json!({"cost_strategy": "complexity", "score_factor": 0.5, "max_cost": 100, "resolve_variables": false}),
        ),
    );
    assert_eq!(cost("{ top { nodes { name } } }"), (200, "3".to_owned()));
    assert_eq!(cost_at("/graphql", &variable).1, "6");
    let refused =
        send(&gateway, "POST", "/graphql", JSON, &query("{ products(first: 500) { nodes { name } } }"));
    assert_eq!(refused.status(), 403);
    assert!(refused.body_text().contains("query cost 504 exceeds max_cost 100"), "{}", refused.body_text());

    put("services/shop", service(json!({})));
    let broken = send(&gateway, "POST", "/broken", JSON, &query("{ products { nodes { name } } }"));
    assert_eq!(broken.status(), 400);
    assert!(
        broken.body_text().contains("failed to introspect the upstream graphql schema"),
        "{}",
        broken.body_text()
    );
    let endpoint = format!("http://{}/elsewhere", upstream.address);
    put("services/shop", service(json!({"introspection_endpoint": endpoint})));
    assert_eq!(cost_at("/broken", &json!({"query": text})), (200, "56".to_owned()));
    // Without its service a route has no decorations.
    put(
        "routes/2",
        json!({"uri": "/alone", "plugins": service(json!({}))["plugins"], "upstream": service(json!({}))["upstream"]}),
    );
    assert_eq!(cost_at("/alone", &json!({"query": text})), (200, "1".to_owned()));
}

/// Answers differ from request to request.
fn counting() -> Upstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    Upstream::service(move |_| (200, count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string()))
}

#[test]
fn answers_are_kept_by_what_was_asked() {
    for strategy in ["memory", "disk"] {
        let upstream = counting();
        let folder = tempfile::tempdir().expect("a folder");
        let zones = json!({"cache_ttl": "10s", "zones": [
            {"name": "memory", "memory_size": "10m"},
            {"name": "disk", "memory_size": "10m", "disk_size": "10m", "disk_path": folder.path(), "cache_levels": "1:2"},
        ]});
        let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n  proxy_cache: {zones}\n"));
        let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
        let cache = json!({"graphql-proxy-cache": {"cache_zone": strategy, "cache_strategy": strategy}});
        let routes = json!({"routes": [
            {"id": "1", "uri": "/graphql", "plugins": cache, "upstream": node},
            {"id": "2", "uri": "/other*", "plugins": cache, "upstream": node},
            {"id": "3", "uri": "/apisix/plugin/graphql-proxy-cache/*", "plugins": {"public-api": {}}},
        ]});
        let gateway = Gateway::start(&config, Some(&routes.to_string()));
        let state = |method: &str, target: &str, body: &str| {
            let answer = send(&gateway, method, target, JSON, body);
            let status = answer.header("Apisix-Cache-Status").unwrap_or_default().to_owned();
            (status, answer.body_text(), answer.header("APISIX-Cache-Key").unwrap_or_default().to_owned())
        };
        let (first, one, key) = state("POST", "/graphql", &query("{ a }"));
        assert_eq!((first.as_str(), key.len()), ("MISS", 32), "{strategy}");
        let again = || state("POST", "/graphql", &query("{ a }"));
        assert_eq!(again(), ("HIT".to_owned(), one.clone(), key.clone()), "{strategy}");
        assert_eq!(state("POST", "/other", &query("{ a }")).0, "MISS", "another route");
        assert_eq!(state("POST", "/other/tenant", &query("{ a }")).0, "MISS", "another path");
        assert_eq!(state("POST", "/other?tenant=b", &query("{ a }")).0, "MISS", "other arguments");
        assert_eq!(state("POST", "/graphql", &query("{ b }")).0, "MISS", "another query");
        let variables = json!({"query": "{ a }", "variables": {"x": 1}}).to_string();
        assert_eq!(state("POST", "/graphql", &variables).0, "MISS", "other variables");
        for text in ["mutation { a }", "query A { a } mutation B { b }", "subscription { a }"] {
            for _ in 0..2 {
                assert_eq!(state("POST", "/graphql", &query(text)).0, "BYPASS", "{strategy} {text}");
            }
        }
        assert_eq!(state("GET", "/graphql?query=%7Ba%7D", "").0, "MISS");
        assert_eq!(state("GET", "/graphql?query=%7Ba%7D", "").0, "HIT");
        assert_eq!(send(&gateway, "HEAD", "/graphql?query=%7Ba%7D", "", "").status(), 405);

        let purge = |path: &str| {
            send(&gateway, "PURGE", &format!("/apisix/plugin/graphql-proxy-cache/{path}"), "", "").status()
        };
        let other = if strategy == "disk" { "memory" } else { "disk" };
        for (path, status) in [
            (format!("{strategy}/x/{key}"), 404),
            (format!("{strategy}/1/abc"), 404),
            (format!("{other}/1/{key}"), 400),
            (format!("invalid/1/{key}"), 400),
            (format!("{strategy}/1"), 404),
            (format!("{strategy}/1/{key}"), 200),
            (format!("{strategy}/1/{key}"), 404),
        ] {
            assert_eq!(purge(&path), status, "{path}");
        }
        let (status, two, _) = again();
        assert_eq!(status, "MISS", "{strategy}");
        assert_ne!(one, two, "{strategy}");
    }
}
