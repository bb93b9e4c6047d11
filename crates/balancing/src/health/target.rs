//! The state of one node: one atomic word, so that reporting from any thread neither locks nor allocates.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Thresholds;

/// What the balancer goes by. A node is used while it is healthy or mostly healthy, as in lua-resty-healthcheck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The start, and after enough successes.
    #[default]
    Healthy,
    /// Used, with failures since the last success.
    MostlyHealthy,
    /// Not used, with successes since the last failure.
    MostlyUnhealthy,
    /// Not used, after enough failures.
    Unhealthy,
}

/// Events in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Successes since the last failure.
    pub success: u8,
    /// Failed connections since the last success.
    pub tcp_failure: u8,
    /// Bad statuses since the last success.
    pub http_failure: u8,
    /// Timeouts since the last success.
    pub timeout_failure: u8,
}

/// Starts healthy with all counters at 0.
#[derive(Debug, Default)]
pub struct Target(AtomicU64);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Event {
    Success,
    TcpFailure,
    HttpFailure,
    Timeout,
}

impl State {
    /// Whether requests may go to a node in this state.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Healthy | Self::MostlyHealthy)
    }

    /// As the Control API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::MostlyHealthy => "mostly_healthy",
            Self::MostlyUnhealthy => "mostly_unhealthy",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Target {
    /// As of the last reported outcome.
    pub fn state(&self) -> State {
        unpack(self.0.load(Ordering::Relaxed)).0
    }

    /// State and counters of one moment.
    pub fn snapshot(&self) -> (State, Counters) {
        unpack(self.0.load(Ordering::Relaxed))
    }

    pub(super) fn report(&self, thresholds: &Thresholds, outcome: HealthSignal) -> Option<Transition> {
        let (event, limit) = classify(thresholds, outcome)?;
        if limit == 0 {
            return None;
        }
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (from, counters) = unpack(word);
            let (to, counters) = step(from, counters, event, limit)?;
            match self.0.compare_exchange_weak(word, pack(to, counters), Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return (from != to).then_some(Transition { from, to }),
                Err(now) => word = now,
            }
        }
    }
}

fn classify(thresholds: &Thresholds, outcome: HealthSignal) -> Option<(Event, u8)> {
    Some(match outcome {
        HealthSignal::Status(status) if thresholds.healthy_statuses.contains(status) => {
            (Event::Success, thresholds.successes)
        }
        HealthSignal::Status(status) if thresholds.unhealthy_statuses.contains(status) => {
            (Event::HttpFailure, thresholds.http_failures)
        }
        HealthSignal::Status(_) => return None,
        HealthSignal::BadStatusLine => (Event::HttpFailure, thresholds.http_failures),
        HealthSignal::Success => (Event::Success, thresholds.successes),
        HealthSignal::TcpFailure => (Event::TcpFailure, thresholds.tcp_failures),
        HealthSignal::Timeout => (Event::Timeout, thresholds.timeouts),
    })
}

/// `None` when the event only confirms a settled state.
fn step(state: State, mut counters: Counters, event: Event, limit: u8) -> Option<(State, Counters)> {
    let success = event == Event::Success;
    if state == if success { State::Healthy } else { State::Unhealthy } {
        return None;
    }
    if success {
        counters = Counters { success: counters.success, ..Counters::default() };
    } else {
        counters.success = 0;
    }
    let counter = match event {
        Event::Success => &mut counters.success,
        Event::TcpFailure => &mut counters.tcp_failure,
        Event::HttpFailure => &mut counters.http_failure,
        Event::Timeout => &mut counters.timeout_failure,
    };
    *counter = counter.saturating_add(1);
    let next = match (success, *counter >= limit) {
        (true, true) => State::Healthy,
        (false, true) => State::Unhealthy,
        (false, false) if state == State::Healthy => State::MostlyHealthy,
        (true, false) if state == State::Unhealthy => State::MostlyUnhealthy,
        _ => state,
    };
    Some((next, counters))
}

fn pack(state: State, counters: Counters) -> u64 {
    let state = match state {
        State::Healthy => 0,
        State::MostlyHealthy => 1,
        State::MostlyUnhealthy => 2,
        State::Unhealthy => 3,
    };
    let Counters { success, tcp_failure, http_failure, timeout_failure } = counters;
    u64::from_le_bytes([success, tcp_failure, http_failure, timeout_failure, state, 0, 0, 0])
}

fn unpack(word: u64) -> (State, Counters) {
    let [success, tcp_failure, http_failure, timeout_failure, state, ..] = word.to_le_bytes();
    let state = match state {
        0 => State::Healthy,
        1 => State::MostlyHealthy,
        2 => State::MostlyUnhealthy,
        _ => State::Unhealthy,
    };
    (state, Counters { success, tcp_failure, http_failure, timeout_failure })
}

/// How a probe or a request ended, as far as it says something about the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthSignal {
    /// A response with this status; one that is in neither list changes nothing.
    Status(u16),
    /// A response whose status line could not be read.
    BadStatusLine,
    /// A TCP probe that connected.
    Success,
    /// Connecting, sending or receiving failed.
    TcpFailure,
    /// No answer within the time limit.
    Timeout,
}

/// A change of state, for the log and for keeping lists of usable nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Before the outcome.
    pub from: State,
    /// After it.
    pub to: State,
}

impl Transition {
    /// Whether the node became usable or stopped being so.
    pub(crate) fn changes_use(&self) -> bool {
        self.from.is_usable() != self.to.is_usable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_through_the_states() {
        use State::*;
        let thresholds =
            Thresholds { tcp_failures: 2, http_failures: 3, timeouts: 0, ..Thresholds::active() };
        let target = Target::default();
        for (outcome, state, counters) in [
            (HealthSignal::Status(200), Healthy, (0, 0, 0, 0)),
            (HealthSignal::TcpFailure, MostlyHealthy, (0, 1, 0, 0)),
            (HealthSignal::Status(418), MostlyHealthy, (0, 1, 0, 0)),
            (HealthSignal::Status(500), MostlyHealthy, (0, 1, 1, 0)),
            (HealthSignal::Timeout, MostlyHealthy, (0, 1, 1, 0)),
            (HealthSignal::Status(200), MostlyHealthy, (1, 0, 0, 0)),
            (HealthSignal::TcpFailure, MostlyHealthy, (0, 1, 0, 0)),
            (HealthSignal::TcpFailure, Unhealthy, (0, 2, 0, 0)),
            (HealthSignal::TcpFailure, Unhealthy, (0, 2, 0, 0)),
            (HealthSignal::Success, MostlyUnhealthy, (1, 0, 0, 0)),
            (HealthSignal::BadStatusLine, MostlyUnhealthy, (0, 0, 1, 0)),
            (HealthSignal::Success, MostlyUnhealthy, (1, 0, 0, 0)),
            (HealthSignal::Success, Healthy, (2, 0, 0, 0)),
        ] {
            target.report(&thresholds, outcome);
            let (now, found) = target.snapshot();
            let found = (found.success, found.tcp_failure, found.http_failure, found.timeout_failure);
            assert_eq!((now, found), (state, counters), "after {outcome:?}");
        }
    }
}
