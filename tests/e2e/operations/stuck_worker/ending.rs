//! A gateway that is told to end does so, whatever its workers do.

use std::time::Instant;

use rustix::process::Signal;

use super::{FIRST, Held, ROUTES, SOON};

/// Before the watchdog has noticed, and after.
#[test]
fn stop_and_quit_do_not_wait_for_a_stuck_worker() {
    for (signal, noticed) in [(Signal::TERM, false), (Signal::QUIT, false), (Signal::QUIT, true)] {
        let mut held = Held::start(2, ROUTES, &[]);
        let hold = held.hold("/first", FIRST);
        if noticed {
            held.gateway.wait_for_log("was replaced");
        }
        let asked = Instant::now();
        held.gateway.process.signal(signal);
        assert!(held.gateway.process.wait_for_exit().success());
        let took = asked.elapsed();
        assert!(took < SOON, "{signal:?}, noticed before: {noticed}: {took:?}");
        drop(hold);
    }
}
