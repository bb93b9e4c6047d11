//! Lines that a peer can cause, at a limited rate.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// Limits the lines in a span of time, for one place in the code. Suppressed lines are counted.
#[derive(Debug)]
pub struct Limiter {
    lines: u64,
    span_ms: u64,
    /// Milliseconds of [`now_ms`] at which the span began.
    began: AtomicU64,
    written: AtomicU64,
    left_out: AtomicU64,
}

impl Limiter {
    /// At most `lines` in each span of `span_ms` milliseconds.
    pub const fn new(lines: u64, span_ms: u64) -> Limiter {
        Limiter {
            lines,
            span_ms,
            began: AtomicU64::new(0),
            written: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
        }
    }

    /// `Some`: write the line. With it, how many were left out before it.
    pub fn pass(&self) -> Option<u64> {
        self.pass_at(now_ms())
    }

    /// Threads that meet at the end of a span may write a line too many; that does no harm.
    fn pass_at(&self, now_ms: u64) -> Option<u64> {
        if now_ms.saturating_sub(self.began.load(Relaxed)) >= self.span_ms {
            self.began.store(now_ms, Relaxed);
            self.written.store(0, Relaxed);
        }
        if self.written.fetch_add(1, Relaxed) < self.lines {
            return Some(self.left_out.swap(0, Relaxed));
        }
        self.left_out.fetch_add(1, Relaxed);
        None
    }
}

/// Since the first call.
fn now_ms() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Limiter;

    #[test]
    fn lines_of_a_span_are_limited_and_the_rest_is_counted() {
        let limiter = Limiter::new(2, 1000);
        let passed: Vec<_> = [0, 1, 2, 999, 1000, 1001, 1002, 5000].map(|now| limiter.pass_at(now)).into();
        assert_eq!(passed, [Some(0), Some(0), None, None, Some(2), Some(0), None, Some(1)]);
    }
}
