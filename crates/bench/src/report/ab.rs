//! The lines of ab. Without its `Waiting` row: the time to the first byte is not measured apart.

use std::fmt::Write;

use crate::{Outcome, outcome::latency::Latency, target::Origin};

pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let (origin, path) = match Origin::parse(&outcome.url) {
        Ok((origin, path)) => (Some(origin), path),
        Err(_) => (None, "/".into()),
    };
    let host = origin.as_ref().map_or_else(String::new, |origin| origin.host.clone());
    let port = origin.as_ref().map_or_else(String::new, |origin| origin.port.to_string());
    let document = outcome.body_bytes.checked_div(outcome.requests).unwrap_or(0);
    let (requests, seconds) = (outcome.requests, outcome.seconds.max(1e-9));
    let each = seconds * 1000.0 / requests.max(1) as f64;
    // An empty name is an empty line.
    let mut lines = vec![
        ("Server Software", outcome.server_software.clone()),
        ("Server Hostname", host),
        ("Server Port", port),
        ("", String::new()),
        ("Document Path", path),
        ("Document Length", format!("{document} bytes")),
        ("", String::new()),
        ("Concurrency Level", outcome.connections.to_string()),
        ("Time taken for tests", format!("{seconds:.3} seconds")),
        ("Complete requests", requests.to_string()),
        ("Failed requests", outcome.failed().to_string()),
    ];
    if outcome.bad_statuses > 0 {
        lines.push(("Non-2xx responses", outcome.bad_statuses.to_string()));
    }
    if outcome.keep_alive {
        lines.push(("Keep-Alive requests", requests.saturating_sub(outcome.server_closes).to_string()));
    }
    lines.extend([
        ("Total transferred", format!("{} bytes", outcome.bytes_in)),
        ("HTML transferred", format!("{} bytes", outcome.body_bytes)),
        ("Requests per second", format!("{:.2} [#/sec] (mean)", outcome.requests_per_second())),
        ("Time per request", format!("{:.3} [ms] (mean)", each * outcome.connections as f64)),
        ("Time per request", format!("{each:.3} [ms] (mean, across all concurrent requests)")),
        ("Transfer rate", format!("{:.2} [Kbytes/sec] received", outcome.bytes_in as f64 / 1024.0 / seconds)),
    ]);
    for (name, value) in lines {
        if name.is_empty() {
            writeln!(out)?;
        } else {
            writeln!(out, "{:<24}{value}", format!("{name}:"))?;
        }
    }
    connection_times(out, outcome)?;
    percentages(out, &outcome.latency)
}

fn connection_times(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(out, "\nConnection Times (ms)\n              min  mean[+/-sd] median   max")?;
    let mut row = |name: &str, latency: &Latency| {
        let ms = |us: f64| us / 1000.0;
        writeln!(
            out,
            "{name:<12}{:>5.0} {:>4.0} {:>5.1} {:>6.0} {:>7.0}",
            ms(latency.min_us),
            ms(latency.mean_us),
            ms(latency.stdev_us),
            ms(latency.at(50.0)),
            ms(latency.max_us)
        )
    };
    row("Connect:", &outcome.connect)?;
    row("Total:", &outcome.latency)
}

fn percentages(out: &mut String, latency: &Latency) -> std::fmt::Result {
    writeln!(out, "\nPercentage of the requests served within a certain time (ms)")?;
    for percent in [50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0] {
        writeln!(out, "{percent:>4}%{:>7.0}", latency.at(percent) / 1000.0)?;
    }
    writeln!(out, " 100%{:>7.0} (longest request)", latency.max_us / 1000.0)
}
