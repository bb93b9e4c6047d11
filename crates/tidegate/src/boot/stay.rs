//! After an upgrade the first process can stay, doing nothing but passing signals on, until the gateway ends: for
//! containers, which end with their first process, and for supervisors that watch the process they started.

use std::{os::unix::process::CommandExt, path::Path, process::Command, time::Duration};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use telemetry::error_log::{self, Level};

use super::{
    pid_file,
    signals::{Event, Signals},
};

/// Of the command line, for no user.
pub const VERB: &str = "stay";

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// As [`until_end`], by a fresh image of this program: threads that do not come back end with the old one, and this
/// process may stay for long. Returns if that cannot be had.
pub fn without_threads(path: &Path) {
    let error = Command::new("/proc/self/exe").arg0("tidegate").arg(VERB).arg(path).exec();
    error_log::log(
        Level::Error,
        format_args!("threads that do not come back stay in process {}: {error}", std::process::id()),
    );
}

/// Returns when no process holds the pid file any more. This one must not hold it. `reaps`: nobody else waits for the
/// processes that this one started.
pub fn until_end(signals: &Signals, path: &Path, reaps: bool) {
    while let Ok(Some(_)) = pid_file::running(path) {
        // Who serves is asked when there is something to say: it may be another one by then.
        if let Some(event) = signals.next(Some(LOOK_INTERVAL))
            && let Ok(Some(pid)) = pid_file::running(path)
        {
            pass_on(pid, &event);
        }
        if reaps || std::process::id() == 1 {
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
        Event::Command(..) | Event::Successor(..) | Event::Stuck(_) => return,
    };
    if let Some(pid) = Pid::from_raw(pid) {
        // It may just have ended, which the next look shows.
        let _ = kill_process(pid, signal);
    }
}
