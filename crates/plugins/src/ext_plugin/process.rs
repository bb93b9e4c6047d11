//! The runner as a process of the gateway's: started with it, started again when it ends, and ended with it.

use std::{
    io::{self, PipeReader, Read},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::{
    call::{CONF_SECONDS, forget_tokens},
    connection::{remove_socket, socket_path},
};

/// Until it is started again; twice as long after each that ends soon.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// One that has run for so long did not end soon.
const WELL: Duration = Duration::from_secs(60);
/// Between SIGTERM and SIGKILL.
const PATIENCE: Duration = Duration::from_secs(1);
/// A longer line of its output is logged in pieces.
const MOST_LINE_BYTES: usize = 3800;

#[derive(Default)]
struct State {
    /// Of the runner that has not been waited for.
    pid: Option<Pid>,
    is_ending: bool,
}

/// Ends the runner when it is dropped.
pub struct Runner(Arc<(Mutex<State>, Condvar)>);

impl Runner {
    /// Starts a program, and whenever it ends another one. The error is that of a thread.
    pub fn start(command: Vec<String>) -> io::Result<Runner> {
        let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
        let theirs = shared.clone();
        thread::Builder::new().name("plugin-runner".to_owned()).spawn(move || keep(&command, &theirs))?;
        Ok(Runner(shared))
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock();
        state.is_ending = true;
        changed.notify_all();
        // It is not waited for while the lock is held: the number is still its own.
        let end = |pid, signal| {
            let _ = kill_process(pid, signal);
        };
        if let Some(pid) = state.pid {
            end(pid, Signal::TERM);
        }
        let deadline = Instant::now() + PATIENCE;
        while state.pid.is_some() && !changed.wait_until(&mut state, deadline).timed_out() {}
        if let Some(pid) = state.pid {
            end(pid, Signal::KILL);
        }
        remove_socket();
    }
}

fn keep(command: &[String], (state, changed): &(Mutex<State>, Condvar)) {
    let shown = serde_json::to_string(command).unwrap_or_default();
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let spawned = {
            let mut state = state.lock();
            if state.is_ending {
                return;
            }
            let spawned = spawn(command);
            state.pid =
                spawned.as_ref().ok().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?));
            spawned
        };
        match spawned {
            Ok(child) => wait(child, state, changed),
            Err(error) => error_log::log(Level::Error, format_args!("failed to start {shown}: {error}")),
        }
        forget_tokens();
        if started.elapsed() >= WELL {
            pause = FIRST_PAUSE;
        }
        let mut state = state.lock();
        if state.is_ending {
            return;
        }
        let seconds = pause.as_secs();
        error_log::log(Level::Warn, format_args!("respawn runner {seconds} seconds later with cmd: {shown}"));
        let until = Instant::now() + pause;
        while !state.is_ending && !changed.wait_until(&mut state, until).timed_out() {}
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn spawn(command: &[String]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let (output, theirs) = io::pipe()?;
    let child = Command::new(program)
        .args(arguments)
        .env("APISIX_LISTEN_ADDRESS", format!("unix:{}", socket_path()))
        .env("APISIX_CONF_EXPIRE_TIME", CONF_SECONDS.to_string())
        .stdin(Stdio::null())
        .stdout(theirs.try_clone()?)
        .stderr(theirs)
        .spawn()?;
    // It ends with the last process that has the other end.
    thread::Builder::new().name("runner-output".to_owned()).spawn(move || pass_on(output))?;
    Ok(child)
}

/// Until it has ended.
fn wait(mut child: Child, state: &Mutex<State>, changed: &Condvar) {
    let pid = state.lock().pid;
    if let Some(pid) = pid {
        // It stays a zombie, and its number its own, until it is waited for under the lock.
        while waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).err()
            == Some(rustix::io::Errno::INTR)
        {}
    }
    let mut state = state.lock();
    let status = child.wait();
    state.pid = None;
    changed.notify_all();
    let reason = match status.map(|status| (status.code(), status)) {
        Ok((Some(code), _)) => format!("reason: exit, status: {code}"),
        Ok((None, status)) => format!("reason: signal, status: {status}"),
        Err(error) => format!("reason: {error}"),
    };
    error_log::log(Level::Warn, format_args!("runner exited with {reason}"));
}

/// What it says goes into the error log.
fn pass_on(mut output: PipeReader) {
    static LINES: Limiter = Limiter::new(200, 1000);
    let mut buffer = [0; MOST_LINE_BYTES];
    while let Ok(length @ 1..) = output.read(&mut buffer) {
        let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            if let Some(others) = LINES.pass() {
                let others = if others == 0 {
                    String::new()
                } else {
                    format!(" ({others} lines before it were not logged)")
                };
                error_log::log(Level::Warn, format_args!("runner: {line}{others}"));
            }
        }
    }
}
