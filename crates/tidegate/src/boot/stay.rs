//! After an upgrade the first process can stay, doing nothing but passing signals on, until the gateway ends: for
//! containers, which end with their first process, and for supervisors that watch the process they started.

use std::{
    io, mem::MaybeUninit, os::unix::process::CommandExt, path::Path, process::Command, ptr, time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    pid_file,
    signals::{Event, SIGNALS, Signals},
};

/// Of the command line, for no user.
pub(crate) const VERB: &str = "stay";

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// As [`until_end`], by a fresh image of this program: threads that do not come back end with the old one, and this
/// process may stay for long. Returns if that cannot be had. A signal that comes meanwhile waits until the new image takes it
/// with [`accept_signals`].
pub(crate) fn without_threads(path: &Path) {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("tidegate").arg(VERB).arg(path);
    // SAFETY: nothing is forked; the closure runs in this process, and only changes the signal mask of this thread.
    let error = unsafe { command.pre_exec(|| mask(libc::SIG_BLOCK)) }.exec();
    let _ = mask(libc::SIG_UNBLOCK);
    error_log::log(
        Level::Error,
        format_args!("threads that do not come back stay in process {}: {error}", std::process::id()),
    );
}

/// Delivers the signals that were held back until the handlers of this image were installed.
pub(crate) fn accept_signals() -> io::Result<()> {
    mask(libc::SIG_UNBLOCK)
}

/// Blocks or unblocks the gateway's signals for this thread; a new image inherits the mask.
fn mask(how: libc::c_int) -> io::Result<()> {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` initializes the set, and the others take nothing but that set and valid signal numbers.
    let error = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in SIGNALS {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut())
    };
    match error {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns when no process holds the pid file any more. This one must not hold it. `reaps`: no other code waits for
/// the processes that this one started.
pub(crate) fn until_end(signals: &Signals, path: &Path, reaps: bool) {
    while let Ok(Some(_)) = pid_file::running(path) {
        // The serving process is looked up when there is an event to pass on: it may be another one by then.
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
pub(crate) fn pass_on(pid: i32, event: &Event) {
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
