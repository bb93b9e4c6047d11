//! What the workers count, each place of a worker with those that had it before.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate_proxy::{
    Workers,
    stats::WorkerStats,
    workers::{SeatStats, Stuck},
};
use tidegate_telemetry::metrics::{Kind, TextWriter};

type Field = fn(&WorkerStats) -> &AtomicU64;

/// Gives a metric its prefix.
type Naming<'a> = &'a dyn Fn(&str) -> String;

pub(super) fn collect(writer: &mut TextWriter, name: Naming<'_>, workers: &Workers) {
    let seats = workers.stats();
    collect_connections(writer, name, &seats);
    collect_lateness(writer, name, &seats);
    collect_stalls(writer, name, &seats);
    collect_stuck(writer, name, workers);
    collect_dropped(writer, name, &seats);
}

fn collect_connections(writer: &mut TextWriter, name: Naming<'_>, seats: &[SeatStats]) {
    let count = |of: Field| seats.iter().map(|seat| seat.count(of)).sum::<u64>() as f64;
    let gauge = |of: Field| seats.iter().map(|seat| seat.gauge(of)).sum::<u64>() as f64;
    let accepted = count(|stats| &stats.accepted);
    let (active, idle) = (gauge(|stats| &stats.active), gauge(|stats| &stats.idle));
    let connections = name("nginx_http_current_connections");
    writer.family(&connections, "Number of HTTP connections", Kind::Gauge);
    let states = [
        ("accepted", accepted),
        ("active", active),
        ("handled", accepted - count(|stats| &stats.refused)),
        ("reading", 0.0),
        ("waiting", idle),
        ("writing", (active - idle).max(0.0)),
    ];
    for (state, value) in states {
        writer.sample(&connections, &[("state", state)], value);
    }
    let each = name("worker_connections");
    writer.family(&each, "Open connections of clients by worker", Kind::Gauge);
    for (index, seat) in seats.iter().enumerate() {
        let open = seat.gauge(|stats| &stats.active) as f64;
        writer.sample(&each, &[("worker", &index.to_string())], open);
    }
    let requests = name("http_requests_total");
    let help = "The total number of client requests since the gateway started";
    writer.family(&requests, help, Kind::Gauge);
    writer.sample(&requests, &[], count(|stats| &stats.requests));
    let panics = name("worker_panics_total");
    writer.family(&panics, "Requests that ended in a panic", Kind::Counter);
    writer.sample(&panics, &[], count(|stats| &stats.panics));
}

fn collect_lateness(writer: &mut TextWriter, name: Naming<'_>, seats: &[SeatStats]) {
    let stall = name("worker_longest_stall_seconds");
    writer.family(&stall, "Longest delay of a worker's event loop since the last scrape", Kind::Gauge);
    for (index, seat) in seats.iter().enumerate() {
        let late_us = seat.all().map(|stats| stats.stall_us.swap(0, Relaxed)).max().unwrap_or_default();
        writer.sample(&stall, &[("worker", &index.to_string())], late_us as f64 / 1e6);
    }
    let unscheduled = name("worker_stall_without_processor_seconds_total");
    let help = "The part of worker_stall_seconds in which the worker had no CPU";
    writer.family(&unscheduled, help, Kind::Counter);
    for (index, seat) in seats.iter().enumerate() {
        let seconds = seat.count(|stats| &stats.unscheduled_us) as f64 / 1e6;
        writer.sample(&unscheduled, &[("worker", &index.to_string())], seconds);
    }
}

/// Only what took over a millisecond is measured, so the shortest are missing.
fn collect_stalls(writer: &mut TextWriter, name: Naming<'_>, seats: &[SeatStats]) {
    let name = name("worker_stall_seconds");
    writer.family(&name, "How long tasks of over 1 ms blocked their worker", Kind::Histogram);
    let (bucket, total, count_name) =
        (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
    for (index, seat) in seats.iter().enumerate() {
        let worker = index.to_string();
        let mut count = 0;
        for position in 0..=tidegate_proxy::stats::BOUNDS_US.len() {
            let stalls = seat.all().filter_map(|stats| stats.stalls.get(position));
            count += stalls.map(|stalls| stalls.load(Relaxed)).sum::<u64>();
            let bound = tidegate_proxy::stats::BOUNDS_US.get(position).map(|us| *us as f64 / 1e6);
            let bound = bound.map_or_else(|| "+Inf".to_owned(), |seconds| writer.bound(seconds));
            writer.sample(&bucket, &[("worker", &worker), ("le", &bound)], count as f64);
        }
        let seconds = seat.count(|stats| &stats.stalled_us) as f64 / 1e6;
        writer.sample(&total, &[("worker", &worker)], seconds);
        writer.sample(&count_name, &[("worker", &worker)], count as f64);
    }
}

/// Workers that did not come back, and the threads of theirs that still have not.
fn collect_stuck(writer: &mut TextWriter, name: Naming<'_>, workers: &Workers) {
    let total = name("worker_stuck_total");
    writer.family(&total, "Workers replaced because they were stuck for over a second", Kind::Counter);
    for (Stuck { worker, route, plugin }, count) in workers.stuck() {
        let worker = worker.to_string();
        writer.sample(&total, &[("worker", &worker), ("route", &route), ("plugin", plugin)], count as f64);
    }
    let threads = name("worker_stuck_threads");
    writer.family(&threads, "Threads of replaced workers that are still stuck", Kind::Gauge);
    writer.sample(&threads, &[], workers.lost_threads() as f64);
}

fn collect_dropped(writer: &mut TextWriter, name: Naming<'_>, seats: &[SeatStats]) {
    let name = name("request_headers_dropped_total");
    let help = "Headers and trailers of clients that were dropped because only the gateway may send them";
    writer.family(&name, help, Kind::Counter);
    let counts: Vec<_> = seats.iter().flat_map(SeatStats::all).map(|stats| stats.dropped.counts()).collect();
    for (index, (reason, _)) in counts.first().into_iter().flatten().enumerate() {
        let sum: u64 = counts.iter().filter_map(|counts| counts.get(index)).map(|(_, count)| count).sum();
        writer.sample(&name, &[("reason", reason)], sum as f64);
    }
}
