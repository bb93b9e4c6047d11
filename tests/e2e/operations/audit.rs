//! The audit log: a line for each attempt to change something through the Admin or the Control API.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, PATIENCE, eventually};

const ROUTE: &str = r#"{"uri":"/a","plugins":{"mocking":{"response_example":"x"}}}"#;

fn config(more: &str) -> String {
    let key =
        "{name: \"o\\nps\", key: test-admin-key, role: admin}, {name: guest, key: guest-key, role: viewer}";
    EMBEDDED
        .replace("{name: admin, key: test-admin-key, role: admin}", key)
        .replace("  admin:\n", &format!("  admin:\n{more}"))
}

fn ask(address: std::net::SocketAddr, method: &str, target: &str, fields: &str, body: &str) -> u16 {
    let mut client = Client::connect(address).expect("the port accepts connections");
    let length = body.len();
    let answer = client.request(&format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ));
    answer.expect("an answer").status()
}

/// The lines, once there are so many of them: `api key method path status revision`.
fn lines(text: impl Fn() -> String, count: usize) -> Vec<String> {
    let start = Instant::now();
    loop {
        let text = text();
        if text.lines().count() >= count {
            assert!(
                !text.contains(ADMIN_KEY) && !text.contains("guest-key") && !text.contains("wrong-key"),
                "{text}"
            );
            return text.lines().map(|line| shown(&serde_json::from_str(line).expect("JSON"))).collect();
        }
        assert!(start.elapsed() < PATIENCE, "{count} lines are not there:\n{text}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn shown(line: &Value) -> String {
    assert_eq!(line["address"], "127.0.0.1", "{line}");
    assert!(
        line["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')),
        "{line}"
    );
    let fields = ["api", "key", "method", "path", "status", "revision"];
    let text = |field: &str| line[field].as_str().map_or_else(|| line[field].to_string(), str::to_owned);
    fields.map(text).join(" ")
}

#[test]
fn every_attempt_to_write_leaves_a_line() {
    let gateway = Gateway::start(&config(""), None);
    let key = format!("X-API-KEY: {ADMIN_KEY}\r\n");
    let admin = |method: &str, path: &str, fields: &str, body: &str| {
        ask(gateway.admin, method, &format!("/apisix/admin{path}"), fields, body)
    };
    // Questions leave none.
    assert_eq!(admin("GET", "/routes", &key, ""), 200);
    assert_eq!(admin("GET", "/routes", "X-API-KEY: wrong-key\r\n", ""), 401);
    assert_eq!(admin("POST", "/explain", &key, r#"{"url":"http://a/a"}"#), 200);
    assert_eq!(admin("POST", "/configs/validate", &key, "{}"), 200);
    assert_eq!(admin("POST", "/schema/validate/routes", &key, ROUTE), 200);
    assert_eq!(ask(gateway.control, "GET", "/v1/routes", "", ""), 200);

    let import = "routes:\n- id: 2\n  uri: /b\n  plugins: {mocking: {response_example: x}}\n#END\n";
    let transaction = format!(r#"{{"changes":[{{"method":"PUT","path":"/routes/3","value":{ROUTE}}}]}}"#);
    let key_of_guest = "X-API-KEY: guest-key\r\n";
    for (method, path, fields, body, status) in [
        ("PUT", "/routes/1", &*key, ROUTE, 201),
        ("PUT", "/routes/1?wait=applied", &key, ROUTE, 200),
        ("PUT", "/routes/1?wait=never", &key, ROUTE, 400),
        ("PATCH", "/routes/1", &key, r#"{"uri":5}"#, 400),
        ("PUT", "/routes/1", "", ROUTE, 401),
        ("PUT", "/routes/1?api_key=wrong-key", "", ROUTE, 401),
        ("DELETE", "/routes/1", key_of_guest, "", 401),
        ("PUT", "/import", &key, import, 200),
        ("POST", "/transactions", &key, &transaction, 200),
        ("PUT", "/checkpoints/now", &key, "", 201),
        ("POST", "/rollback", &key, r#"{"revision":1}"#, 200),
        ("PUT", "/plugins/reload", &key, "", 200),
        ("DELETE", "/routes/1", &key, "", 200),
        ("DELETE", "/routes/%0a%1b[31m", &key, "", 404),
        ("BREW", "/routes/1", &key, "", 404),
    ] {
        assert_eq!(admin(method, path, fields, body), status, "{method} {path}");
    }
    assert_eq!(ask(gateway.control, "POST", "/v1/gc", "", ""), 200);
    assert_eq!(ask(gateway.control, "PUT", "/v1/nothing", "", ""), 404);

    let file = gateway.prefix().join("logs/audit.log");
    let read = || fs::read_to_string(&file).unwrap_or_default();
    let expected = [
        "admin o\nps PUT /apisix/admin/routes/1 201 1",
        "admin o\nps PUT /apisix/admin/routes/1 200 2",
        "admin o\nps PUT /apisix/admin/routes/1 400 null",
        "admin o\nps PATCH /apisix/admin/routes/1 400 null",
        "admin null PUT /apisix/admin/routes/1 401 null",
        "admin null PUT /apisix/admin/routes/1 401 null",
        "admin guest DELETE /apisix/admin/routes/1 401 null",
        "admin o\nps PUT /apisix/admin/import 200 3",
        "admin o\nps POST /apisix/admin/transactions 200 4",
        "admin o\nps PUT /apisix/admin/checkpoints/now 201 4",
        "admin o\nps POST /apisix/admin/rollback 200 5",
        "admin o\nps PUT /apisix/admin/plugins/reload 200 null",
        "admin o\nps DELETE /apisix/admin/routes/1 200 6",
        "admin o\nps DELETE /apisix/admin/routes/%0a%1b[31m 404 null",
        "admin o\nps BREW /apisix/admin/routes/1 404 null",
        "control null POST /v1/gc 200 null",
        "control null PUT /v1/nothing 404 null",
    ];
    assert_eq!(lines(read, expected.len()), expected);
    assert!(read().contains(r#""key":"o\nps""#), "escaped: {}", read());
    assert_eq!(fs::metadata(&file).expect("a log").permissions().mode() & 0o777, 0o640);

    // logrotate moves the file, and says so.
    let moved = file.with_extension("1");
    fs::rename(&file, &moved).expect("moved");
    gateway.process.signal(Signal::USR1);
    let again = || fs::read_to_string(&file).unwrap_or_default();
    eventually("the log is opened again", || file.exists());
    assert_eq!(admin("DELETE", "/routes/1", &key, ""), 404);
    assert_eq!(lines(again, 1), ["admin o\nps DELETE /apisix/admin/routes/1 404 null"]);
}

#[test]
fn what_a_client_wrote_without_waiting_is_on_record() {
    let gateway = Gateway::start(&config(""), None);
    let length = ROUTE.len();
    for id in 0..100 {
        let mut client = Client::connect(gateway.admin).expect("connects");
        let request = format!(
            "PUT /apisix/admin/routes/{id}?wait=applied HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\n\
             Content-Length: {length}\r\n\r\n{ROUTE}"
        );
        client.send(request.as_bytes()).expect("sent");
    }
    let file = gateway.prefix().join("logs/audit.log");
    let read = || fs::read_to_string(&file).unwrap_or_default();
    // Some may not have been read before their client was gone: those were not done either.
    let written = |id: &usize| gateway.admin("GET", &format!("/apisix/admin/routes/{id}"), "").0 == 200;
    for id in (0..100).filter(written) {
        let line = format!("/apisix/admin/routes/{id}\"");
        eventually(format_args!("route {id} has a line"), || read().contains(&line));
    }
}

#[test]
fn the_lines_go_where_logs_go() {
    let gateway = Gateway::start(&config("    audit_log: /dev/stderr\n"), None);
    let refused = ask(gateway.admin, "PUT", "/apisix/admin/routes/1", "", ROUTE);
    assert_eq!(refused, 401);
    gateway.process.wait_for_output(r#""method":"PUT","path":"/apisix/admin/routes/1","status":401"#);
    assert!(!gateway.prefix().join("logs/audit.log").exists());
    // A log that cannot be written fails the start, as the others do.
    let mut gateway = Gateway::start_unready(&config("    audit_log: /proc/none/audit.log\n"), None);
    assert!(!gateway.process.wait_for_exit().success());
    gateway.process.wait_for_output("/proc/none");
}

#[test]
fn whole_configurations_are_on_record() {
    let config = EMBEDDED.replace("config_provider: embedded", "config_provider: yaml");
    let mut gateway = Gateway::start_unready(&config, None);
    gateway.process.wait_for_port(gateway.admin);
    let fields = |digest: &str| format!("X-API-KEY: {ADMIN_KEY}\r\nX-Digest: {digest}\r\n");
    let put =
        |digest: &str, body: &str| ask(gateway.admin, "PUT", "/apisix/admin/configs", &fields(digest), body);
    assert_eq!(put("1", &format!(r#"{{"routes":[{ROUTE}]}}"#)), 202);
    assert_eq!(put("1", "{}"), 204);
    assert_eq!(put("2", r#"{"routes":[{"id":1}]}"#), 400);
    let file = gateway.prefix().join("logs/audit.log");
    let expected = [
        "admin admin PUT /apisix/admin/configs 202 1",
        "admin admin PUT /apisix/admin/configs 204 null",
        "admin admin PUT /apisix/admin/configs 400 null",
    ];
    assert_eq!(lines(|| fs::read_to_string(&file).unwrap_or_default(), 3), expected);
}
