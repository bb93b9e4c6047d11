//! Threads that are not workers come after them when a core is short.
//!
//! A lower priority is not enough. A thread that has waited for its core has that time to its credit, also after it has slept, and Linux lets
//! it use that up before a worker that was woken meanwhile: up to the next tick of the scheduler, 4 ms later. So long work is done in turns
//! ([`give_way`]): a thread that yields gives up its credit, and one that sleeps for a moment lets the worker run at once. It yields
//! again as its next turn begins, and as it wakes up for other work ([`begin_turn`]): while it waited for the core it gathered credit. The nice value
//! bounds how much credit a thread gets while workers run; under SCHED_IDLE it would get hardly any, but no time either on a busy core, and
//! there is no way back without a privilege.
//!
//! It is here because every crate with such threads stands on this one.

use std::{
    cell::Cell,
    num::NonZeroU64,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{getpid, getpriority_process, setpriority_process},
    thread::set_current_timer_slack,
};

/// How much nicer than the process they are (nice(2)): a tenth of a core that a worker wants all of.
const NICER: i32 = 10;

/// The same of the thread that writes logs: its work is short, and who reads a log wants the line that belongs to a response.
const NICER_FOR_LOGS: i32 = 5;

/// How long such a thread works without a pause.
const TURN: Duration = Duration::from_micros(100);

const PAUSE: Duration = Duration::from_micros(20);

/// By how many nanoseconds a sleep may be longer: of a pause, the usual 50 us would be most.
const SLACK: Option<NonZeroU64> = NonZeroU64::new(1_000);

thread_local! {
    /// When the turn of this thread began; `None` on a worker, and where [`lower_priority`] was not called.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lowers the priority of the calling thread: the nice value of the process's main thread, and 10. Absolute, since a thread starts with
/// the value of the thread that makes it. From here on it pauses in [`give_way`].
pub fn lower_priority() {
    lower_by(NICER);
}

/// As [`lower_priority`], by 5.
pub(crate) fn lower_priority_for_logs() {
    lower_by(NICER_FOR_LOGS);
}

fn lower_by(nicer: i32) {
    BEGUN.set(Some(Instant::now()));
    let _ = set_current_timer_slack(SLACK);
    // Linux gives each thread a value of its own; the main thread's number is that of the process.
    if let Ok(nice) = getpriority_process(Some(getpid())) {
        let _ = setpriority_process(None, nice.saturating_add(nicer));
    }
}

/// Between two steps of work that may be long: yields and sleeps for a moment if this thread has lowered its priority and its turn is over. Costs a
/// look at the clock otherwise; nothing on other threads.
pub fn give_way() {
    if BEGUN.get().is_some_and(|begun| begun.elapsed() >= TURN) {
        thread::yield_now();
        thread::sleep(PAUSE);
        begin_turn();
    }
}

/// Where a thread goes on that waited for work: a worker that waits for the core has it first. Nothing on threads that have not lowered their priority.
pub fn begin_turn() {
    if BEGUN.get().is_some() {
        thread::yield_now();
        BEGUN.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_of_a_thread_is_no_nicer() {
        let own = || getpriority_process(None).expect("a priority");
        let base = getpriority_process(Some(getpid())).expect("a priority");
        let inner = thread::spawn(move || {
            lower_priority();
            thread::spawn(move || {
                lower_priority();
                own()
            })
            .join()
        });
        let nice = inner.join().expect("ends").expect("ends");
        assert_eq!(nice, (base + NICER).min(19));
    }

    #[test]
    fn only_background_threads_pause() {
        let turns = |lowered: bool| {
            thread::spawn(move || {
                if lowered {
                    lower_priority();
                }
                let (begun, mut pauses) = (Instant::now(), 0);
                while begun.elapsed() < Duration::from_millis(20) {
                    let before = BEGUN.get();
                    give_way();
                    pauses += u32::from(BEGUN.get() != before);
                }
                pauses
            })
            .join()
            .expect("ends")
        };
        assert_eq!(turns(false), 0);
        assert!(turns(true) > 0);
    }
}
