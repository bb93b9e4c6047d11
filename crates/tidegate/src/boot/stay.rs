//! After an upgrade the first process can stay, doing nothing but passing signals on, until the gateway ends: for
//! containers, which end with their first process, and for supervisors that watch the process they started.

use std::{path::Path, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use super::{
    pid_file,
    signals::{Event, Signals},
};

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Returns when no process holds the pid file any more. This one must not hold it.
pub fn until_end(signals: &Signals, path: &Path) {
    while let Ok(Some(_)) = pid_file::running(path) {
        // Who serves is asked when there is something to say: it may be another one by then.
        if let Some(event) = signals.next(Some(LOOK_INTERVAL))
            && let Ok(Some(pid)) = pid_file::running(path)
        {
            pass_on(pid, &event);
        }
        if std::process::id() == 1 {
            // Successors of successors become children of the first process.
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        }
    }
}

/// Sends another process the signal that was for this one.
pub fn pass_on(pid: i32, event: &Event) {
    let signal = match event {
        Event::Stop => Signal::TERM,
        Event::Quit => Signal::QUIT,
        Event::Reload => Signal::HUP,
        Event::Reopen => Signal::USR1,
        Event::Upgrade => Signal::USR2,
        Event::Command(..) | Event::Successor(..) => return,
    };
    if let Some(pid) = Pid::from_raw(pid) {
        // It may just have ended, which the next look shows.
        let _ = kill_process(pid, signal);
    }
}
