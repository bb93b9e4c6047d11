//! Threads that are not workers come after them when a core is short.
//!
//! It is here because every crate with such threads stands on this one.

use rustix::process::{getpid, getpriority_process, setpriority_process};

/// How much nicer than the process they are (nice(2)).
const NICER: i32 = 5;

/// Lowers the priority of the calling thread: the nice value of the process's main thread, and 5. Absolute, since a thread starts with
/// the value of the thread that makes it.
pub fn lower_priority() {
    // Linux gives each thread a value of its own; the main thread's number is that of the process.
    if let Ok(nice) = getpriority_process(Some(getpid())) {
        let _ = setpriority_process(None, nice.saturating_add(NICER));
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
}
