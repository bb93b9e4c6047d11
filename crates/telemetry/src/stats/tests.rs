//! Seven days in a second, with a clock of their own.

use std::{fs, path::Path, time::Duration};

use super::*;
use crate::metrics::{ExtraLabels, HTTP_LATENCY_BUCKETS_MS, HttpMetrics, HttpSample, Registry, Shard};

/// A Thursday, at midnight.
const START: u64 = 1_700_000_000 - 1_700_000_000 % 86_400;

struct Traffic {
    registry: Registry,
    metrics: HttpMetrics,
    shard: Shard,
    begun: u64,
}

impl Traffic {
    fn new() -> Traffic {
        let registry = Registry::new("apisix_");
        let metrics = HttpMetrics::register(
            &registry,
            &HTTP_LATENCY_BUCKETS_MS,
            100_000,
            Duration::ZERO,
            &ExtraLabels::default(),
        );
        let shard = registry.shard();
        Traffic { registry, metrics, shard, begun: 0 }
    }

    fn request(&mut self, code: &str, route: usize, consumer: &str, request_us: u64) {
        self.begun += 1;
        let class = u64::from(code.as_bytes()[0]);
        let key = (route as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ class << 3 ^ consumer.len() as u64;
        let name = if route == 0 { String::new() } else { format!("00000000000000{route:06}") };
        let sample = HttpSample { request_us, ingress_bytes: 10, egress_bytes: 20, ..HttpSample::default() };
        self.metrics.record(
            &mut self.shard,
            key,
            |labels| [code, &name, "", "", "", consumer].iter().for_each(|value| labels.push(value)),
            sample,
        );
    }
}

fn take_figures(stats: &Stats, at: u64, traffic: &Traffic) {
    stats.lock().take_again = None;
    stats.take_figures(at, traffic.begun, &traffic.registry);
}

fn sum(view: &View, of: impl Fn(&Count) -> u64) -> u64 {
    view.bins.iter().map(|(_, count)| of(count)).sum()
}

#[test]
fn what_was_counted_is_shown_at_each_resolution() {
    let folder = tempfile::tempdir().expect("a folder");
    let stats = Stats::new(folder.path().join("stats"));
    let mut traffic = Traffic::new();
    for second in 0..100 {
        traffic.request("200", 1, "jo", 1_500);
        traffic.request("404", 0, "", 300);
        if second % 10 == 0 {
            traffic.request("503", 2, "ann", 70_000_000);
        }
        take_figures(&stats, START + second, &traffic);
    }
    for range in [600, 3600, 86_400, 604_800] {
        let view = stats.view(START + 99, range, 10);
        assert_eq!(sum(&view, |count| count.requests), 210, "{range}");
        assert_eq!(sum(&view, |count| count.counted), 210, "{range}");
        assert_eq!(sum(&view, |count| u64::from(count.classes[4])), 10);
        let bucket = |at: usize| sum(&view, |count| u64::from(count.latency[at]));
        assert_eq!((bucket(0), bucket(1), bucket(BUCKETS - 1)), (100, 100, 10));
        let names: Vec<(&str, u64, u64)> = view
            .routes
            .iter()
            .map(|(name, share)| (name.as_str(), share.requests, share.client_errors + share.server_errors))
            .collect();
        assert_eq!(
            names,
            [("", 100, 100), ("00000000000000000001", 100, 0), ("00000000000000000002", 10, 10)]
        );
        assert_eq!(
            view.consumers.first().map(|(name, share)| (name.as_str(), share.latency_100us)),
            Some(("jo", 1500))
        );
        assert_eq!(stats.view(START + 99, range, 1).other_routes.requests, 110);
    }
    assert_eq!(stats.view(START + 99, 600, 1).bins.len(), 100);
    assert_eq!(stats.view(START + 99, 3600, 1).bins.len(), 2);
}

#[test]
fn routes_are_named_from_a_time_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let stats = Stats::new(folder.path().join("stats"));
    let mut traffic = Traffic::new();
    for second in 0..240 {
        (1..=3).for_each(|route| traffic.request("200", route, "", 1_000));
        take_figures(&stats, START + second, &traffic);
    }
    let name = |route: usize| format!("00000000000000{route:06}");
    let only = HashMap::from([(name(1), 0), (name(2), START + 61)]);
    let view = stats.view_of(START + 239, 3600, 9, Some(&only));
    // The second minute of the other one is not over when it begins.
    assert_eq!(
        view.routes.iter().map(|(name, share)| (name.clone(), share.requests)).collect::<Vec<_>>(),
        [(name(1), 240), (name(2), 120)]
    );
    assert_eq!(view.other_routes.requests, 240 + 120);
    assert_eq!(sum(&view, |count| count.requests), 720, "totals are those of all");
    let view = stats.view_of(START + 239, 3600, 9, Some(&HashMap::new()));
    assert_eq!((view.routes.len(), view.other_routes.requests), (0, 720));
}

#[test]
fn the_next_process_goes_on_with_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut traffic = Traffic::new();
    let first = Stats::new(folder.path().to_owned());
    for second in 0..70 {
        traffic.request("200", 1, "", 1_000);
        take_figures(&first, START + second, &traffic);
    }
    // As killed: it has saved five seconds ago at most.
    let saved = first.lock().saved - START + 1;
    assert!(saved > 70 - SAVED_EVERY_S - 1);
    let second = Stats::new(folder.path().to_owned());
    let mut others = Traffic::new();
    others.request("200", 2, "", 1_000);
    take_figures(&second, START + 71, &others);
    assert!(second.view(START + 71, 600, 9).problem.expect("a reason").contains("in use by another process"));
    drop(first);
    take_figures(&second, START + 72, &others);
    for range in [600, 3600, 604_800] {
        let view = second.view(START + 72, range, 9);
        assert_eq!(sum(&view, |count| count.requests), saved + 1, "{range}");
        let requests: Vec<u64> = view.routes.iter().map(|(_, share)| share.requests).collect();
        assert_eq!((requests, view.problem), (vec![saved, 1], None), "{range}");
    }
}

#[test]
fn damage_is_set_aside_and_the_rest_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |from: u64, seconds: u64| {
        let stats = Stats::new(folder.path().to_owned());
        let mut traffic = Traffic::new();
        for second in from..from + seconds {
            traffic.request("200", 1, "", 1_000);
            take_figures(&stats, START + second, &traffic);
        }
        stats.close(START + from + seconds);
        stats.view(START + from + seconds, 86_400, 9)
    };
    assert_eq!(sum(&run(0, 3700), |count| count.requests), 3700);
    let first = folder.path().join(format!("minutes-{START}"));
    let mut bytes = fs::read(&first).expect("a file of the first hour");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    fs::write(&first, bytes).expect("written");
    fs::write(folder.path().join("now"), "nonsense").expect("written");
    let view = run(3700, 20);
    // The first hour is lost, and the 40 seconds of a minute that was not over.
    assert_eq!(sum(&view, |count| count.requests), 60 + 20, "one minute of the second hour");
    assert!(folder.path().join("damaged").exists() && !first.exists());
}

fn bytes_of(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .expect("a folder")
        .flatten()
        .filter_map(|entry| Some(entry.metadata().ok()?.len()))
        .sum()
}

/// So many minutes with so many routes, each asked in each minute. Returns the requests and the bytes of the files as well.
fn busy_minutes(minutes: u64, routes: usize) -> (u64, u64, usize, View) {
    let folder = tempfile::tempdir().expect("a folder");
    let (stats, requests) = fill(folder.path(), minutes, routes);
    let state = stats.lock();
    let named = state.minute.routes.named.len().max(state.ten.routes.named.len());
    drop(state);
    let view = stats.view(START + minutes * 60 - 1, 604_800, 2);
    (requests, bytes_of(folder.path()), named, view)
}

/// Returns the requests as well.
fn fill(folder: &Path, minutes: u64, routes: usize) -> (Stats, u64) {
    let stats = Stats::new(folder.to_owned());
    let traffic = Traffic::new();
    take_figures(&stats, START, &traffic);
    let mut state = stats.lock();
    let kinds: Vec<Period> = (0..7).map(|kind| record::tests::busy(kind * 60, routes)).collect();
    let mut requests = 0;
    for (minute, period) in (0..minutes).zip(kinds.iter().cycle()) {
        let at = START + minute * 60;
        state.roll(at);
        state.add(at, period);
        requests += period.count.requests;
    }
    state.save(START + minutes * 60);
    drop(state);
    (stats, requests)
}

#[test]
fn seven_days_of_1000_routes_fit() {
    let (requests, bytes, _, view) = busy_minutes(7 * 1440, 1_000);
    println!("7 days of 1,000 routes: {bytes} bytes");
    assert!(bytes <= 32 << 20, "{bytes}");
    assert_eq!(sum(&view, |count| count.requests), requests, "all of them");
    let of_routes: u64 = view.routes.iter().map(|(_, share)| share.requests).sum();
    assert_eq!(of_routes + view.other_routes.requests, requests);
}

/// Set in the process that is measured.
const MEASURED: &str = "TIDEGATE_MEASURED_STATS";

/// What is in memory of it, in a process that does nothing else.
#[test]
fn seven_days_of_1000_routes_take_little_memory() {
    if std::env::var_os(MEASURED).is_none() {
        let program = std::env::current_exe().expect("this program");
        let name = "stats::tests::seven_days_of_1000_routes_take_little_memory";
        let mut command = std::process::Command::new(program);
        let output = command.args(["--exact", name, "--nocapture"]).env(MEASURED, "1").output();
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        println!("{text}");
        assert!(output.status.success(), "{text} {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let resident_kb = || {
        let status = fs::read_to_string("/proc/self/status").expect("the status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).expect("VmRSS")
    };
    // What any run of it takes once: the parts of the program, names of routes, the files' buffers.
    busy_minutes(20, 10);
    let before = resident_kb();
    let folder = tempfile::tempdir().expect("a folder");
    let stats = fill(folder.path(), 7 * 1440, 1_000).0;
    let kept = resident_kb() - before;
    let view = stats.view(START + 7 * 86_400 - 1, 604_800, 20);
    let with_a_view = resident_kb() - before;
    println!("7 days of 1,000 routes: {kept} kB resident, {with_a_view} kB with an answer");
    assert!(view.routes.len() == 20 && with_a_view <= 8 << 10, "{kept} kB, {with_a_view} kB");
}

#[test]
fn any_number_of_routes_fits() {
    let (requests, bytes, named, view) = busy_minutes(120, 12_000);
    assert_eq!(sum(&view, |count| count.requests), requests);
    // 132 records of the 2,652 that are kept.
    println!("2 hours of 12,000 routes: {bytes} bytes");
    assert!(bytes * 21 <= 32 << 20 && named <= 10_000, "{bytes} {named}");
}
