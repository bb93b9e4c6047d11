//! How long a session may be silent: until it is parked, and until it ends.

use crate::{
    sessions::DRAINED_IDLE_MS,
    timers::{TICK_MS, Timer},
};

/// A silent session is parked after so long at first. Each time that something comes for one that is parked, the next time is twice as long,
/// so that a session that speaks now and then costs no more than before.
const PARKED_AFTER_MS: u32 = 250;
const MOST_DOUBLINGS: u8 = 8;

pub(super) struct Silence {
    /// By the worker's clock.
    ends_at_ms: u64,
    limit_ms: u32,
    /// Of [`PARKED_AFTER_MS`].
    doublings: u8,
    /// It may be closed to make room, and is not parked.
    is_evictable: bool,
    /// It ends after [`DRAINED_IDLE_MS`] in which nothing waits to be passed on.
    is_drained: bool,
}

/// What became of a session that was to be parked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Outcome {
    Parked,
    /// Others were before it.
    NotNow,
    /// It stays as it is.
    Unable,
}

/// What is due.
#[derive(Debug, PartialEq)]
pub(super) enum Due {
    Nothing,
    Park,
    End,
}

impl Silence {
    pub(super) fn new(limit_ms: u64) -> Silence {
        let limit_ms = whole(limit_ms);
        Silence { ends_at_ms: 0, limit_ms, doublings: 0, is_evictable: false, is_drained: false }
    }

    pub(super) fn is_evictable(&self) -> bool {
        self.is_evictable
    }

    pub(super) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Something has moved.
    pub(super) fn renew(&mut self, now_ms: u64, timer: &Timer) {
        self.ends_at_ms = now_ms.saturating_add(self.limit_ms.into()).saturating_add(TICK_MS);
        let parked_after_ms = if self.is_evictable { u64::MAX } else { self.parked_after_ms() };
        self.look_again(parked_after_ms, now_ms, timer);
    }

    /// One side has ended: from now on it may be silent for so long at most.
    pub(super) fn make_evictable(&mut self, most_ms: u64, now_ms: u64, timer: &Timer) {
        self.is_evictable = true;
        self.limit_ms = self.limit_ms.min(whole(most_ms));
        self.renew(now_ms, timer);
    }

    /// The operator has it end once it is silent.
    pub(super) fn drain(&mut self, now_ms: u64, timer: &Timer) {
        self.is_drained = true;
        self.look_again(DRAINED_IDLE_MS, now_ms, timer);
    }

    /// `holds`: bytes wait to be passed on.
    pub(super) fn due(&self, holds: bool, now_ms: u64, timer: &Timer) -> Due {
        match timer.expired() {
            false => Due::Nothing,
            true if now_ms >= self.ends_at_ms || timer.is_leaving() => Due::End,
            true if self.is_drained && !holds && now_ms >= self.drained_at_ms() => Due::End,
            true => Due::Park,
        }
    }

    /// After it was to be parked.
    pub(super) fn wait(&self, outcome: Outcome, now_ms: u64, timer: &Timer) {
        let most_ms = match outcome {
            Outcome::NotNow => self.parked_after_ms(),
            Outcome::Parked | Outcome::Unable => u64::MAX,
        };
        self.look_again(most_ms, now_ms, timer);
    }

    /// Something has come for a session that was parked.
    pub(super) fn end_parking(&mut self) {
        self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
    }

    fn parked_after_ms(&self) -> u64 {
        u64::from(PARKED_AFTER_MS << self.doublings)
    }

    /// When it has been silent for [`DRAINED_IDLE_MS`].
    fn drained_at_ms(&self) -> u64 {
        self.ends_at_ms.saturating_sub(self.limit_ms.into()).saturating_add(DRAINED_IDLE_MS)
    }

    /// Sets the timer: after `most_ms`, or sooner where something is due.
    fn look_again(&self, most_ms: u64, now_ms: u64, timer: &Timer) {
        let until = |at_ms: u64| at_ms.saturating_sub(now_ms).saturating_sub(TICK_MS);
        let mut after_ms = most_ms.min(until(self.ends_at_ms));
        if self.is_drained {
            // Silent for so long already: bytes waited.
            let is_over = now_ms >= self.drained_at_ms();
            after_ms = after_ms.min(if is_over { DRAINED_IDLE_MS } else { until(self.drained_at_ms()) });
        }
        match self.is_evictable {
            true => timer.set_idle(after_ms),
            false => timer.set(after_ms),
        }
    }
}

/// At most 49 days.
fn whole(limit_ms: u64) -> u32 {
    u32::try_from(limit_ms).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::Deadlines;

    #[test]
    fn a_silent_session_is_parked_and_ends_in_its_time() {
        let deadlines: &'static Deadlines = Box::leak(Box::default());
        let timer = Timer::new(deadlines);
        let mut silence = Silence::new(2000);
        silence.renew(0, &timer);
        let due = |silence: &Silence, now_ms| {
            deadlines.tick(now_ms);
            silence.due(false, now_ms, &timer)
        };
        assert_eq!(due(&silence, 250), Due::Nothing);
        assert_eq!(due(&silence, 300), Due::Park);
        silence.wait(Outcome::NotNow, 300, &timer);
        assert_eq!(due(&silence, 550), Due::Nothing);
        assert_eq!(due(&silence, 600), Due::Park);
        silence.wait(Outcome::Parked, 600, &timer);
        assert_eq!(due(&silence, 2000), Due::Nothing);
        assert_eq!(due(&silence, 2050), Due::End);
        // Something comes: the next time is later, and the end is counted from there.
        silence.end_parking();
        silence.renew(2050, &timer);
        assert_eq!(due(&silence, 2550), Due::Nothing);
        assert_eq!(due(&silence, 2600), Due::Park);
        silence.make_evictable(300, 2600, &timer);
        assert_eq!(due(&silence, 2900), Due::Nothing);
        assert_eq!(due(&silence, 3000), Due::End);
    }

    #[test]
    fn one_that_ends_before_is_not_parked() {
        let deadlines: &'static Deadlines = Box::leak(Box::default());
        let timer = Timer::new(deadlines);
        let mut silence = Silence::new(200);
        silence.renew(0, &timer);
        deadlines.tick(250);
        assert_eq!(silence.due(false, 250, &timer), Due::End);
    }

    #[test]
    fn a_drained_session_ends_once_nothing_waits() {
        let deadlines: &'static Deadlines = Box::leak(Box::default());
        let timer = Timer::new(deadlines);
        let mut silence = Silence::new(60_000);
        silence.renew(0, &timer);
        let due = |silence: &Silence, holds, now_ms| {
            deadlines.tick(now_ms);
            silence.due(holds, now_ms, &timer)
        };
        silence.drain(0, &timer);
        assert_eq!(due(&silence, false, 1000), Due::Nothing);
        assert_eq!(due(&silence, true, 1050), Due::Park);
        silence.wait(Outcome::Unable, 1050, &timer);
        assert_eq!(due(&silence, true, 2000), Due::Nothing);
        assert_eq!(due(&silence, true, 2100), Due::Park);
        silence.wait(Outcome::Unable, 2100, &timer);
        assert_eq!(due(&silence, false, 3150), Due::End);
        // Also one of which a side has ended, and one that makes room.
        silence.make_evictable(60_000, 3150, &timer);
        assert_eq!(due(&silence, true, 4250), Due::Park);
        silence.wait(Outcome::Unable, 4250, &timer);
        assert_eq!(deadlines.evict_idle(1), 1);
        assert_eq!(due(&silence, true, 4250), Due::End);
    }
}
