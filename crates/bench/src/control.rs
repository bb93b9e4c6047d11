//! After a run whose latencies gather where timers of TCP would put them: the same requests on one other connection, once with
//! acknowledgements that wait and once with quick ones. What moves the latency is its cause; a server that simply takes
//! 40 ms takes them both times.

use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use crate::{
    Outcome, Plan, Protocol,
    diagnosis::plateau,
    engine,
    outcome::after::Arm,
    plan::{Acknowledgements, Options},
};

/// Of each arm. At 40 ms each that is some twenty requests, at 200 ms five.
const LENGTH: Duration = Duration::from_millis(1000);

/// Fills `outcome.control` where there is something to find out.
pub fn run(plan: &Plan, outcome: &mut Outcome, stop: &Arc<AtomicBool>) {
    let is_http1 = matches!(plan.protocol, Protocol::Http1(form) if form.keep_alive);
    let suspected = plateau::is_suspected(outcome) && !crate::diagnosis::limits::is_client_bound(outcome);
    if !is_http1 || !suspected || outcome.interrupted || plan.options.unix.is_some() {
        return;
    }
    for how in [Acknowledgements::Delayed, Acknowledgements::Quick] {
        let Some(arm) = one(plan, how, stop) else { return outcome.control.clear() };
        outcome.control.push(arm);
    }
}

fn one(plan: &Plan, how: Acknowledgements, stop: &Arc<AtomicBool>) -> Option<Arm> {
    let options = Options { acknowledgements: Some(how), stages: Vec::new(), ..plan.options.clone() };
    let plan = Plan {
        connections: 1,
        threads: 1,
        duration: Some(LENGTH),
        count: None,
        rate: None,
        pipeline: 1,
        options,
        ..plan.clone()
    };
    let seen = engine::start_unwatched(plan, Arc::clone(stop)).ok()?.finish().ok()?;
    if seen.requests < 2 || seen.interrupted {
        return None;
    }
    Some(Arm {
        acknowledgements: match how {
            Acknowledgements::Delayed => "delayed".into(),
            Acknowledgements::Quick => "quick".into(),
        },
        requests: seen.requests,
        p50_us: seen.latency.at(50.0),
        at_40_ms: plateau::at_40_ms(&seen.latency),
        at_200_ms: plateau::at_200_ms(&seen.latency),
        sockets: seen.sockets,
    })
}
