//! Threads that are not workers come after them when a core is short.
//!
//! A lower priority is not enough. A thread that has slept has some time to its credit, and Linux lets it use that up before a worker that
//! was woken meanwhile: up to the next tick of the scheduler, 4 ms later. A thread that sleeps for a moment lets the worker run at once, so
//! long work is done in turns ([`give_way`]).
//!
//! It is here because every crate with such threads stands on this one.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{getpid, getpriority_process, setpriority_process};

/// How much nicer than the process they are (nice(2)).
const NICER: i32 = 5;

/// How long such a thread works without a pause.
const TURN: Duration = Duration::from_micros(250);

/// The kernel makes some 100 us of it.
const PAUSE: Duration = Duration::from_micros(20);

thread_local! {
    /// When the turn of this thread began; `None` on a worker, and where [`lower_priority`] was not called.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Lowers the priority of the calling thread: the nice value of the process's main thread, and 5. Absolute, since a thread starts with
/// the value of the thread that makes it. From here on it pauses in [`give_way`].
pub fn lower_priority() {
    BEGUN.set(Some(Instant::now()));
    // Linux gives each thread a value of its own; the main thread's number is that of the process.
    if let Ok(nice) = getpriority_process(Some(getpid())) {
        let _ = setpriority_process(None, nice.saturating_add(NICER));
    }
}

/// Between two steps of work that may be long: sleeps for a moment if this thread has lowered its priority and its turn is over. Costs a look at
/// the clock otherwise; nothing on other threads.
pub fn give_way() {
    if BEGUN.get().is_some_and(|begun| begun.elapsed() >= TURN) {
        thread::sleep(PAUSE);
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
