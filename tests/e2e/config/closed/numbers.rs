//! Every numeric field of every schema, written as an integer with a fraction, at its bounds and beyond: what is accepted
//! works, and a whole number is the same with a fraction as without.

use serde_json::{Map, Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, Upstream};

use super::rejected;

/// Plugins that cannot be configured with what the generator makes of their schema, and what they need.
const NEEDED: [(&str, &str); 59] = [
    ("rocketmq-logger", r#"{"nameserver_list":["127.0.0.1:1"],"topic":"t"}"#),
    ("tcp-logger", r#"{"host":"127.0.0.1","port":1}"#),
    ("udp-logger", r#"{"host":"127.0.0.1","port":1}"#),
    ("degraphql", r#"{"query":"{ a }"}"#),
    ("graphql-limit-count", r#"{"count":1,"time_window":60}"#),
    (
        "oas-validator",
        r#"{"spec":"{\"openapi\":\"3.0.0\",\"info\":{\"title\":\"t\",\"version\":\"1\"},\"paths\":{\"/\":{\"get\":{\"responses\":{\"200\":{\"description\":\"d\"}}}}}}"}"#,
    ),
    ("acl", r#"{"allow_labels":{"org":["a"]}}"#),
    ("attach-consumer-label", r#"{"headers":{"X-A":"$a"}}"#),
    (
        "authz-casbin",
        r#"{"username":"user","model":"[request_definition]\nr = s, o, a\n[policy_definition]\np = s\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = r.s == p.s","policy":"p, nobody"}"#,
    ),
    (
        "authz-casdoor",
        r#"{"endpoint_addr":"http://127.0.0.1:1","client_id":"c","client_secret":"s","callback_url":"http://h/cb"}"#,
    ),
    ("authz-keycloak", r#"{"client_id":"c","token_endpoint":"http://127.0.0.1:1/"}"#),
    ("aws-lambda", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    ("azure-functions", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    ("body-transformer", r#"{"request":{"template":"a"}}"#),
    (
        "cas-auth",
        r#"{"idp_uri":"http://127.0.0.1:1","cas_callback_uri":"/cb","logout_uri":"/out","cookie":{"secret":"0123456789abcdef0123456789abcdef"}}"#,
    ),
    (
        "clickhouse-logger",
        r#"{"endpoint_addr":"http://127.0.0.1:1","user":"u","password":"p","database":"d","logtable":"t"}"#,
    ),
    ("consumer-restriction", r#"{"whitelist":["a"]}"#),
    ("dingtalk-auth", r#"{"app_key":"a","app_secret":"s","secret":"12345678","redirect_uri":"/login"}"#),
    ("echo", r#"{"body":"a"}"#),
    ("elasticsearch-logger", r#"{"endpoint_addrs":["http://127.0.0.1:1"],"field":{"index":"i"}}"#),
    ("fault-injection", r#"{"abort":{"http_status":403}}"#),
    (
        "feishu-auth",
        r#"{"app_id":"a","app_secret":"s","secret":"12345678","auth_redirect_uri":"https://a.test","redirect_uri":"/login"}"#,
    ),
    ("file-logger", r#"{"path":"logs/numbers.log"}"#),
    ("forward-auth", r#"{"uri":"http://127.0.0.1:1/"}"#),
    ("google-cloud-logging", r#"{"auth_file":"/nowhere"}"#),
    ("grpc-transcode", r#"{"proto_id":"1","service":"s.S","method":"M"}"#),
    ("http-logger", r#"{"uri":"http://127.0.0.1:1/"}"#),
    ("ip-restriction", r#"{"whitelist":["10.0.0.1"]}"#),
    ("jwe-decrypt of a consumer", r#"{"key":"k","secret":"12345678901234567890123456789012"}"#),
    ("jwt-auth of a consumer", r#"{"key":"a","secret":"0123456789abcdef0123456789abcdef"}"#),
    ("kafka-logger", r#"{"brokers":[{"host":"127.0.0.1","port":1}],"kafka_topic":"t"}"#),
    (
        "lago",
        r#"{"endpoint_addrs":["http://127.0.0.1:1"],"token":"t","event_transaction_id":"a","event_subscription_id":"b","event_code":"c"}"#,
    ),
    ("ldap-auth-advanced", r#"{"base_dn":"dc=x","ldap_uri":"127.0.0.1:1"}"#),
    ("limit-conn", r#"{"conn":1,"burst":0,"default_conn_delay":0.1,"key":"remote_addr"}"#),
    ("limit-count", r#"{"count":1,"time_window":60}"#),
    ("loki-logger", r#"{"endpoint_addrs":["http://127.0.0.1:1"]}"#),
    (
        "metadata of authz-casbin",
        r#"{"model":"[request_definition]\nr = s, o, a\n[policy_definition]\np = s\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = r.s == p.s","policy":"p, nobody"}"#,
    ),
    ("mocking", r#"{"response_example":"a"}"#),
    ("sla", r#"{"limits":[{"interval":1,"limit":1}]}"#),
    ("multi-auth", r#"{"auth_plugins":[{"basic-auth":{}},{"key-auth":{}}]}"#),
    ("opa", r#"{"host":"http://127.0.0.1:1","policy":"p"}"#),
    ("openfunction", r#"{"function_uri":"http://127.0.0.1:1/"}"#),
    (
        "openid-connect",
        r#"{"client_id":"a","client_secret":"s","discovery":"http://127.0.0.1:1/d","bearer_only":true}"#,
    ),
    ("openwhisk", r#"{"api_host":"http://127.0.0.1:1","service_token":"a:b","namespace":"n","action":"a"}"#),
    ("proxy-mirror", r#"{"host":"http://127.0.0.1:1"}"#),
    ("real-ip", r#"{"source":"arg_ip"}"#),
    ("redirect", r#"{"uri":"/x"}"#),
    ("referer-restriction", r#"{"whitelist":["a.com"]}"#),
    ("request-validation", r#"{"header_schema":{"type":"object"}}"#),
    ("saml-auth", include_str!("saml_auth.json")),
    ("serverless-post-function", r#"{"functions":["return function() end"]}"#),
    ("serverless-pre-function", r#"{"functions":["return function() end"]}"#),
    ("skywalking-logger", r#"{"endpoint_addr":"http://127.0.0.1:1"}"#),
    ("splunk-hec-logging", r#"{"endpoint":{"uri":"http://127.0.0.1:1","token":"t"}}"#),
    ("traffic-label", r#"{"rules":[{"actions":[{"set_headers":{"X-A":"a"}}]}]}"#),
    ("traffic-split", r#"{"rules":[{"weighted_upstreams":[{"weight":1}]}]}"#),
    ("ua-restriction", r#"{"denylist":["x"]}"#),
    ("workflow", r#"{"rules":[{"actions":[["return",{"code":403}]]}]}"#),
    ("zipkin", r#"{"endpoint":"http://127.0.0.1:1/","sample_ratio":1}"#),
];

/// A place in a value.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item,
}

/// A numeric field: where it is, and what its schema allows.
struct Field<'a> {
    path: Vec<Step>,
    schema: &'a Value,
}

/// Walks a schema, its alternatives included, and collects the numeric fields.
fn numeric<'a>(schema: &'a Value, path: &mut Vec<Step>, found: &mut Vec<Field<'a>>) {
    if path.len() > 8 {
        return;
    }
    let types = schema.get("type");
    let is = |name: &str| match types {
        Some(Value::String(one)) => one == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    };
    if is("integer") || is("number") {
        found.push(Field { path: path.clone(), schema });
    }
    for (name, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(Step::Field(name.clone()));
        numeric(inner, path, found);
        path.pop();
    }
    for inner in ["additionalProperties", "patternProperties"].iter().filter_map(|name| schema.get(*name)) {
        let inner =
            inner.as_object().and_then(|map| map.values().next().filter(|_| !map.contains_key("type")));
        if let Some(inner) = inner.filter(|inner| inner.is_object()) {
            path.push(Step::Field("a".to_owned()));
            numeric(inner, path, found);
            path.pop();
        }
    }
    if let Some(inner) = schema.get("items").filter(|inner| inner.is_object()) {
        path.push(Step::Item);
        numeric(inner, path, found);
        path.pop();
    }
    for inner in ["oneOf", "anyOf", "allOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten()
    {
        numeric(inner, path, found);
    }
    for inner in ["if", "then", "else"].iter().filter_map(|name| schema.get(*name)) {
        numeric(inner, path, found);
    }
}

/// The smallest value that a schema seems to want.
fn sample(schema: &Value, depth: usize) -> Value {
    if let Some(known) = schema.get("default").or_else(|| schema.get("const")) {
        return known.clone();
    }
    if let Some(first) = schema.get("enum").and_then(Value::as_array).and_then(|all| all.first()) {
        return first.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::String(one)) => one.as_str(),
        Some(Value::Array(several)) => several.first().and_then(Value::as_str).unwrap_or_default(),
        _ => "object",
    };
    let number = |name: &str| schema.get(name).and_then(Value::as_u64);
    match kind {
        "integer" | "number" => {
            json!(number("minimum").or(number("exclusiveMinimum").map(|low| low + 1)).unwrap_or(1))
        }
        "boolean" => json!(false),
        "string" => json!(text(schema)),
        "array" if depth < 6 => {
            let count = number("minItems").unwrap_or(1).max(1);
            let item = schema.get("items").map_or(json!("a"), |items| sample(items, depth + 1));
            json!(vec![item; usize::try_from(count).expect("few")])
        }
        _ => {
            let mut value = Map::new();
            let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
            for name in required.filter_map(Value::as_str) {
                let inner = schema.get("properties").and_then(|all| all.get(name)).unwrap_or(&Value::Null);
                value.insert(name.to_owned(), sample(inner, depth + 1));
            }
            Value::Object(value)
        }
    }
}

fn text(schema: &Value) -> String {
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    if pattern.contains("http") {
        return "http://127.0.0.1:1/".to_owned();
    }
    if pattern.contains("\\/") || pattern.starts_with("^/") {
        return "/a".to_owned();
    }
    "a".repeat(schema.get("minLength").and_then(Value::as_u64).unwrap_or(1).max(1).try_into().expect("short"))
}

/// Sets the place, and makes what is on the way from the schema.
fn set(value: &mut Value, schema: &Value, path: &[Step], to: &Value) {
    let Some((step, rest)) = path.split_first() else {
        *value = to.clone();
        return;
    };
    match step {
        Step::Field(name) => {
            let inner = inner_schema(schema, name);
            if !value.is_object() {
                *value = sample(schema, 0);
            }
            if !value.is_object() {
                *value = json!({});
            }
            let fields = value.as_object_mut().expect("an object");
            let place = fields.entry(name.clone()).or_insert_with(|| sample(&inner, 0));
            set(place, &inner, rest, to);
        }
        Step::Item => {
            let inner = schema.get("items").cloned().unwrap_or_default();
            if value.as_array().is_none_or(Vec::is_empty) {
                *value = json!([sample(&inner, 0)]);
            }
            set(&mut value[0], &inner, rest, to);
        }
    }
}

/// The schema of a field, wherever its parent's schema has it.
fn inner_schema(schema: &Value, name: &str) -> Value {
    if let Some(inner) = schema.get("properties").and_then(|all| all.get(name)) {
        return inner.clone();
    }
    let alternatives =
        ["oneOf", "anyOf", "allOf"].iter().filter_map(|name| schema.get(*name)?.as_array()).flatten();
    let branches = ["if", "then", "else"].iter().filter_map(|name| schema.get(*name));
    alternatives
        .chain(branches)
        .map(|inner| inner_schema(inner, name))
        .find(|inner| !inner.is_null())
        .unwrap_or_default()
}

/// Whole numbers to try, each to be written as an integer and with a fraction, and numbers that are too large for one.
fn candidates(schema: &Value) -> (Vec<i128>, Vec<&'static str>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_i64).map(i128::from);
    let (low, high) = (bound("minimum").or(bound("exclusiveMinimum")), bound("maximum"));
    let mut whole = vec![-1, 0, 1, 503, 70_000, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1];
    whole.extend([low, low.map(|low| low - 1)].into_iter().flatten());
    whole.extend([high, high.map(|high| high + 1)].into_iter().flatten());
    whole.extend(schema.get("default").and_then(Value::as_i64).map(i128::from));
    whole.sort_unstable();
    whole.dedup();
    (whole, vec!["18446744073709551616", "1e300", "-1e300"])
}

/// One connection to the Admin API.
struct Admin(Client);

impl Admin {
    fn put(&mut self, path: &str, body: &str) -> (u16, String) {
        let request = format!(
            "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = self.0.request(&request).unwrap_or_else(|error| panic!("{path} {body}: {error}"));
        (answer.status(), answer.body_text())
    }
}

/// What is written to try the fields of one schema.
struct Subject {
    name: String,
    path: String,
    schema: Value,
    /// The part that the schema is about.
    base: Value,
    /// The whole value; the part takes the place of `null` at this pointer.
    whole: Value,
    pointer: &'static str,
}

impl Subject {
    fn body(&self, part: &Value) -> String {
        let mut body = self.whole.clone();
        *body.pointer_mut(self.pointer).expect("the place of the part") = part.clone();
        body.to_string()
    }
}

/// A number that stands for another until the text is made: no JSON value holds them all.
const MARK: &str = "@NUMBER@";

/// How many writes were accepted, and what is wrong.
fn check(gateway: &Gateway, admin: &mut Admin, subject: &Subject) -> (usize, Vec<String>) {
    let mut fields = Vec::new();
    numeric(&subject.schema, &mut Vec::new(), &mut fields);
    let (mut accepted, mut wrong) = (0, Vec::new());
    for field in &fields {
        let mut part = subject.base.clone();
        set(&mut part, &subject.schema, &field.path, &json!(MARK));
        let body = subject.body(&part);
        let mut write = |number: &str| {
            let body = body.replace(&format!("\"{MARK}\""), number);
            let (status, answer) = admin.put(&subject.path, &body);
            if !matches!(status, 200 | 201 | 400) {
                wrong.push(format!("{body}: {status} {answer}"));
            }
            status < 300
        };
        let (whole, beyond) = candidates(field.schema);
        let mut differing = Vec::new();
        let mut any = false;
        for number in whole {
            let written = (write(&number.to_string()), write(&format!("{number}.0")));
            // Above 2^53 the same text with a fraction is another number.
            if written.0 != written.1 && number < 1 << 53 {
                differing.push(number);
            }
            accepted += usize::from(written.0) + usize::from(written.1);
            any |= written.0;
        }
        for number in beyond {
            accepted += usize::from(write(number));
        }
        if !differing.is_empty() {
            wrong.push(format!("{}: {differing:?} differ with a fraction at {:?}", subject.name, field.path));
        }
        if any {
            // What was accepted last is there now.
            // A number as the id of an upstream that is not there fits; what it names is missing.
            let missing = |(_, reason): &(String, String)| reason.ends_with(" does not exist");
            let unusable: Vec<_> = rejected(gateway).into_iter().filter(|found| !missing(found)).collect();
            if !unusable.is_empty() {
                wrong.push(format!("{} at {:?}: {unusable:?}", subject.name, field.path));
            }
        }
    }
    (accepted, wrong)
}

fn example(name: &str, schema: &Value) -> Value {
    let needed = NEEDED.iter().find(|(other, _)| *other == name);
    needed.map_or_else(|| sample(schema, 0), |(_, text)| serde_json::from_str(text).expect("JSON"))
}

fn subjects(schemas: &Value, upstream: &str) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for (name, all) in schemas["plugins"].as_object().expect("plugins") {
        let base = example(name, &all["schema"]);
        let route = json!({"uri": format!("/n/{name}"), "plugins": {name: null}});
        let pointer: &'static str = format!("/plugins/{name}").leak();
        subjects.push(Subject {
            name: name.clone(),
            path: format!("routes/{name}"),
            schema: all["schema"].clone(),
            base,
            whole: route,
            pointer,
        });
        if let Some(schema) = all.get("consumer_schema").filter(|schema| schema.is_object()) {
            let of_consumer = format!("{name} of a consumer");
            subjects.push(Subject {
                base: example(&of_consumer, schema),
                name: of_consumer,
                path: "consumers".to_owned(),
                schema: schema.clone(),
                whole: json!({"username": "numbers", "plugins": {name: null}}),
                pointer,
            });
        }
        if let Some(schema) = all.get("metadata_schema").filter(|schema| schema.is_object()) {
            subjects.push(Subject {
                name: format!("metadata of {name}"),
                path: format!("plugin_metadata/{name}"),
                base: example(&format!("metadata of {name}"), schema),
                schema: schema.clone(),
                whole: json!({"part": null}),
                pointer: "",
            });
        }
    }
    let nodes = json!([{"host": "127.0.0.1", "port": 1, "weight": 1}]);
    for (name, path, base) in [
        ("route", "routes/numbers", json!({"uri": "/n/route", "upstream": {"nodes": nodes}})),
        ("service", "services/numbers", json!({"upstream": {"nodes": nodes}})),
        ("upstream", "upstreams/numbers", json!({"nodes": nodes})),
        ("upstream", "upstreams/mapped", json!({"nodes": {upstream: 1}})),
        ("consumer", "consumers", json!({"username": "numbers"})),
        ("consumer_group", "consumer_groups/numbers", json!({"plugins": {}})),
        ("plugin_config", "plugin_configs/numbers", json!({"plugins": {}})),
        ("global_rule", "global_rules/numbers", json!({"plugins": {}})),
        ("proto", "protos/numbers", json!({"content": "syntax = \"proto3\"; message A {}"})),
    ] {
        let schema = schemas["main"][name].clone();
        let name = format!("{name} ({path})");
        subjects.push(Subject { name, path: path.to_owned(), schema, base, whole: Value::Null, pointer: "" });
    }
    subjects
}

#[test]
fn what_is_accepted_works() {
    let gateway = Gateway::start(EMBEDDED, None);
    let upstream = Upstream::start();
    let mut control = Client::connect(gateway.control).expect("the control port accepts connections");
    let schemas = control.get("localhost", "/v1/schema").expect("an answer").body_text();
    let schemas: Value = serde_json::from_str(&schemas).expect("JSON");
    let mut admin = Admin(Client::connect(gateway.admin).expect("the admin port accepts connections"));
    let proto =
        r#"{"content":"syntax = \"proto3\"; package s; service S { rpc M(A) returns (A); } message A {}"}"#;
    assert_eq!(admin.put("protos/1", proto).0, 201);
    let (mut accepted, mut wrong) = (0, Vec::new());
    for subject in subjects(&schemas, &upstream.address.to_string()) {
        // An example that nothing can be learnt from would hide that its fields are not tried.
        let (status, answer) = admin.put(&subject.path, &subject.body(&subject.base));
        if !matches!(status, 200 | 201) {
            wrong.push(format!("{}: the example is refused: {status} {answer}", subject.name));
            continue;
        }
        let (count, found) = check(&gateway, &mut admin, &subject);
        accepted += count;
        wrong.extend(found);
    }
    assert!(!gateway.error_log().contains("panicked"), "{}", gateway.error_log());
    assert!(wrong.is_empty(), "{accepted} accepted\n{}", wrong.join("\n"));
    assert!(accepted > 1000, "only {accepted} writes were accepted");
}
