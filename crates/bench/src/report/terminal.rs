//! Our own form: what was done, what came out, what stands out.

mod parts;

use std::fmt::Write;

use super::{
    beyond,
    units::{bytes, count, percent, time},
};
use crate::{Outcome, outcome::latency::Latency};

pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let model = outcome.model();
    if let Some(pending) = pending(outcome) {
        writeln!(out, "{pending}")?;
    }
    writeln!(out, "{}", outcome.url)?;
    writeln!(
        out,
        "  {}, {} connections, {} threads, {model}, {:.2} s{}",
        outcome.protocol,
        outcome.connections,
        outcome.threads,
        outcome.seconds,
        match (outcome.interrupted, outcome.warm_up) {
            (true, _) => ", interrupted",
            (false, true) => ", each connection warmed up with one request",
            (false, false) => "",
        }
    )?;
    writeln!(out)?;
    let total = outcome.requests;
    writeln!(out, "  requests    {} ({:.0}/s)", count(total), outcome.requests_per_second())?;
    writeln!(
        out,
        "  received    {} ({}/s)",
        bytes(outcome.bytes_in as f64),
        bytes(outcome.bytes_in as f64 / outcome.seconds.max(1e-9))
    )?;
    let statuses: Vec<String> =
        outcome.statuses.iter().map(|(status, number)| format!("{status}: {}", count(*number))).collect();
    writeln!(out, "  statuses    {}", if statuses.is_empty() { "none".into() } else { statuses.join(", ") })?;
    for (name, value) in beyond::rows(outcome) {
        writeln!(out, "  {name:<11} {value}")?;
    }
    failures(out, outcome)?;
    writeln!(out)?;
    latencies(out, outcome)?;
    parts::write(out, outcome)?;
    writeln!(out)?;
    processes(out, outcome)?;
    findings(out, outcome)
}

/// The first line where connections never opened: whatever follows is about the others.
fn pending(outcome: &Outcome) -> Option<String> {
    if outcome.unopened == 0 {
        return None;
    }
    let counters = &outcome.counters;
    Some(format!(
        "{} of {} connections never opened; queues of listeners on this machine overflowed {} times, {} connects were dropped there",
        outcome.unopened, outcome.connections, counters.listen_overflows, counters.listen_drops
    ))
}

fn failures(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if outcome.bad_statuses > 0 {
        let share = percent(outcome.bad_statuses, outcome.requests);
        writeln!(out, "  bad status  {} ({share})", count(outcome.bad_statuses))?;
    }
    if outcome.failed() > 0 {
        writeln!(out, "  failed      {}", count(outcome.failed()))?;
        for (message, number) in outcome.messages.iter().take(5) {
            writeln!(out, "              {} x {message}", count(*number))?;
        }
    }
    if outcome.unfinished > 0 && outcome.oldest_unfinished_ms > outcome.latency.max_us / 1000.0 {
        let oldest = time(outcome.oldest_unfinished_ms * 1000.0);
        writeln!(out, "  unanswered  {} at the end, the oldest for {oldest}", outcome.unfinished)?;
    }
    if outcome.unsent > 0 {
        writeln!(out, "  not sent    {} were due but no connection was free", count(outcome.unsent))?;
    }
    Ok(())
}

fn latencies(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let seen = outcome.seen();
    let columns: Vec<(&str, &Latency)> = match &outcome.corrected {
        Some(corrected) => vec![("corrected", corrected), ("raw", &outcome.latency)],
        None => vec![("latency", seen)],
    };
    write!(out, "  {:<10}", "")?;
    columns.iter().try_for_each(|(name, _)| write!(out, "{name:>12}"))?;
    writeln!(out)?;
    let rows: [(&str, fn(&Latency) -> f64); 9] = [
        ("mean", |latency| latency.mean_us),
        ("p50", |latency| latency.at(50.0)),
        ("p75", |latency| latency.at(75.0)),
        ("p90", |latency| latency.at(90.0)),
        ("p95", |latency| latency.at(95.0)),
        ("p99", |latency| latency.at(99.0)),
        ("p99.9", |latency| latency.at(99.9)),
        ("p99.99", |latency| latency.at(99.99)),
        ("max", |latency| latency.max_us),
    ];
    for (name, of) in rows {
        write!(out, "  {name:<10}")?;
        columns.iter().try_for_each(|(_, latency)| write!(out, "{:>12}", time(of(latency))))?;
        writeln!(out)?;
    }
    if outcome.corrected.is_some() {
        writeln!(out, "  (corrected: from the moment a request was due, as a user waits)")?;
    }
    let first = &outcome.first_byte;
    if first.count > 0 {
        let [p50, p99, max] = [first.at(50.0), first.at(99.0), first.max_us].map(time);
        writeln!(out, "  first byte  p50 {p50}, p99 {p99}, max {max}")?;
    }
    let connect = &outcome.connect;
    if connect.count > 0 {
        writeln!(
            out,
            "  connects    {}, p50 {}, max {}",
            count(connect.count),
            time(connect.at(50.0)),
            time(connect.max_us)
        )?;
    }
    if let Some(after) = outcome.lives.regular() {
        let notice =
            if outcome.lives.announced == outcome.lives.closed { "with notice" } else { "without notice" };
        writeln!(
            out,
            "  closes      {} by the server, after {after} answers each, {notice}",
            count(outcome.lives.closed)
        )?;
    }
    if let Some(handshake) = &outcome.tls_handshake {
        writeln!(out, "  with TLS    p50 {}, max {}", time(handshake.at(50.0)), time(handshake.max_us))?;
    }
    Ok(())
}

fn processes(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let client = &outcome.client;
    let each = client.cpu_seconds * 1e6 / outcome.requests.max(1) as f64;
    writeln!(
        out,
        "  client      {each:.2} us CPU per request, busiest thread {:.0} % of a core",
        client.busiest_thread * 100.0
    )?;
    if let Some(server) = outcome.server.as_ref().filter(|server| server.is_gone) {
        writeln!(out, "  server      CPU not measured: the process of {} ended during the run", server.name)?;
    }
    if let (Some(server), Some(each)) = (&outcome.server, outcome.server_cpu_us()) {
        writeln!(
            out,
            "  server      {each:.2} us CPU per request, {:.0} % of a core, {} ({} processes, {})",
            100.0 * server.cpu_seconds / outcome.seconds.max(1e-9),
            server.name,
            server.processes,
            bytes(server.memory_kib as f64 * 1024.0)
        )?;
    }
    Ok(())
}

fn findings(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    for finding in &outcome.findings {
        writeln!(out)?;
        writeln!(out, "  ! {} [{}]", finding.title, finding.name)?;
        for line in &finding.evidence {
            writeln!(out, "    - {line}")?;
        }
        writeln!(out, "    -> {}", finding.remedy)?;
    }
    Ok(())
}
