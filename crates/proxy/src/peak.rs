//! When memory of a burst goes back to the system.
//!
//! The allocator keeps what was freed until its thread asks for memory again, and a worker that has little to do asks for
//! little. So the worker triggers it: when it becomes idle, and when most of its requests under way have ended.

use std::cell::Cell;

/// HTTP/2 requests that have to end before it is worth the time.
const MANY: u32 = 1_000;

/// HTTP/2 requests at work on a worker, and the most since memory was given back.
#[derive(Default)]
pub(crate) struct Peak {
    now: Cell<u32>,
    most: Cell<u32>,
}

impl Peak {
    pub(crate) fn began(&self) {
        let now = self.now.get() + 1;
        self.now.set(now);
        self.most.set(self.most.get().max(now));
    }

    pub(crate) fn ended(&self) {
        self.now.set(self.now.get().saturating_sub(1));
    }

    /// Whether most of many have ended since it was asked last.
    pub(crate) fn is_over(&self) -> bool {
        let (now, most) = (self.now.get(), self.most.get());
        let over = most - now >= MANY && now <= most / 2;
        if over {
            self.most.set(now);
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_most_of_many_have_ended() {
        let peak = Peak::default();
        (0..2 * MANY).for_each(|_| peak.began());
        (0..MANY - 1).for_each(|_| peak.ended());
        assert!(!peak.is_over());
        peak.ended();
        assert!(peak.is_over() && !peak.is_over(), "once");
        (0..MANY).for_each(|_| peak.ended());
        assert!(peak.is_over());
    }
}
