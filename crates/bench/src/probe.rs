//! After a closed-loop run: the same load with fewer connections, for a moment.
//!
//! One closed-loop run cannot show whether its server is full, because latency is connections / throughput in all of
//! them (Little's law). Fewer connections can: a server with room left answers less, a full one as much as before. The
//! probe comes after the run, so nothing of it is in the run's figures.
//!
//! Where it errs, it errs towards silence: requests that the run left behind in the server, connects and answers that do
//! not come before the end all lower the throughput that it sees.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::{Outcome, Plan, engine, outcome::after::Step};

/// Of the run's length, at most `LONGEST`.
const SHARE: f64 = 0.1;
const LONGEST: Duration = Duration::from_secs(1);
/// A tenth of a shorter run shows nothing.
const SHORTEST_RUN: Duration = Duration::from_secs(1);
/// Answers that a step needs in all, and per request on the way. With a server that answers all of a group at once, N
/// answers in a row look like a throughput N / (N - 1) times as high as it is.
const LEAST_ANSWERS: f64 = 20.0;
const LEAST_TURNS: f64 = 3.0;
/// What the choice of connections aims at, so that a little less is still enough.
const WANTED_TURNS: f64 = 4.0;
/// Share of failed requests above which throughput means nothing.
const FAILED: f64 = 0.01;

/// Whether a run of this plan is followed by a probe; the outcome has a say, too: see [`run`].
pub fn applies(plan: &Plan) -> bool {
    plan.rate.is_none()
        && plan.count.is_none()
        && plan.connections > 1
        && plan.duration.is_some_and(|duration| duration >= SHORTEST_RUN)
}

/// Fills `outcome.probe`, fewest connections first; leaves it empty where it can show nothing.
pub fn run(plan: &Plan, outcome: &mut Outcome, stop: &Arc<AtomicBool>) {
    let failed = (outcome.failed() + outcome.bad_statuses) as f64;
    let known = outcome.interrupted || crate::diagnosis::limits::is_client_bound(outcome);
    if !applies(plan) || known || failed > FAILED * outcome.requests as f64 {
        return;
    }
    let all = plan.duration.unwrap_or_default().mul_f64(SHARE).min(LONGEST);
    // What the run left in the server is answered first.
    let settle = latency(outcome.latency.mean_us).min(all / 4);
    let step = (all - settle).mul_f64(0.45);
    let sizes = sizes(plan, outcome.requests_per_second(), step);
    if sizes.is_empty() {
        return;
    }
    std::thread::sleep(settle);
    for connections in sizes {
        let Some(seen) = one(plan, connections, step, stop) else { return outcome.probe.clear() };
        std::thread::sleep(latency(seen.mean_us).min((all - settle) / 10));
        outcome.probe.push(seen);
    }
}

/// A little more than a latency.
fn latency(mean_us: f64) -> Duration {
    Duration::try_from_secs_f64(1.2 * mean_us / 1e6).unwrap_or(LONGEST)
}

/// A quarter and a half of the connections; fewer where so many could not get enough answers each in that time.
fn sizes(plan: &Plan, rate: f64, step: Duration) -> Vec<usize> {
    let answers = rate * step.as_secs_f64();
    if answers < LEAST_ANSWERS * 1.25 {
        return Vec::new();
    }
    let most = (answers / WANTED_TURNS / plan.pipeline as f64) as usize;
    let mut sizes = [4, 2].map(|part| (plan.connections / part).min(most)).to_vec();
    sizes.dedup();
    sizes.retain(|&size| size > 0);
    sizes
}

fn one(plan: &Plan, connections: usize, time: Duration, stop: &Arc<AtomicBool>) -> Option<Step> {
    let plan =
        Plan { connections, threads: plan.threads.min(connections), duration: Some(time), ..plan.clone() };
    let turns = (connections * plan.pipeline) as f64 * LEAST_TURNS;
    // The run is measured whatever becomes of the probe.
    let seen = engine::start_unwatched(plan, Arc::clone(stop)).ok()?.finish().ok()?;
    let failed = (seen.failed() + seen.bad_statuses) as f64;
    let answers = seen.requests as f64;
    if stop.load(Relaxed) || failed > FAILED * answers || answers < LEAST_ANSWERS.max(turns) {
        return None;
    }
    // Connections ask from the moment they are open.
    let opening = seen.tls_handshake.as_ref().unwrap_or(&seen.connect).mean_us / 1e6;
    let asking = (seen.seconds - opening).max(seen.seconds / 2.0);
    Some(Step {
        connections,
        seconds: seen.seconds,
        requests: seen.requests,
        requests_per_second: answers / asking,
        mean_us: seen.latency.mean_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Protocol,
        request::{Http1, RequestSpec},
        target::Origin,
    };

    fn plan(connections: usize) -> Plan {
        let (origin, path) = Origin::parse("http://127.0.0.1:1/").expect("a URL");
        Plan {
            addresses: Vec::new(),
            origin,
            requests: vec![RequestSpec { method: "GET".into(), path, headers: Vec::new(), body: None }],
            connections,
            threads: 1,
            duration: Some(Duration::from_secs(10)),
            count: None,
            rate: None,
            protocol: Protocol::Http1(Http1 { version_10: false, keep_alive: true }),
            pipeline: 1,
            timeout: Duration::from_secs(10),
            tls: None,
            accepted_statuses: Vec::new(),
            options: Default::default(),
        }
    }

    #[test]
    fn only_closed_loops_of_some_length_with_several_connections() {
        assert!(applies(&plan(2)));
        assert!(!applies(&plan(1)));
        assert!(!applies(&Plan { rate: Some(10.0), ..plan(8) }));
        assert!(!applies(&Plan { count: Some(1000), ..plan(8) }));
        assert!(!applies(&Plan { duration: Some(Duration::from_millis(900)), ..plan(8) }));
    }

    #[test]
    fn as_many_connections_as_get_enough_answers() {
        let step = Duration::from_millis(400);
        assert_eq!(sizes(&plan(64), 10_000.0, step), [16, 32]);
        assert_eq!(sizes(&plan(3), 10_000.0, step), [1]);
        // 80 answers in a step: 20 connections get four each.
        assert_eq!(sizes(&plan(1000), 200.0, step), [20]);
        assert_eq!(sizes(&Plan { pipeline: 10, ..plan(1000) }, 200.0, step), [2]);
        assert_eq!(sizes(&plan(8), 20.0, step), [0; 0]);
    }
}
