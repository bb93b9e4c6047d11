//! What a body may cost: the time of checks and readers over it stays in proportion to its size, whatever is in it.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

/// Time on a processor of all threads so far.
pub(crate) fn cpu(gateway: &Gateway) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.process.id())).expect("its threads");
    let ran = tasks.filter_map(|task| {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(ran.sum())
}

fn post(gateway: &Gateway, uri: &str, content_type: &str, body: &[u8]) -> (u16, String, Duration) {
    let before = cpu(gateway);
    let mut client = gateway.client();
    let head = format!(
        "POST {uri} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).expect("sends the head");
    client.send(body).expect("sends the body");
    let answer = client.response().expect("an answer");
    (answer.status(), answer.body_text(), cpu(gateway) - before)
}

fn validation(schema: &Value) -> Gateway {
    let mocking = json!({"response_status": 200, "response_example": "passed", "with_mock_header": false});
    let plugins =
        json!({"mocking": mocking, "request-validation": {"body_schema": schema, "rejected_code": 422}});
    let routes = json!({"routes": [{"id": "1", "uri": "/*", "plugins": plugins}]});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

/// Builds with debug assertions are some twenty times slower: pairs would take minutes here, and ten seconds in a release.
const LINEAR: Duration = Duration::from_secs(2);

#[test]
fn unique_items_are_found_in_linear_time() {
    let gateway = validation(&json!({"type": "array", "uniqueItems": true}));
    let numbers = |count: u32| (0..count).map(Value::from).collect::<Vec<_>>();
    let objects = |count: u32| (0..count).map(|id| json!({"id": id, "of": [id]})).collect::<Vec<_>>();
    let with = |mut items: Vec<Value>, one: Value| {
        items.push(one);
        items
    };
    let doubled = |first: u32, second: u32| {
        (422, format!("expected unique items but items {first} and {second} are equal"))
    };
    for (what, items, expected) in [
        ("60,000 numbers", numbers(60_000), (200, "passed".to_owned())),
        ("20,000 objects", objects(20_000), (200, "passed".to_owned())),
        ("1 and 1.0", with(numbers(60_000), json!(7.0)), doubled(8, 60_001)),
        ("another order", with(objects(20_000), json!({"of": [3.0], "id": 3})), doubled(4, 20_001)),
        ("all equal", vec![json!({"a": [1, 2]}); 20_000], doubled(1, 2)),
    ] {
        let body = Value::Array(items).to_string();
        let (status, answer, took) = post(&gateway, "/", "application/json", body.as_bytes());
        println!("uniqueItems, {what}: {took:?}");
        assert_eq!((status, answer), expected, "{what}");
        assert!(took < LINEAR, "{what} takes {took:?}");
    }
}

/// Schemas with which a small body makes exponential or quadratic work.
#[test]
fn a_check_ends_when_its_steps_are_spent() {
    let references = json!({"$ref": "#/definitions/0", "definitions": (0..25).map(|level| {
        let next = json!({"$ref": format!("#/definitions/{}", (level + 1).min(24))});
        let rule = if level == 24 { json!({"type": "object"}) } else { json!({"anyOf": [next.clone(), next]}) };
        (level.to_string(), rule)
    }).collect::<serde_json::Map<_, _>>()});
    let slow = json!({"items": {"pattern": "^(?:(a+)\\1+(a+)\\2+b|a)"}});
    let filled = json!({"items": {"properties": {"a": {"default": vec!["x".repeat(64); 100]}}}});
    let texts = Value::from(vec!["a".repeat(100); 500]);
    let spent = "schema takes more than 2000000 steps to check";
    for (what, schema, body, why) in [
        ("references", references, json!([1]), spent),
        ("patterns", slow, texts, "a pattern takes too long to match"),
        ("defaults", filled, Value::from(vec![json!({}); 20_000]), spent),
    ] {
        let gateway = validation(&schema);
        let (status, answer, took) = post(&gateway, "/", "application/json", body.to_string().as_bytes());
        println!("{what}: {took:?}");
        assert_eq!(status, 422, "{what}: {answer}");
        assert!(answer.contains(why), "{what}: {answer}");
        gateway.wait_for_log(why);
        assert!(took < Duration::from_secs(5), "{what} takes {took:?}");
    }
}

/// Reading a field takes one pass over the body, whatever its format, and so does making a document of it.
#[test]
fn bodies_of_many_parts_are_read_in_linear_time() {
    let plugins = |name: &str, conf: Value| json!({name: conf, "mocking": {"response_status": 200, "response_example": "x", "with_mock_header": false}});
    let template = |format: &str| json!({"request": {"input_format": format, "template": "x"}});
    let routes = json!({"routes": [
        {"id": "field", "uri": "/field", "vars": [["post_arg.a", "==", "1"]], "plugins": {"key-auth": {}}},
        {"id": "form", "uri": "/form", "vars": [["post_arg_a", "==", "1"]], "plugins": {"key-auth": {}}},
        {"id": "multipart", "uri": "/multipart", "plugins": plugins("body-transformer", template("multipart"))},
        {"id": "encoded", "uri": "/encoded", "plugins": plugins("body-transformer", template("encoded"))},
        {"id": "xml", "uri": "/xml", "plugins": plugins("body-transformer", template("xml"))},
        {"id": "valid", "uri": "/valid",
         "plugins": plugins("request-validation", json!({"body_schema": {"type": "object"}}))},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let (form, multipart) = ("application/x-www-form-urlencoded", "multipart/form-data; boundary=b");
    let fields = (0..500_000).map(|at| format!("{at:x}&")).collect::<String>();
    let names = |count: u32| (0..count).map(|at| format!("<a{at:x}/>")).collect::<String>();
    let xml = |inside: &str| format!("<r>{inside}</r>");
    let field = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--";
    for (what, uri, content_type, body, expected) in [
        ("400,000 delimiters", "/field", multipart, "--b\r\n\r\n".repeat(400_000), 404),
        ("no head has an end", "/field", multipart, "--b\r\n".repeat(400_000) + "\n\n", 404),
        ("a field at the end", "/field", multipart, "--b\r\n\r\n\r\n".repeat(300_000) + field, 401),
        ("400,000 delimiters", "/multipart", multipart, "--b\r\n\r\n".repeat(400_000), 200),
        ("500,000 fields", "/field", form, fields.clone() + "a=1", 404),
        ("500,000 fields", "/form", form, fields.clone() + "%61=1", 404),
        ("500,000 fields", "/encoded", form, fields.clone(), 413),
        ("500,000 fields", "/valid", form, fields, 400),
        ("500,000 elements", "/xml", "text/xml", xml(&"<a/>".repeat(500_000)), 413),
        ("60,000 names", "/xml", "text/xml", xml(&names(60_000)), 200),
        ("no entity has an end", "/xml", "text/xml", xml(&"&".repeat(2_000_000)), 200),
        ("no section has an end", "/xml", "text/xml", xml(&"<![CDATA[".repeat(200_000)), 400),
    ] {
        let (status, answer, took) = post(&gateway, uri, content_type, body.as_bytes());
        println!("{what} at {uri}: {took:?}");
        assert_eq!(status, expected, "{what} at {uri}: {answer:.200}");
        assert!(took < LINEAR, "{what} at {uri} takes {took:?}");
    }
}

/// A template that asks for little makes little of a large document.
#[test]
fn what_a_template_does_not_ask_for_is_not_made() {
    const COUNT: u32 = 100_000;
    let upstream = Upstream::service(|request| (200, request.body_text()));
    let route = |id: &str, format: &str, template: &str| {
        let conf = json!({"request": {"input_format": format, "template": template}});
        let node = json!({"nodes": {upstream.address.to_string(): 1}});
        json!({"id": id, "uri": format!("/{id}"), "plugins": {"body-transformer": conf}, "upstream": node})
    };
    let all = "{% for name in pairs(context) do %}{% end %}{{x1}}";
    let attributes = "{% for name in pairs(a._attr) do %}{% end %}{{a._attr.x1}}";
    let routes = json!({"routes": [
        route("json", "json", "{{x1}}"), route("xml", "xml", "{{a._attr.x1}}"), route("names", "xml", "{{_escape_xml(a.b.c)}}"),
        route("all-json", "json", all), route("all-xml", "xml", attributes),
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let keys: serde_json::Map<String, Value> = (0..COUNT).map(|at| (format!("x{at}"), json!(1))).collect();
    let keys = Value::Object(keys).to_string();
    let attributes: String = (0..COUNT).map(|at| format!(" x{at}='1'")).collect();
    let xml = format!("<a{attributes}><b><c>text</c></b></a>");
    let took = |uri: &str, content_type: &str, body: &str| {
        let one = || {
            let (status, answer, took) = post(&gateway, uri, content_type, body.as_bytes());
            let expected = if uri == "/names" { "text" } else { "1" };
            assert_eq!((status, answer.as_str()), (200, expected), "{uri}: {answer:.200}");
            took
        };
        let least = (0..4).map(|_| one()).min().unwrap_or_default();
        println!("{uri}: {least:?}");
        least
    };
    let json = (took("/json", "application/json", &keys), took("/all-json", "application/json", &keys));
    let xml = (
        took("/xml", "text/xml", &xml),
        took("/names", "text/xml", &xml),
        took("/all-xml", "text/xml", &xml),
    );
    // Reading the body is a part of it that stays.
    assert!(json.0 * 3 < json.1 * 2 && xml.0 * 3 < xml.2 * 2 && xml.1 * 3 < xml.2 * 2, "{json:?} {xml:?}");
    tidegate_testkit::usage::assert_done_in_pieces(&gateway);
}

/// A megabyte of GraphQL could name half a million of them.
#[test]
fn operations_of_graphql_have_a_thousand_root_fields_at_most() {
    let plugins =
        json!({"mocking": {"response_status": 200, "response_example": "x", "with_mock_header": false}});
    let vars = json!([["graphql_root_fields", "has", "wanted"]]);
    // A broader route would have the request that nobody can judge.
    let routes = json!({"routes": [
        {"id": "1", "uri": "/", "vars": vars, "priority": 1, "plugins": plugins},
        {"id": "2", "uri": "/", "plugins": plugins},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let document = |count: usize| format!("{{ wanted {} }}", "a ".repeat(count));
    for (count, expected) in [(10, 200), (999, 200), (1_000, 400), (500_000, 400)] {
        let (status, _, _) = post(&gateway, "/", "application/graphql", document(count).as_bytes());
        assert_eq!(status, expected, "{count}");
    }
}

/// What conditions keep of a body counts as the body does.
#[test]
fn values_of_large_bodies_are_counted() {
    let plugins =
        json!({"mocking": {"response_status": 200, "response_example": "x", "with_mock_header": false}});
    let vars = json!([["post_arg_a", "!", "==", "1"]]);
    let routes = json!({"routes": [{"id": "1", "uri": "/", "vars": vars, "plugins": plugins}]});
    // One client may hold an eighth: 8 MB.
    let config = YAML_PROVIDER.replace("apisix:\n", "apisix:\n  body_memory: {total: 64m}\n");
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    for (megabytes, expected) in [(3, 200), (5, 503)] {
        let body = format!("a={}", "x".repeat(megabytes << 20));
        let form = "application/x-www-form-urlencoded";
        let (status, _, _) = post(&gateway, "/", form, body.as_bytes());
        assert_eq!(status, expected, "{megabytes} MB");
    }
    gateway.wait_for_log("there is no memory left for request bodies");
}
