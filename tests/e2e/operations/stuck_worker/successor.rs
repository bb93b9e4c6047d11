//! After the second worker that does not come back, another process takes over.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    thread,
};

use rustix::process::{Pid, Signal, test_kill_process};

use tidegate_testkit::eventually;

use super::{FIRST, Held, ROUTES, SECOND, connect_until, threads};

fn is_alive(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Holds two workers, one after the other, and waits until another process serves.
fn lose_two_workers(held: &Held) -> [super::Hold; 2] {
    let before = held.gateway.pid();
    let first = held.hold("/first", FIRST);
    held.gateway.wait_for_log("was replaced");
    let second = held.hold("/second", SECOND);
    eventually("another process serves", || held.gateway.pid() != before);
    [first, second]
}

#[test]
fn a_new_process_takes_over_after_the_second() {
    let mut held = Held::start(2, ROUTES, &[]);
    let (old, address) = (held.gateway.process.id(), held.gateway.http);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let others = scope.spawn(|| connect_until(&stop, address));
        let holds = lose_two_workers(&held);
        let log = held.gateway.error_log();
        assert!(log.contains("plugin uri-blocker (rewrite), route: second"), "{log}");
        // Its threads never come back.
        assert!(held.gateway.process.wait_for_exit().success());
        stop.store(true, SeqCst);
        let (others, cut) = others.join().expect("connections");
        // One at a time, and so at most one with each worker that was held.
        assert!(others > 0 && cut <= 2, "{others} answered, {cut} cut");
        drop(holds);
    });
    assert!(!is_alive(old) && held.gateway.pid() != i32::try_from(old).ok());
    for path in ["/quick", "/first", "/second"] {
        assert_eq!(held.gateway.client().get("h", path).expect("an answer").status(), 204, "{path}");
    }
}

/// A first process that stays leaves the threads behind, and goes on passing signals on.
#[test]
fn a_first_process_stays_without_the_stuck_threads() {
    let mut held = Held::start(2, ROUTES, &["--stay"]);
    let first = held.gateway.process.id();
    let holds = lose_two_workers(&held);
    let new = held.gateway.pid().expect("a process");
    eventually("the threads are gone", || threads(first, "worker-") == 0);
    assert!(is_alive(first));
    // Those that only this process had are closed with it.
    for mut hold in holds {
        assert!(hold.client.to_close().expect("the end").is_empty());
    }
    // It is told by a signal that it can take again.
    eventually("it listens to signals", || threads(first, "signals") == 1);
    held.gateway.process.signal(Signal::TERM);
    assert!(held.gateway.process.wait_for_exit().success());
    assert!(!is_alive(u32::try_from(new).expect("a process id")));
}
