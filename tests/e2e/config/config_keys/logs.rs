//! What goes into which log, and what becomes of the files.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use tidegate_testkit::PATIENCE;
use tidegate_testkit::gateway::Gateway;

use super::standalone;

const ROUTES: &str = r#"routes:
- {id: 1, uri: /hello, plugins: {mocking: {response_example: fine}}}
- {id: 2, uri: /dead, upstream: {nodes: {"127.0.0.1:1": 1}, type: roundrobin}}
"#;

fn start(keys: &[(&str, Value)]) -> Gateway {
    Gateway::start(&standalone(keys), Some(ROUTES))
}

/// Asks until a file has the text.
fn wait_for(gateway: &Gateway, request: &str, file: &str, wanted: &str) {
    let path = gateway.prefix().join(file);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let _ = gateway.client().request(request);
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text.contains(wanted) {
            return;
        }
        assert!(Instant::now() < deadline, "{file} has no {wanted:?}: {text}");
    }
}

#[test]
fn lines_of_requests_have_the_format_of_the_file() {
    let request = "GET /hello HTTP/1.1\r\nHost: h\r\nX-Said: a\"b\r\n\r\n";
    for (escape, wanted) in [("default", r"<200 /hello a\x22b>"), ("json", r#"<200 /hello a\"b>"#)] {
        let gateway = start(&[
            ("nginx_config.http.enable_access_log", json!(true)),
            ("nginx_config.http.access_log", json!("logs/requests.log")),
            ("nginx_config.http.access_log_format", json!("<$status $request_uri $http_x_said>")),
            ("nginx_config.http.access_log_format_escape", json!(escape)),
        ]);
        wait_for(&gateway, request, "logs/requests.log", wanted);
        assert!(!gateway.prefix().join("logs/access.log").exists());
    }
    let gateway = start(&[("nginx_config.http.enable_access_log", json!(false))]);
    assert_eq!(gateway.client().get("h", "/hello").expect("an answer").status(), 200);
    assert!(!gateway.prefix().join("logs/access.log").exists());
}

#[test]
fn errors_go_where_the_file_says_from_its_level_on() {
    let request = "GET /dead HTTP/1.1\r\nHost: h\r\n\r\n";
    let gateway = start(&[("nginx_config.error_log", json!("logs/problems.log"))]);
    wait_for(&gateway, request, "logs/problems.log", "127.0.0.1:1");
    assert_eq!(gateway.error_log(), "");
    let quiet = start(&[("nginx_config.error_log_level", json!("emerg"))]);
    assert_eq!(quiet.client().request(request).expect("an answer").status(), 502);
    // A line of before is in the file once a later one could be: the end writes all.
    let mut quiet = quiet;
    quiet.process.stop();
    assert_eq!(quiet.error_log(), "");
}

/// The files of a log that have been moved away.
fn rotated(gateway: &Gateway, ending: &str) -> usize {
    let files = fs::read_dir(gateway.prefix().join("logs")).expect("logs").flatten();
    files.filter(|file| Path::new(&file.file_name()).to_string_lossy().ends_with(ending)).count()
}

#[test]
fn logs_are_rotated_by_time_and_by_size_and_few_are_kept() {
    let keys = |more: &[(&'static str, Value)]| {
        let mut keys = vec![
            ("plugins", json!(["mocking", "log-rotate"])),
            ("nginx_config.http.enable_access_log", json!(true)),
            ("plugin_attr.log-rotate.max_kept", json!(1)),
        ];
        keys.extend_from_slice(more);
        keys
    };
    let request = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";
    for (more, ending) in [
        (vec![("plugin_attr.log-rotate.interval", json!(1))], "__access.log"),
        (vec![("plugin_attr.log-rotate.max_size", json!(200))], "__access.log"),
        (
            vec![
                ("plugin_attr.log-rotate.interval", json!(1)),
                ("plugin_attr.log-rotate.enable_compression", json!(true)),
            ],
            "__access.log.tar.gz",
        ),
    ] {
        let gateway = start(&keys(&more));
        let deadline = Instant::now() + PATIENCE;
        while rotated(&gateway, ending) == 0 {
            assert!(Instant::now() < deadline, "{more:?}");
            let _ = gateway.client().request(request);
        }
        assert_eq!(rotated(&gateway, ending), 1, "max_kept: 1");
    }
}
