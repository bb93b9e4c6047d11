//! A thread's part of a run: what every kind of worker begins with.

use std::sync::{Arc, atomic::AtomicBool};

use rustls::pki_types::ServerName;

use super::{
    clock::Clock,
    ending::Ending,
    pace::Pace,
    tally::{SharedSlots, Tally},
};
use crate::{
    Plan, Problem,
    template::{Random, Source},
};

pub(crate) struct Portion {
    pub plan: Arc<Plan>,
    pub thread: usize,
    pub clock: Clock,
    pub slots: SharedSlots,
    pub stop: Arc<AtomicBool>,
    pub ending: Arc<Ending>,
    pub connections: usize,
    /// Requests that it may send.
    pub left: u64,
    pub pace: Option<Pace>,
    pub tally: Tally,
    pub server_name: Option<ServerName<'static>>,
}

impl Portion {
    pub(super) fn of(
        plan: &Arc<Plan>,
        thread: usize,
        clock: Clock,
        stop: &Arc<AtomicBool>,
        ending: &Arc<Ending>,
    ) -> Result<Portion, Problem> {
        let slots = SharedSlots::default();
        let server_name = plan.tls.as_ref().map(|_| crate::tls::server_name(&plan.origin)).transpose()?;
        Ok(Portion {
            thread,
            clock,
            stop: Arc::clone(stop),
            ending: Arc::clone(ending),
            connections: share(plan.connections as u64, thread, plan.threads) as usize,
            left: plan.count.map_or(u64::MAX, |count| share(count, thread, plan.threads)),
            pace: Pace::of(plan, thread),
            tally: fresh_tally(plan, Arc::clone(&slots)),
            server_name,
            slots,
            plan: Arc::clone(plan),
        })
    }

    /// What its requests vary with.
    pub(super) fn source(&self) -> Source {
        source(self.thread)
    }
}

pub(super) fn source(thread: usize) -> Source {
    let random = Random::new(0x7469_6465 + thread as u64);
    Source { number: thread as u64, connection: 0, thread, random }
}

/// Nothing counted yet.
pub(crate) fn fresh_tally(plan: &Plan, slots: SharedSlots) -> Tally {
    Tally::new(plan.rate.is_some(), plan.requests.len(), slots)
}

/// A thread's part of a whole; the first threads take what is over.
fn share(whole: u64, thread: usize, threads: usize) -> u64 {
    whole / threads as u64 + u64::from((thread as u64) < whole % threads as u64)
}
