//! One line in the error log when the Redis of a limiting plugin goes away, and one when it is back.

use std::{
    fmt::Arguments,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use tidegate_plugin_api::Request;
use tidegate_telemetry::error_log::{self, Level};

use super::limit_key::on_route;

/// Of one plugin of one resource. Rises by one when Redis goes away and when it is back: odd while it is away.
#[derive(Default)]
pub(crate) struct Outage(AtomicU32);

/// One use of Redis, with what was known when it began. Uses that are under way when Redis comes back end in both ways,
/// in any order; a failure counts only if nothing has changed since its use began.
pub(crate) struct Attempt<'a> {
    outage: &'a Outage,
    known: u32,
}

impl Outage {
    pub(crate) fn attempt(&self) -> Attempt<'_> {
        Attempt { outage: self, known: self.0.load(Relaxed) }
    }
}

impl Attempt<'_> {
    /// Logs `line` if this is the failure that an outage begins with.
    pub(crate) fn failed(&self, line: Arguments<'_>) {
        if self.begins_outage() {
            error_log::log(Level::Error, line);
        }
    }

    pub(crate) fn passed(&self, plugin: &str, request: &Request) {
        if self.ends_outage() {
            let route = on_route(request);
            error_log::log(Level::Warn, format_args!("{plugin}: Redis answers again{route}"));
        }
    }

    fn begins_outage(&self) -> bool {
        !is_away(self.known) && self.moves_on(self.known)
    }

    fn ends_outage(&self) -> bool {
        let now = self.outage.0.load(Relaxed);
        is_away(now) && self.moves_on(now)
    }

    fn moves_on(&self, from: u32) -> bool {
        self.outage.0.compare_exchange(from, from.wrapping_add(1), Relaxed, Relaxed).is_ok()
    }
}

fn is_away(state: u32) -> bool {
    state % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_that_overlap_with_the_return_of_redis_begin_no_outage() {
        let outage = Outage::default();
        let (first, second, third) = (outage.attempt(), outage.attempt(), outage.attempt());
        assert!(!third.ends_outage());
        assert!(first.begins_outage());
        assert!(!second.begins_outage());
        let late = outage.attempt();
        assert!(outage.attempt().ends_outage());
        assert!(!late.begins_outage() && !third.begins_outage());
        assert!(!outage.attempt().ends_outage());
        assert!(outage.attempt().begins_outage());
    }
}
