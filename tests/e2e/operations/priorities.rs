//! Workers have the priority that the service was started with; what is not a request has a lower one.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{EMBEDDED, binary};
use tidegate_testkit::{Client, Gateway};

const STARTED_WITH: i32 = 3;

/// The nice value of each of a process's threads, by name.
fn nice_values(pid: i32) -> BTreeMap<String, i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("threads");
    let of = |task: fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm")).ok()?.trim().to_owned();
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        // The name, in brackets, may hold spaces.
        let nice = stat.rsplit_once(')')?.1.split_whitespace().nth(16)?.parse().ok()?;
        Some((name, nice))
    };
    tasks.filter_map(|task| of(task.ok()?)).collect()
}

#[test]
fn workers_keep_the_priority_of_the_service() {
    let base = rustix::process::getpriority_process(None).expect("a priority") + STARTED_WITH;
    let mut gateway = Gateway::start_by(EMBEDDED, None, |prefix| {
        let mut command = Command::new("nice");
        command.args(["-n", &STARTED_WITH.to_string()]).arg(binary());
        command.arg("run").arg("--prefix").arg(prefix).arg("-c").arg(prefix.join("conf/config.yaml"));
        command
    });
    gateway.process.wait_for_port(gateway.http);
    // A write, and a page that is made by a thread of a thread.
    let (code, answer) = gateway.admin(
        "PUT",
        "/apisix/admin/routes/1",
        r#"{"uri":"/a","plugins":{"mocking":{"response_example":"x"}}}"#,
    );
    assert!(code < 300, "{answer}");
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    assert_eq!(client.get("h", "/apisix/prometheus/metrics").expect("a page").status(), 200);
    let values = nice_values(gateway.pid().expect("the gateway runs"));
    let lowered =
        ["control", "compiler", "log-writer", "last-good", "store-writer", "stats", "field-log", "memory"];
    assert!(
        values.contains_key("worker-0") && lowered.iter().all(|name| values.contains_key(*name)),
        "{values:?}"
    );
    for (name, nice) in &values {
        let expected = match name.as_str() {
            "log-writer" => base + 5,
            name if lowered.contains(&name) => base + 10,
            _ => base,
        };
        assert_eq!(*nice, expected.min(19), "{name}: {values:?}");
    }
}

/// A tenth of a core is enough for these; hours of it would not be (SCHED_IDLE beside a process that takes all).
const SOON: Duration = Duration::from_secs(5);

#[test]
fn changes_and_pages_get_through_beside_a_worker_that_takes_a_whole_core() {
    let mut gateway = Gateway::start_by(EMBEDDED, None, |prefix| {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(binary());
        command.arg("run").arg("--prefix").arg(prefix).arg("-c").arg(prefix.join("conf/config.yaml"));
        command
    });
    gateway.process.wait_for_port(gateway.http);
    let compute = r#"return function() local sum = 0; for number = 1, 100000 do sum = sum + number end end"#;
    let plugins = serde_json::json!({"serverless-pre-function": {"functions": [compute]}, "mocking": {"response_example": "x"}});
    let route = serde_json::json!({"uri": "/busy", "plugins": plugins}).to_string();
    let (code, answer) = gateway.admin("PUT", "/apisix/admin/routes/busy", &route);
    assert!(code < 300, "{answer}");
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = gateway.client();
                while !over.load(Ordering::Relaxed) {
                    assert_eq!(client.get("h", "/busy").expect("an answer").status(), 200);
                }
            });
        }
        let (mut writes, mut pages) = (Vec::new(), Vec::new());
        for number in 0..5 {
            let begun = Instant::now();
            let path = format!("/apisix/admin/routes/{number}?wait=applied&wait_timeout=30");
            let body =
                format!(r#"{{"uri":"/r{number}","plugins":{{"mocking":{{"response_example":"x"}}}}}}"#);
            let (code, answer) = gateway.admin("PUT", &path, &body);
            writes.push(begun.elapsed());
            assert!(code < 300, "{answer}");
            let begun = Instant::now();
            let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
            assert_eq!(client.get("h", "/apisix/prometheus/metrics").expect("a page").status(), 200);
            pages.push(begun.elapsed());
        }
        over.store(true, Ordering::Relaxed);
        println!("writes {writes:?}, pages {pages:?}");
        assert!(writes.iter().chain(&pages).all(|time| *time < SOON), "writes {writes:?}, pages {pages:?}");
    });
}
