//! The stall watch: a plugin that keeps its worker busy is counted and named.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, PATIENCE};

const BUSY: &str = r##"routes:
  - id: busy
    uri: /busy
    plugins:
      serverless-pre-function:
        phase: access
        functions:
          - "return function() local t = os.clock() while os.clock() - t < 0.03 do end ngx.exit(204) end"
  - {id: quick, uri: /quick, plugins: {mocking: {response_status: 204, response_example: x}}}
#END
"##;

fn page(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text()
}

/// Of all workers together.
fn count(page: &str, name: &str) -> f64 {
    let lines =
        page.lines().filter(|line| line.starts_with(name) && line.as_bytes().get(name.len()) == Some(&b'{'));
    lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// On a machine that has no processor to spare a stall is not warned of: at level debug it is told.
fn telling_all() -> String {
    YAML_PROVIDER.replace("nginx_config:", "nginx_config:\n  error_log_level: debug")
}

#[test]
fn a_plugin_that_computes_is_named() {
    let gateway = Gateway::start(&telling_all(), Some(BUSY));
    let mut client = gateway.client();
    for _ in 0..3 {
        assert_eq!(client.get("h", "/busy").expect("an answer").status(), 204);
        assert_eq!(client.get("h", "/quick").expect("an answer").status(), 204);
    }
    // The page is rendered again each second or so.
    let started = Instant::now();
    let page = loop {
        let page = page(&gateway);
        if count(&page, "apisix_worker_stall_seconds_count") >= 3.0 {
            break page;
        }
        assert!(started.elapsed() < PATIENCE, "three stalls are counted: {page}");
        std::thread::yield_now();
    };
    let total = count(&page, "apisix_worker_stall_seconds_sum");
    assert!(total >= 0.09, "30 ms three times: {total}");
    // One line a second.
    let line = loop {
        let log = gateway.error_log();
        if let Some(line) = log.lines().find(|line| line.contains("access serverless-pre-function")) {
            break line.to_owned();
        }
        assert!(started.elapsed() < PATIENCE, "the plugin is named: {log}");
        assert_eq!(client.get("h", "/busy").expect("an answer").status(), 204);
    };
    assert!(line.contains("was blocked for") && line.contains("without a CPU"), "{line}");
}

/// Waits, and computes when it is at work again: another poll than the one in which the plugin began.
const LATER: &str = r##"routes:
  - id: later
    uri: /later
    plugins:
      serverless-pre-function:
        phase: access
        functions:
          - "return function() ngx.sleep(0.01) local t = os.clock() while os.clock() - t < 0.03 do end ngx.exit(204) end"
#END
"##;

#[test]
fn a_plugin_that_computes_after_it_waited_is_named() {
    let gateway = Gateway::start(&telling_all(), Some(LATER));
    let mut client = gateway.client();
    let started = Instant::now();
    loop {
        assert_eq!(client.get("h", "/later").expect("an answer").status(), 204);
        // One line a second; the first may be of what the plugin did before it waited.
        let log = gateway.error_log();
        let took = |line: &&str| -> Option<f64> {
            line.split_once("was blocked for ")?.1.split_once(" ms")?.0.parse().ok()
        };
        if let Some(line) = log.lines().find(|line| took(line).is_some_and(|ms| ms >= 25.0)) {
            assert!(line.contains("(access serverless-pre-function)"), "{line}");
            return;
        }
        assert!(started.elapsed() < PATIENCE, "never logged: {log}");
    }
}

/// Computes for two milliseconds: counted, and nothing to warn of.
const SHORT: &str = r##"routes:
  - id: short
    uri: /short
    plugins:
      serverless-pre-function:
        phase: access
        functions:
          - "return function() local t = os.clock() while os.clock() - t < 0.002 do end ngx.exit(204) end"
#END
"##;

/// A machine that gives the gateway no processor is not a fault of a task: here it is stopped for longer than is warned of.
#[test]
fn time_without_a_processor_is_not_warned_of() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(SHORT));
    let pid = Pid::from_raw(gateway.process.id() as i32).expect("a process id");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = gateway.client();
            while !done.load(Relaxed) {
                // Lua's time limit counts the time that it was stopped.
                let status = client.get("h", "/short").expect("an answer").status();
                assert!(matches!(status, 204 | 500), "{status}");
            }
        });
        let started = Instant::now();
        // Most stops fall into a poll; some stall of over 50 ms shows that.
        while long_stalls(&page(&gateway)) < 3.0 {
            assert!(started.elapsed() < PATIENCE, "stops are counted as stalls");
            kill_process(pid, Signal::STOP).expect("stops");
            let stopped = Instant::now();
            while stopped.elapsed() < Duration::from_millis(60) {
                std::thread::yield_now();
            }
            kill_process(pid, Signal::CONT).expect("goes on");
        }
        done.store(true, Relaxed);
    });
    let unscheduled = count(&page(&gateway), "apisix_worker_stall_without_processor_seconds_total");
    assert!(unscheduled >= 0.1, "{unscheduled} s without a CPU");
    let log = gateway.error_log();
    assert!(!log.contains("was held up"), "nothing to act on: {log}");
}

/// Stalls of over 50 ms, of all workers.
fn long_stalls(page: &str) -> f64 {
    let within = |bound: &str| -> f64 {
        let end = format!("le=\"{bound}\"}}");
        let lines = page.lines().filter(|line| line.starts_with("apisix_worker_stall_seconds_bucket{"));
        let counts = lines.filter_map(|line| line.rsplit_once(' '));
        counts
            .filter(|(labels, _)| labels.ends_with(&end))
            .filter_map(|(_, count)| count.parse::<f64>().ok())
            .sum()
    };
    within("+Inf") - within("0.05")
}
