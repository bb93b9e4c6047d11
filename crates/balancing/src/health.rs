//! Health of the nodes of one upstream, as lua-resty-healthcheck keeps it.
//!
//! ```text
//!                failures < limit              failures reach a limit
//!     healthy -------------------> mostly_healthy -------------------> unhealthy
//!        ^                           |      ^                              |
//!        |   successes reach limit   |      |                              | successes < limit
//!        +---------------------------+      |                              v
//!        +------------------------------------------------------- mostly_unhealthy
//!                       successes reach limit       (a limit of failures leads back to unhealthy)
//! ```
//! Counters are of consecutive events: a success clears the failures and a failure the successes. A limit of 0
//! ignores that kind of event. Healthy and mostly healthy nodes get requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod checks;
mod target;

pub use checks::{Active, Checks, ProbeKind, Thresholds};
pub use target::{Counters, HealthSignal, State, Target, Transition};

/// What observed the outcome: a probe or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A probe of the gateway.
    Active,
    /// The outcome of a client's request.
    Passive,
}

/// The checks of an upstream and the state of each of its nodes, in their order.
#[derive(Debug)]
pub struct Health {
    /// Thresholds and the way to probe, as the upstream object has them.
    pub checks: Checks,
    /// In the order of the upstream's nodes.
    pub targets: Vec<Arc<Target>>,
    used: AtomicBool,
}

/// One line of the Control API's `/v1/healthcheck`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetStatus {
    /// The node's position in the upstream.
    pub node: u16,
    /// As of the last outcome.
    pub state: State,
    /// Outcomes in a row that led to the state.
    pub counters: Counters,
}

impl Health {
    /// Targets of nodes that stay are taken over by the caller, so that a change of nodes forgets nothing.
    pub fn new(checks: Checks, targets: Vec<Arc<Target>>) -> Self {
        Self { checks, targets, used: AtomicBool::new(false) }
    }

    /// A request needs this upstream: probing may begin. Cheap enough for every request.
    pub(crate) fn mark_used(&self) {
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a request has needed this upstream yet. Others are not probed, as in APISIX.
    pub fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether the balancer may choose the node. A position that no node has counts as usable.
    pub fn is_usable(&self, node: u16) -> bool {
        self.targets.get(usize::from(node)).is_none_or(|target| target.state().is_usable())
    }

    /// Counts an outcome. Unknown nodes are ignored.
    pub fn report(&self, node: u16, source: Source, outcome: HealthSignal) -> Option<Transition> {
        let thresholds = match source {
            Source::Active => &self.checks.active.thresholds,
            Source::Passive => self.checks.passive.as_ref()?,
        };
        self.targets.get(usize::from(node))?.report(thresholds, outcome)
    }

    /// A consistent view of each target, in the order of the nodes.
    pub fn statuses(&self) -> Vec<TargetStatus> {
        let statuses = (0u16..).zip(&self.targets).map(|(node, target)| {
            let (state, counters) = target.snapshot();
            TargetStatus { node, state, counters }
        });
        statuses.collect()
    }
}
