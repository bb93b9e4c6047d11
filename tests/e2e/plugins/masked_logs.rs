//! What data-mask hides is in no log: not in entries, not in variables of their formats, not in the access log. The upstream gets
//! it all.

use std::fs;

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream, eventually};

const SECRET: &str = "s3cr3t";

fn rule(kind: &str, name: &str, more: Value) -> Value {
    let mut rule = json!({"type": kind, "name": name});
    rule.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    rule
}

fn rules() -> Value {
    let replace = json!({"action": "replace", "value": "***"});
    let json = json!({"action": "replace", "value": "***", "body_format": "json"});
    let form = json!({"action": "regex", "regex": "..$", "value": "**", "body_format": "urlencoded"});
    json!([
        rule("query", "password", json!({"action": "remove"})),
        rule("query", "token", replace.clone()),
        rule("header", "X-Token", replace.clone()),
        rule("header", "Cookie", replace),
        rule("body", "$..token", json),
        rule("body", "card", form),
    ])
}

/// A gateway whose routes log to a file; the entry of each request by its path.
struct Logged {
    gateway: Gateway,
    upstream: Upstream,
    folder: tempfile::TempDir,
}

impl Logged {
    fn start(logger: Value, more: Value) -> Logged {
        let upstream = Upstream::start();
        let folder = tempfile::tempdir().expect("a folder");
        let mut logger = logger;
        logger["path"] = json!(folder.path().join("entries"));
        let mut plugins = json!({"data-mask": {"request": rules()}, "file-logger": logger});
        plugins.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
        let routes = json!({"routes": [{"id": "1", "uri": "/*", "plugins": plugins, "upstream": node}]});
        let log =
            "http: {access_log: logs/access.log, access_log_format: '$request $request_line $http_x_token'}";
        let config = YAML_PROVIDER.replace("http: {enable_access_log: false}", log);
        let gateway = Gateway::start(&config, Some(&routes.to_string()));
        Logged { gateway, upstream, folder }
    }

    fn send(&self, target: &str, fields: &str, body: &str) -> Value {
        let path = self.folder.path().join("entries");
        let before = fs::read_to_string(&path).unwrap_or_default().lines().count();
        let length = body.len();
        let head = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n");
        let mut client = self.gateway.client();
        client.send(head.as_bytes()).expect("sends");
        client.send(body.as_bytes()).expect("sends");
        client.response().unwrap_or_else(|error| panic!("{target}: {error}"));
        let mut line = String::new();
        eventually("an entry", || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            line = text.lines().nth(before).unwrap_or_default().to_owned();
            text.ends_with('\n') && !line.is_empty()
        });
        assert!(!line.contains(SECRET), "{line}");
        serde_json::from_str(&line).expect("an entry")
    }
}

/// As in APISIX: what an entry leaves out is the operator's choice.
#[test]
fn credentials_that_nothing_masks_are_in_entries() {
    let logged = Logged::start(json!({}), json!({}));
    let entry = logged.send("/two-cookies", "Authorization: Basic b3BlbjpvcGVu\r\n", "");
    assert_eq!(entry["request"]["headers"]["authorization"], "Basic b3BlbjpvcGVu");
    assert_eq!(entry["response"]["headers"]["set-cookie"], json!(["a=1", "b=2"]));
    let format = json!({"log_format": {"line": "$uri"}});
    let entry = Logged::start(format, json!({})).send("/a", "Authorization: Basic b3BlbjpvcGVu\r\n", "");
    assert_eq!(entry, json!({"line": "/a", "route_id": "1"}));
}

#[test]
fn entries_and_the_access_log() {
    let logged = Logged::start(json!({"include_req_body": true}), json!({}));
    let fields = format!("X-Token: {SECRET}\r\nx-token: {SECRET}\r\nCookie: a={SECRET}\r\nX-Other: kept\r\n");
    let target = format!("/p?password={SECRET}&a=1&token={SECRET}&token=x{SECRET}");
    let entry = logged.send(&target, &fields, &format!(r#"{{"users":[{{"token":"{SECRET}"}}],"n":1}}"#));
    let request = &entry["request"];
    assert_eq!(request["uri"], "/p?a=1&token=***&token=***");
    assert_eq!(request["querystring"], json!({"a": "1", "token": ["***", "***"]}));
    assert_eq!(request["headers"]["x-token"], json!(["***", "***"]));
    assert_eq!(request["headers"]["x-other"], "kept");
    assert_eq!(request["body"], r#"{"users":[{"token":"***"}],"n":1}"#);
    let sent = logged.upstream.take().remove(0).text();
    assert_eq!(sent.matches(SECRET).count(), 7, "{sent}");

    let access = logged.gateway.prefix().join("logs/access.log");
    let line = "POST /p?a=1&token=***&token=*** HTTP/1.1";
    eventually("a line of the access log", || {
        let text = fs::read_to_string(&access).unwrap_or_default();
        text.contains(&format!("{line} {line} ***, ***")) && !text.contains(SECRET)
    });
}

#[test]
fn bodies_that_can_be_masked_and_others() {
    let logged = Logged::start(json!({"include_req_body": true, "max_req_body_bytes": 40}), json!({}));
    let body = |entry: Value| entry["request"]["body"].clone();
    assert_eq!(body(logged.send("/form", "", "card=1234&a=%20")), "card=12**&a=%20");
    // It is masked before it is cut, on another thread.
    let long = format!(r#"{{"a":"b","token":"{SECRET}","long":"{}"}}"#, "x".repeat(300 << 10));
    assert_eq!(body(logged.send("/long", "", &long)), r#"{"a":"b","token":"***","long":"xxxxxxxxx"#);
    let too_long = format!(r#"{{"token":"{SECRET}","long":"{}"}}"#, "x".repeat(1 << 20));
    assert_eq!(body(logged.send("/too-long", "", &too_long)), Value::Null);
    let coded = "Content-Encoding: gzip\r\n";
    assert_eq!(body(logged.send("/coded", coded, &format!("token={SECRET}"))), Value::Null);
}

#[test]
fn variables_of_a_format() {
    let format = json!({
        "uri": "$request_uri", "raw": "$real_request_uri", "args": "$args", "arg": "$arg_token", "up": "$upstream_uri",
        "header": "$http_x_token", "cookie": "$cookie_a", "body": "$request_body", "post": "$post_arg.token",
    });
    let rewritten = json!({"proxy-rewrite": {"uri": "/other"}});
    let logged = Logged::start(json!({"log_format": format, "include_req_body": true}), rewritten);
    let fields = format!("X-Token: {SECRET}\r\nCookie: a={SECRET}\r\nContent-Type: application/json\r\n");
    let entry = logged.send(&format!("/p?token={SECRET}"), &fields, &format!(r#"{{"token":"{SECRET}"}}"#));
    let expected = json!({
        "uri": "/p?token=***", "raw": "/p?token=***", "args": "token=***", "arg": "***", "up": "/other?token=***",
        "header": "***", "body": r#"{"token":"***"}"#, "post": "***", "route_id": "1",
    });
    assert_eq!(entry, expected);
}

#[test]
fn answers_of_the_gateway_itself() {
    let abort = json!({"fault-injection": {"abort": {"http_status": 400, "body": "rejected"}}});
    let logged = Logged::start(json!({"include_req_body": true}), abort);
    let entry = logged.send("/p?password=x", &format!("X-Token: {SECRET}\r\n"), &format!("card={SECRET}"));
    assert_eq!((&entry["request"]["uri"], &entry["response"]["status"]), (&json!("/p"), &json!(400)));
}
