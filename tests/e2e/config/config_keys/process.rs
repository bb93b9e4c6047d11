//! Threads, limits and the end of the process.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::{PATIENCE, Upstream, eventually};

use super::standalone;

const ROUTES: &str = "routes:\n- {id: 1, uri: /hello, plugins: {mocking: {response_example: fine}}}\n";

/// The folders in /proc of a gateway's threads whose names begin like this.
fn threads(gateway: &Gateway, name: &str) -> Vec<PathBuf> {
    // Whoever answers has started them.
    gateway.client().get("h", "/hello").expect("an answer");
    let tasks = fs::read_dir(format!("/proc/{}/task", gateway.process.id())).expect("the process is there");
    tasks
        .flatten()
        .map(|task| task.path())
        .filter(|task| fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(name)))
        .collect()
}

#[test]
fn workers_are_as_many_as_the_file_says_and_where_it_says() {
    let workers = ("nginx_config.worker_processes", json!(3));
    let of = |keys: &[(&str, serde_json::Value)]| Gateway::start(&standalone(keys), Some(ROUTES));
    let gateway = of(std::slice::from_ref(&workers));
    // A thread names itself.
    eventually("three workers", || threads(&gateway, "worker-").len() == 3);
    let developing = of(&[workers.clone(), ("apisix.enable_dev_mode", json!(true))]);
    assert_eq!(threads(&developing, "worker-").len(), 1);
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return;
    }
    for tied in [true, false] {
        let gateway = of(&[workers.clone(), ("nginx_config.enable_cpu_affinity", json!(tied))]);
        let on_one_core = |task: &PathBuf| {
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            list.is_some_and(|list| list.trim().parse::<usize>().is_ok())
        };
        let deadline = Instant::now() + PATIENCE;
        while threads(&gateway, "worker-").iter().all(on_one_core) != tied {
            assert!(Instant::now() < deadline, "enable_cpu_affinity: {tied}");
            let _ = gateway.client().get("h", "/hello");
        }
    }
}

#[test]
fn connections_of_a_worker_have_a_limit() {
    let config = standalone(&[("nginx_config.event.worker_connections", json!(5))]);
    let gateway = Gateway::start(&config, Some(ROUTES));
    // Busy ones: idle ones give way to others.
    let mut open = Vec::new();
    let mut kept = 0;
    for _ in 0..10 {
        let mut stream = TcpStream::connect(gateway.http).expect("the queue takes it");
        stream.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
        let _ = stream.write_all(b"GET /hello HTTP/1.1\r\nHost: h\r\n");
        let ended = stream.read(&mut [0; 512]);
        kept += usize::from(ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
        open.push(stream);
    }
    // The port was tried before, and that connection may be open still.
    assert!((3..=5).contains(&kept), "{kept} of {} have room", open.len());
}

#[test]
fn a_graceful_stop_waits_as_long_as_it_may() {
    let upstream = Upstream::start();
    let routes =
        format!("routes:\n- {{id: 1, uri: /*, upstream: {{nodes: {{\"{}\": 1}}}}}}\n", upstream.address);
    let config = standalone(&[("nginx_config.worker_shutdown_timeout", json!("700ms"))]);
    let mut gateway = Gateway::start(&config, Some(&routes));
    let mut client = gateway.client();
    client.send(b"GET /silent HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    let deadline = Instant::now() + PATIENCE;
    while upstream.seen().is_empty() {
        assert!(Instant::now() < deadline, "the request never arrived");
        std::thread::yield_now();
    }
    let asked = Instant::now();
    gateway.process.signal(Signal::QUIT);
    gateway.process.wait_for_exit();
    assert!(asked.elapsed() >= Duration::from_millis(600), "the request had time: {:?}", asked.elapsed());
}

/// As in nginx, 0 means unlimited.
#[test]
fn a_graceful_stop_without_a_limit_waits_for_the_answer() {
    let upstream = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = upstream.local_addr().expect("an address");
    let routes = format!("routes:\n- {{id: 1, uri: /*, upstream: {{nodes: {{\"{address}\": 1}}}}}}\n");
    let config = standalone(&[("nginx_config.worker_shutdown_timeout", json!(0))]);
    let mut gateway = Gateway::start(&config, Some(&routes));
    let mut client = gateway.client();
    client.send(b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    let (mut node, _) = upstream.accept().expect("a connection");
    gateway.process.signal(Signal::QUIT);
    let http = gateway.http;
    eventually("the gateway accepts nothing more", || TcpStream::connect(http).is_err());
    node.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate").expect("answers");
    assert_eq!(client.response().expect("an answer").body_text(), "late");
    gateway.process.wait_for_exit();
}

#[test]
fn threads_that_read_files_are_as_many_as_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.txt"), "text").expect("a file");
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, plugins: {{static-files: {{root: {}}}}}}}\n",
        folder.path().display()
    );
    let config =
        standalone(&[("plugins", json!(["static-files"])), ("plugin_attr.static-files.threads", json!(2))]);
    let gateway = Gateway::start(&config, Some(&routes));
    assert_eq!(gateway.client().get("h", "/a.txt").expect("an answer").body_text(), "text");
    assert_eq!(threads(&gateway, "disk-").len(), 2);
}

#[test]
fn functions_have_the_time_that_the_file_gives() {
    let routes = r#"routes:
- {id: 1, uri: /*, plugins: {serverless-pre-function: {phase: rewrite, functions: ["return function() while true do end end"]}}}
"#;
    for (key, limit) in [
        ("plugin_attr.serverless.time_limit_ms", 7),
        ("plugin_attr.serverless-pre-function.time_limit_ms", 9),
    ] {
        let gateway = Gateway::start(&standalone(&[(key, json!(limit))]), Some(routes));
        assert_eq!(gateway.client().get("h", "/").expect("an answer").status(), 500, "{key}");
        let wanted = format!("time limit of {limit} ms exceeded");
        let deadline = Instant::now() + PATIENCE;
        while !gateway.error_log().contains(&wanted) {
            assert!(Instant::now() < deadline, "{key}: {}", gateway.error_log());
            let _ = gateway.client().get("h", "/");
        }
    }
}

#[test]
fn times_of_clients_are_those_of_the_file() {
    for (time, silent) in [("100ms", false), ("60s", true)] {
        let config = standalone(&[("nginx_config.http.keepalive_timeout", json!(time))]);
        let gateway = Gateway::start(&config, Some(ROUTES));
        let mut client = gateway.client();
        assert_eq!(client.get("h", "/hello").expect("an answer").status(), 200);
        // The end of a connection is not a silence.
        let limit = if silent { Duration::from_millis(500) } else { PATIENCE };
        assert_eq!(client.stays_silent(limit), silent, "keepalive_timeout: {time}");
    }
}
