//! limit-count with `sync_interval` over several gateways: how many requests a window lets through beyond its quota.

use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use tidegate_testkit::gateway::{self, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Upstream, servers};

const GATEWAYS: u64 = 4;
/// In one window of [`WINDOW`] seconds.
const QUOTA: u64 = 100;
const WINDOW: u64 = 6;
const INTERVAL: u64 = 1;
/// Requests per second at each gateway, for [`SECONDS`]: twice the quota in all.
const RATE: u64 = 10;
const SECONDS: u64 = 5;

/// How many responses of each class an even load gets.
fn load(gateway: &Gateway) -> Value {
    let output = Command::new(gateway::binary())
        .args(["bench", &format!("http://{}/", gateway.http), "-c", "1", "-t", "1", "--style", "json"])
        .args(["-R", &RATE.to_string(), "-n", &(RATE * SECONDS).to_string(), "--accept-status", "429"])
        .stdin(Stdio::null())
        .output()
        .expect("tidegate bench runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// What docs/plugins/limit-count.md states: beyond its quota a window lets through what arrives within two intervals, at most.
#[test]
fn a_window_lets_through_no_more_than_two_intervals_bring() {
    let redis = servers::redis(&[]);
    let upstream = Upstream::start();
    let routes = format!(
        "routes:\n- {{id: a, uri: /*, plugins: {{limit-count: {{count: {QUOTA}, time_window: {WINDOW}, key: all, \
         key_type: constant, rejected_code: 429, policy: redis, redis_host: 127.0.0.1, redis_port: {}, \
         sync_interval: {INTERVAL}}}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
        redis.address.port(),
        upstream.address
    );
    let gateways: Vec<Gateway> =
        (0..GATEWAYS).map(|_| Gateway::start(YAML_PROVIDER, Some(&routes))).collect();
    let found: Vec<Value> = thread::scope(|scope| {
        let loads: Vec<_> = gateways.iter().map(|gateway| scope.spawn(|| load(gateway))).collect();
        loads.into_iter().map(|load| load.join().expect("a load")).collect()
    });
    let passed = u64::try_from(upstream.seen().len()).expect("a number");
    println!("{passed} of {} let through, quota {QUOTA}", GATEWAYS * RATE * SECONDS);
    assert!(passed >= QUOTA, "{passed}: {found:?}");
    // Two intervals, and a quarter of a second each for a write on a busy machine.
    let most = QUOTA + GATEWAYS * RATE * (2 * INTERVAL * 4 + 2) / 4;
    assert!(passed <= most, "{passed} of at most {most}: {found:?}");
    let answered: u64 = found.iter().filter_map(|one| one["requests"].as_u64()).sum();
    assert_eq!(answered, GATEWAYS * RATE * SECONDS, "{found:?}");
}
