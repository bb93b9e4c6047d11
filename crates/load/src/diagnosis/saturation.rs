//! A server that answers no more, however many ask.

use super::finding;
use crate::{Outcome, outcome::Finding, probe::Step, report::units::time};

/// A constant rate that the server does not keep up with: throughput stays flat and latency grows in a line.
pub fn open_model(outcome: &Outcome) -> Option<Finding> {
    let rate = outcome.rate?;
    let achieved = outcome.requests_per_second();
    if outcome.interrupted || outcome.seconds < 0.5 || achieved >= 0.95 * rate {
        return None;
    }
    let slots = &outcome.series.slots;
    let means: Vec<f64> = slots.iter().filter(|slot| slot.count > 0).map(|slot| slot.mean_us).collect();
    let (slope, fit) = line(&means);
    if slope <= 0.0 || fit < 0.7 {
        return None;
    }
    if let Some(few) = few_connections(outcome, rate) {
        return Some(few);
    }
    let per_second = slope * 1000.0 / outcome.series.slot_ms.max(1) as f64;
    let mut evidence = vec![
        format!("{rate:.0} requests/s were wanted, {achieved:.0} were answered"),
        format!("latency grows by {} each second, in a line (r2 {fit:.2})", time(per_second)),
    ];
    if outcome.unsent > 0 {
        evidence.push(format!("{} requests were due at the end and not sent", outcome.unsent));
    }
    Some(finding(
        "saturation",
        format!("saturation: the server answers {achieved:.0} requests/s and no more"),
        evidence,
        "measure latency below that rate (half of it is a fair start), or find what the server lacks: CPU, workers, connections to its upstream",
    ))
}

/// With no queue a request takes its least time; two in a queue take twice of it.
const NO_QUEUE: f64 = 1.6;

/// Requests take no longer than the first one, which found an idle server: what is short is connections to send them on.
fn few_connections(outcome: &Outcome, rate: f64) -> Option<Finding> {
    let (mean, least) = (outcome.latency.mean_us, outcome.latency.min_us);
    if mean > NO_QUEUE * least {
        return None;
    }
    let enough = (rate * mean / 1_000_000.0).ceil() * 1.5;
    let s = if outcome.connections == 1 { "" } else { "s" };
    let evidence = vec![
        format!("{rate:.0} requests/s were wanted, {:.0} were answered", outcome.requests_per_second()),
        format!("each request takes {}, the fastest {}: none waits in the server", time(mean), time(least)),
    ];
    Some(finding(
        FEW_CONNECTIONS,
        format!(
            "too few connections: {} connection{s} carry no more at {} a request",
            outcome.connections,
            time(mean)
        ),
        evidence,
        &format!("give -c {enough:.0} or more, or with HTTP/2 more streams"),
    ))
}

const FEW_CONNECTIONS: &str = "few-connections";

/// With fewer connections the throughput is this share of the run's, or more: the others only wait.
const FLAT: f64 = 0.9;
/// Few answers are counted less exactly; this much is wanted of any number.
const FLAT_OF_FEW: f64 = 0.8;
/// A queue that costs less than this, in microseconds, is nobody's trouble: a fast server that is asked as fast as it can
/// is always full.
const LEAST_QUEUE_US: f64 = 1000.0;
/// How much longer than in proportion a request may take with fewer connections.
const OUT_OF_LINE: f64 = 1.3;

/// The run's throughput stays with half of its connections or fewer (see [`crate::probe`]), and latency falls in
/// proportion. One step that shows it is enough: what disturbs a step lowers its throughput.
pub fn closed_loop(outcome: &Outcome) -> Option<Finding> {
    let rate = usual_rate(outcome);
    let is_flat = |step: &Step| {
        let fewer = step.connections as f64 / outcome.connections.max(1) as f64;
        let flat = (FLAT - 1.0 / (step.requests.max(1) as f64).sqrt()).max(FLAT_OF_FEW);
        step.requests_per_second >= flat * rate
            && step.mean_us <= OUT_OF_LINE * fewer * outcome.latency.mean_us
    };
    let enough = outcome.probe.iter().find(|step| is_flat(step))?;
    if outcome.latency.mean_us - enough.mean_us < LEAST_QUEUE_US {
        return None;
    }
    let mut evidence: Vec<String> = outcome
        .probe
        .iter()
        .map(|step| told(step.connections, step.requests_per_second, step.mean_us))
        .collect();
    let whole = told(outcome.connections, outcome.requests_per_second(), outcome.latency.mean_us);
    evidence.push(format!("{whole}: throughput is flat, latency grows with the connections"));
    if let Some(server) = &outcome.server {
        evidence.push(format!(
            "{} uses {:.0} % of a core, its busiest thread {:.0} %",
            server.name,
            100.0 * cores(outcome),
            100.0 * server.busiest_thread
        ));
    }
    evidence.push(format!(
        "the load generator's busiest thread works {:.0} % of the time",
        outcome.client.busiest_thread * 100.0
    ));
    let full = Full::of(outcome);
    let remedy = format!(
        "{}; for a latency that is not a queue's, measure with -c {} or fewer, or with -R below {rate:.0}",
        full.remedy(),
        enough.connections
    );
    let title = format!("saturation: {rate:.0} requests/s and no more, {}", full.who());
    Some(finding("saturation", title, evidence, &remedy))
}

fn told(connections: usize, rate: f64, mean_us: f64) -> String {
    let s = if connections == 1 { "" } else { "s" };
    format!("{connections} connection{s}: {rate:.0} requests/s, {} each", time(mean_us))
}

/// The throughput to compare with: the whole run's or its second half's, whichever is higher, so that a pause or a cold
/// start does not pass for a limit.
fn usual_rate(outcome: &Outcome) -> f64 {
    let slots = &outcome.series.slots;
    // The last slot may be short.
    let late = slots.get(slots.len() / 2..slots.len().saturating_sub(1)).unwrap_or_default();
    let answers: u64 = late.iter().map(|slot| slot.count).sum();
    let seconds = late.len() as f64 * outcome.series.slot_ms as f64 / 1000.0;
    let late = if late.len() < 4 { 0.0 } else { answers as f64 / seconds };
    outcome.requests_per_second().max(late)
}

/// A thread or machine that works this share of the time has no room left.
const BUSY: f64 = 0.9;
/// A load generator that works this share of the time may be what is full.
const CLIENT_BUSY: f64 = 0.8;
/// A server that works less than this has room.
const ROOM: f64 = 0.7;

/// Cores that threads of which one works at a time use in sum.
const ONE_CORE: (f64, f64) = (0.85, 1.15);

/// Who has no room left, as far as it can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Full {
    Server,
    /// Many threads of the server work, together as much as one.
    OneAtATime,
    /// The server would work if it got a CPU.
    Machine,
    Client,
    /// Not the server's CPU: a lock, a pool, a limit, or what the server asks.
    Behind,
    Unclear,
    /// The server is on another machine, or may not be looked at.
    Unseen,
}

impl Full {
    fn of(outcome: &Outcome) -> Full {
        let client_busy = outcome.client.busiest_thread >= CLIENT_BUSY;
        let Some(server) = &outcome.server else {
            return if client_busy { Full::Client } else { Full::Unseen };
        };
        let cpus = outcome.machine.cpus.max(1) as f64;
        let wanted = server.busiest_thread + server.busiest_waited;
        if server.busiest_thread >= BUSY || cores(outcome) >= BUSY * cpus {
            Full::Server
        } else if cpus > 1.0 && (ONE_CORE.0..ONE_CORE.1).contains(&cores(outcome)) {
            Full::OneAtATime
        } else if wanted >= BUSY {
            Full::Machine
        } else if client_busy {
            Full::Client
        } else if wanted < ROOM && cores(outcome) < ROOM {
            Full::Behind
        } else {
            Full::Unclear
        }
    }

    fn who(self) -> &'static str {
        match self {
            Full::Server => "the server's CPU is full",
            Full::OneAtATime => "the server's threads use one core together: only one works at a time",
            Full::Machine => "the CPUs of this machine are full",
            Full::Client => "the load generator is nearly full",
            Full::Behind => "and the server's CPU is not full: it waits",
            Full::Unclear => "and no CPU is saturated",
            Full::Unseen => "the server or something behind it is full",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Full::Server => {
                "that is what the server can do: more takes more workers or cores, or less work for a request"
            }
            Full::OneAtATime => {
                "look for a lock that all threads take (an interpreter's, an allocator's, a log's), and run several processes instead of threads"
            }
            Full::Machine => {
                "give the server cores of its own (taskset), or run the client on another machine"
            }
            Full::Client => "add threads (-t) before the server is blamed",
            Full::Behind => {
                "look for what lets few requests through at a time: a lock, a pool, a rate limit, a limit of connections, the upstream"
            }
            Full::Unclear => {
                "look at the server's threads one by one, at its locks, and at what is behind it"
            }
            Full::Unseen => {
                "look at CPU and locks of the server, and at what is behind it; none of it can be seen from this machine"
            }
        }
    }
}

fn cores(outcome: &Outcome) -> f64 {
    let cpu = outcome.server.as_ref().map_or(0.0, |server| server.cpu_seconds);
    cpu / outcome.seconds.max(1e-9)
}

/// Slope per step and r2 of the least-squares line.
fn line(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.len() < 4 {
        return (0.0, 0.0);
    }
    let (mean_x, mean_y) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let (dx, dy) = (at as f64 - mean_x, value - mean_y);
        (xy, xx, yy) = (xy + dx * dy, xx + dx * dx, yy + dy * dy);
    }
    if yy == 0.0 { (0.0, 0.0) } else { (xy / xx, xy * xy / (xx * yy)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outcome::{Latency, Series, Server, SlotFigures},
        system::Machine,
    };

    /// 32 connections that got 1,000 requests/s; 8 and 16 got these.
    fn closed_loop_with(eight: f64, sixteen: f64) -> Outcome {
        let step = |connections: usize, requests_per_second: f64| Step {
            connections,
            seconds: 0.4,
            requests: (0.4 * requests_per_second) as u64,
            requests_per_second,
            mean_us: connections as f64 * 1e6 / requests_per_second,
        };
        Outcome {
            connections: 32,
            seconds: 10.0,
            requests: 10_000,
            latency: Latency { mean_us: 32_000.0, ..Latency::default() },
            probe: vec![step(8, eight), step(16, sixteen)],
            machine: Machine { cpus: 4, ..Machine::default() },
            ..Outcome::default()
        }
    }

    #[test]
    fn throughput_that_stays_is_saturation() {
        let remedy =
            |eight, sixteen| closed_loop(&closed_loop_with(eight, sixteen)).map(|found| found.remedy);
        assert!(remedy(980.0, 1010.0).is_some_and(|told| told.contains("with -c 8 or fewer")));
        assert!(remedy(700.0, 950.0).is_some_and(|told| told.contains("with -c 16 or fewer")));
        assert_eq!(remedy(250.0, 500.0), None, "twice the connections get twice as much");
        assert_eq!(remedy(600.0, 830.0), None);
        let unknown = Outcome { probe: Vec::new(), ..closed_loop_with(1000.0, 1000.0) };
        assert_eq!(closed_loop(&unknown), None);
    }

    #[test]
    fn a_short_queue_is_nobody_s_trouble() {
        let mut fast = closed_loop_with(1000.0, 1000.0);
        fast.latency.mean_us /= 40.0;
        fast.probe.iter_mut().for_each(|step| step.mean_us /= 40.0);
        assert_eq!(closed_loop(&fast), None);
    }

    #[test]
    fn a_pause_of_the_run_is_no_limit() {
        let slot = |count| SlotFigures { count, ..SlotFigures::default() };
        let mut paused = closed_loop_with(500.0, 1000.0);
        // Nothing for a while, then 190 in each tenth of a second.
        let slots = (0..100).map(|at| slot(if at < 45 { 0 } else { 190 })).collect();
        paused.series = Series { slot_ms: 100, slots, ..Series::default() };
        assert_eq!(closed_loop(&paused), None);
    }

    #[test]
    fn who_is_full() {
        let check = |server: Option<(f64, f64, f64)>, client: f64, who: Full| {
            let mut outcome = closed_loop_with(1000.0, 1000.0);
            outcome.client.busiest_thread = client;
            outcome.server = server.map(|(cores, busiest_thread, busiest_waited)| Server {
                cpu_seconds: cores * outcome.seconds,
                busiest_thread,
                busiest_waited,
                ..Server::default()
            });
            assert_eq!(Full::of(&outcome), who, "{server:?} {client}");
        };
        check(Some((0.99, 0.97, 0.0)), 0.4, Full::Server);
        check(Some((3.8, 0.5, 0.1)), 0.4, Full::Server);
        check(Some((0.6, 0.6, 0.38)), 0.4, Full::Machine);
        check(Some((0.5, 0.5, 0.1)), 0.85, Full::Client);
        check(None, 0.85, Full::Client);
        check(Some((0.1, 0.02, 0.01)), 0.1, Full::Behind);
        check(Some((0.8, 0.75, 0.05)), 0.3, Full::Unclear);
        check(None, 0.3, Full::Unseen);
    }

    #[test]
    fn lines() {
        let (slope, fit) = line(&[1.0, 3.0, 5.0, 7.0, 9.0]);
        assert!((slope - 2.0).abs() < 1e-9 && (fit - 1.0).abs() < 1e-9);
        assert!(line(&[1.0, 9.0, 2.0, 8.0, 1.0, 9.0]).1 < 0.3);
        assert_eq!(line(&[5.0; 10]), (0.0, 0.0));
    }
}
