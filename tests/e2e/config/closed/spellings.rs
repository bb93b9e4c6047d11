//! Spellings that servers read in two ways, and that a guard must not be passed by.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::http2::{self, END_HEADERS, END_STREAM, HEADERS};
use tidegate_testkit::{Gateway, Http2Client, Upstream, servers};

use super::put;

fn status_of(gateway: &Gateway, request: &str) -> u16 {
    gateway.client().request(request).expect("an answer").status()
}

fn guarded(fields: &Value) -> Value {
    let mut route = json!({"uri": "/*", "priority": 5, "plugins": {"key-auth": {}, "mocking": {"response_example": "in"}}});
    for (name, value) in fields.as_object().into_iter().flatten() {
        route[name] = value.clone();
    }
    route
}

fn gateway(fields: &Value) -> Gateway {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "routes/guarded", &guarded(fields).to_string());
    let open = json!({"uri": "/*", "plugins": {"mocking": {"response_example": "open"}}});
    put(&gateway, "routes/open", &open.to_string());
    gateway
}

#[test]
fn a_host_has_one_port() {
    let gateway = gateway(&json!({"hosts": ["admin.test", "*.int.test"]}));
    for (host, expected) in [
        ("admin.test", 401),
        ("admin.test:80", 401),
        ("ADMIN.test.:80", 401),
        ("other.test", 200),
        ("[::1]:80", 200),
        ("admin.test:1:2", 400),
        ("admin.test::", 400),
        ("admin.test:80:", 400),
        ("a.int.test:1:2", 400),
        ("[::1]admin.test", 400),
        ("admin.test[::1]", 400),
        ("[::1", 400),
    ] {
        assert_eq!(
            status_of(&gateway, &format!("GET /x HTTP/1.1\r\nHost: {host}\r\n\r\n")),
            expected,
            "{host}"
        );
        let absolute = format!("GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(status_of(&gateway, &absolute), expected, "absolute {host}");
    }
}

#[test]
fn methods_have_capital_letters() {
    let gateway = gateway(&json!({"methods": ["POST"]}));
    for (method, expected) in [("POST", 401), ("GET", 200), ("PURGE-ALL", 200), ("post", 400), ("Post", 400)]
    {
        let request = format!("{method} /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(status_of(&gateway, &request), expected, "{method}");
    }
}

/// HTTP/1 and HTTP/2 answer alike.
#[test]
fn methods_are_read_alike_in_both_protocols() {
    let gateway = gateway(&json!({"methods": ["POST"]}));
    let (longest, longer) = ("A".repeat(32), "A".repeat(33));
    for (method, expected) in [("POST", 401), ("Post", 400), (&*longest, 200), (&*longer, 501)] {
        let request = format!("{method} /x HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(status_of(&gateway, &request), expected, "{method}");
        let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
        let head = http2::request(method, "/x", &[]);
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &head).expect("sends");
        let answer = client.wait_for(HEADERS).expect("an answer");
        assert_eq!(http2::status(&answer), Some(expected), "{method} over HTTP/2");
    }
}

/// Which of two counts differs from server to server; nginx refuses both, too.
#[test]
fn credentials_come_once_and_names_have_no_empty_part() {
    let gateway = gateway(&json!({}));
    let fields = "Authorization: Basic YTpi\r\nAuthorization: Basic YTpi\r\n";
    for (host, fields, expected) in [
        ("h", "", 401),
        ("h", "Authorization: Basic YTpi\r\n", 401),
        ("h", fields, 400),
        ("a..b", "", 400),
        ("..b", "", 400),
        ("b..", "", 400),
        ("b.", "", 401),
    ] {
        let request = format!("GET /x HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
        assert_eq!(status_of(&gateway, &request), expected, "{host} {fields}");
    }
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    let head = http2::request("GET", "/x", &[("authorization", "a"), ("authorization", "b")]);
    client.send(HEADERS, END_HEADERS | END_STREAM, 1, &head).expect("sends");
    assert_eq!(http2::status(&client.wait_for(HEADERS).expect("an answer")), Some(400));
}

#[test]
fn a_line_feed_at_the_end_passes_no_pattern() {
    let gateway = gateway(&json!({"vars": [["uri", "~~", "^/n/admin$"]]}));
    for (path, expected) in
        [("/n/admin", 401), ("/n/admin%0a", 401), ("/n/admin%0a%0a", 200), ("/n/admins", 200)]
    {
        assert_eq!(
            status_of(&gateway, &format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")),
            expected,
            "{path}"
        );
    }
}

#[test]
fn slow_rates_hold_in_redis() {
    let redis = servers::redis(&[]);
    let gateway = Gateway::start(EMBEDDED, None);
    let conf = json!({"rate": 0.01, "burst": 0, "key": "remote_addr", "policy": "redis", "rejected_code": 429,
        "redis_host": "127.0.0.1", "redis_port": redis.address.port()});
    let upstream = Upstream::start();
    let route = json!({"uri": "/*", "plugins": {"limit-req": conf}, "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    put(&gateway, "routes/1", &route.to_string());
    let ask = || status_of(&gateway, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!((ask(), ask()), (200, 429), "{}", gateway.error_log());
    let keys = std::process::Command::new("redis-cli")
        .args(["-p", &redis.address.port().to_string(), "--no-raw", "EVAL"])
        .args(["return redis.call('TTL', redis.call('KEYS', '*')[1])", "0"])
        .output()
        .expect("redis-cli runs");
    let text = String::from_utf8_lossy(&keys.stdout).into_owned();
    let seconds = text.rsplit(' ').next().and_then(|number| number.trim().parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 90), "forgotten before the bucket is dry: {text}");
}

/// A guard in a list whose name is misspelled is not left out.
#[test]
fn a_misspelled_list_opens_nothing() {
    for (list, expected) in
        [("global_rules", 401), ("global_rule", 503), ("globalrules", 503), ("remarks", 200)]
    {
        let document = json!({
            "routes": [{"id": 1, "uri": "/*", "plugins": {"mocking": {"response_example": "x"}}}],
            list: [{"id": 1, "plugins": {"key-auth": {}}}],
        });
        let gateway = Gateway::start(YAML_PROVIDER, Some(&document.to_string()));
        assert_eq!(status_of(&gateway, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n"), expected, "{list}");
    }
}

/// What guards a route, and stands beside the lists by a slip of indentation, shuts the gateway instead of being left out.
#[test]
fn a_guard_that_slipped_out_of_its_route_opens_nothing() {
    let slipped = [
        ("plugins", json!({"key-auth": {}}), 503),
        ("plugins", json!([{"key-auth": {}}]), 503),
        ("remote_addr", json!("10.0.0.0/8"), 503),
        ("vars", json!([["http_x_tok", "==", "s"]]), 503),
        ("host", json!("a.test"), 503),
        ("methods", json!(["PUT"]), 503),
        ("status", json!(0), 503),
        ("script", json!("return {}"), 503),
        ("plugins", json!(["mocking", "key-auth"]), 200),
        ("plugins", json!({}), 200),
        ("vars", json!([]), 200),
        ("desc", json!("mine"), 200),
    ];
    for (key, value, expected) in slipped {
        let document = json!({
            "routes": [{"id": 1, "uri": "/*", "plugins": {"mocking": {"response_example": "x"}}}],
            key: value,
        });
        let gateway = Gateway::start(YAML_PROVIDER, Some(&document.to_string()));
        let found = status_of(&gateway, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(found, expected, "{key}: {value}: {}", gateway.error_log());
        if expected == 503 {
            let mut client = tidegate_testkit::Client::connect(gateway.control).expect("connects");
            let rejected = client.get("localhost", "/v1/rejected").expect("an answer").body_text();
            assert!(rejected.contains(&format!("[{key}]")), "{rejected}");
        }
        // An import does not leave it out, either.
        let file = gateway.prefix().join("slipped.yaml");
        std::fs::write(&file, document.to_string()).expect("written");
        let mut import = std::process::Command::new(tidegate_testkit::gateway::binary());
        let output = import.args(["import", "apisix"]).arg(&file).output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_whole = expected == 200 && key != "desc";
        assert_eq!(output.status.success(), is_whole, "{key}: {value}: {said}");
    }
}

/// A dash too many makes the guards of an item an item of their own.
#[test]
fn guards_that_a_dash_cut_off_open_nothing() {
    let mocking = json!({"mocking": {"response_example": "x"}});
    let guard = json!({"plugins": {"key-auth": {}}});
    let route = json!({"id": 1, "uri": "/*", "plugins": mocking});
    let of_service = json!({"id": 1, "uri": "/*", "service_id": "s", "plugins": mocking});
    for (list, document, expected) in [
        ("routes/2", json!({"routes": [route, guard]}), 503),
        (
            "routes/2",
            json!({"routes": [route, {"routes": [{"id": 2, "uri": "/x", "plugins": {"key-auth": {}}}]}]}),
            503,
        ),
        ("routes/2", json!({"routes": [route, {"vars": [["arg_a", "==", "b"]]}]}), 503),
        ("services/2", json!({"routes": [of_service], "services": [{"id": "s"}, guard]}), 503),
        ("", json!({"routes": [route, {"id": 2, "uri": "/b", "plugins": {"key-auth": {}}}]}), 200),
    ] {
        let gateway = Gateway::start(YAML_PROVIDER, Some(&document.to_string()));
        let found = status_of(&gateway, "GET /x HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(found, expected, "{document}: {}", gateway.error_log());
        if expected == 503 {
            let said = format!("[{list}] has ");
            assert!(gateway.error_log().contains(&said), "{}", gateway.error_log());
        }
    }
}

/// The auth service sees names as they are spelled, not as a trusted one.
#[test]
fn forward_auth_respells_no_name() {
    let service = Upstream::service(|request| {
        let status = if request.header("X-Tok") == Some("good") { 200 } else { 401 };
        (status, String::new())
    });
    let uri = format!("http://{}/", service.address);
    let gateway = Gateway::start(EMBEDDED, None);
    let conf = json!({"uri": uri, "request_headers": ["X-Tok"]});
    let upstream = Upstream::start();
    let route = json!({"uri": "/*", "plugins": {"forward-auth": conf}, "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    put(&gateway, "routes/1", &route.to_string());
    for (field, expected) in [("X-Tok", 200), ("x-tok", 200), ("X.Tok", 401), ("X~Tok", 401), ("X_Tok", 401)]
    {
        let request = format!("GET /x HTTP/1.1\r\nHost: h\r\n{field}: good\r\n\r\n");
        let status = status_of(&gateway, &request);
        let asked = service.take().iter().map(tidegate_testkit::Seen::text).collect::<String>();
        assert_eq!(status, expected, "{field}: {asked}");
    }
}

/// The auth service judges the path that routes judge, in whatever spelling it came.
#[test]
fn forward_auth_tells_the_path_that_counts() {
    let service = Upstream::service(|request| {
        let uri = request.header("X-Forwarded-Uri").unwrap_or_default();
        (if uri.starts_with("/ab/admin") { 403 } else { 200 }, String::new())
    });
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let conf = json!({"uri": format!("http://{}/", service.address)});
    let route = json!({"uri": "/ab/*", "plugins": {"forward-auth": conf}, "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    put(&gateway, "routes/1", &route.to_string());
    let spellings = ["admin/x", "/admin/x", "./admin/x", "%61dmin/x", "z/../admin/x", "z%2f..%2fadmin/x"];
    for path in spellings.map(|path| format!("/ab/{path}")) {
        assert_eq!(status_of(&gateway, &format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")), 403, "{path}");
    }
    service.take();
    let request = "GET /ab/a%20b%0d%0aX:%3f?c=%2f HTTP/1.1\r\nHost: h\r\n\r\n";
    assert_eq!(status_of(&gateway, request), 200);
    let asked = service.take().iter().map(tidegate_testkit::Seen::text).collect::<String>();
    assert!(asked.contains("X-Forwarded-Uri: /ab/a%20b%0D%0AX:%3F?c=%2f\r\n"), "{asked}");
}

/// As nginx's `ignore_invalid_headers`: no condition on the header with dashes would see them.
#[test]
fn names_with_odd_signs_are_dropped() {
    let upstream = Upstream::start();
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({"uri": "/*", "upstream": {"nodes": {upstream.address.to_string(): 1}}});
    put(&gateway, "routes/1", &route.to_string());
    let signs = ".!~+|'*^`%&#$@\"(){}[]/,;=?<>\\é";
    let fields: String = signs.chars().map(|sign| format!("X{sign}Role: admin\r\n")).collect();
    let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}X-Kept: a\r\nX_Kept: b\r\n\r\n");
    assert_eq!(status_of(&gateway, &request), 200);
    let seen = upstream.take().iter().map(tidegate_testkit::Seen::text).collect::<String>();
    assert!(!seen.contains("Role"), "{seen}");
    assert!(seen.contains("X-Kept: a\r\n") && seen.contains("X_Kept: b\r\n"), "{seen}");
    // Somebody else may read where the request ends.
    for field in
        ["Content-Length\": 1", "Transfer-Encoding{: chunked", "Host@: a", "X Role: a", "X\u{1}Role: a"]
    {
        assert_eq!(
            status_of(&gateway, &format!("GET / HTTP/1.1\r\nHost: h\r\n{field}\r\n\r\n")),
            400,
            "{field}"
        );
    }
}

/// RFC 9110 section 7.2: a port has digits only.
/// As in nginx, `$http_x_role` has what `X_Role` says, too: WSGI, CGI and PHP read it.
#[test]
fn conditions_see_each_spelling_of_a_field() {
    let gateway = Gateway::start(EMBEDDED, None);
    let open = json!({"uri": "/*", "vars": [["http_x_role", "==", "user"]], "plugins": {"mocking": {"response_example": "open"}}});
    put(&gateway, "routes/open", &open.to_string());
    put(&gateway, "routes/guarded", &guarded(&json!({"priority": -1})).to_string());
    for (fields, expected) in [
        ("X-Role: user", 200),
        ("X_Role: user", 200),
        ("X-Role: user\r\nX_Role: admin", 401),
        ("X_Role: admin\r\nX-Role: user", 401),
        ("X-Role: user\r\nX_Other: admin", 200),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
        assert_eq!(status_of(&gateway, &request), expected, "{fields}");
    }
}

#[test]
fn hosts_have_ports_of_digits() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (host, expected) in [
        ("x.test:80", 404),
        ("x.test:", 404),
        ("[::1]:80", 404),
        ("x.test:evil.com", 400),
        ("x.test:80,evil.com", 400),
        ("x.test:-1", 400),
        ("x.test:%40evil", 400),
        ("[::1]:a", 400),
    ] {
        assert_eq!(
            status_of(&gateway, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")),
            expected,
            "{host}"
        );
    }
}
