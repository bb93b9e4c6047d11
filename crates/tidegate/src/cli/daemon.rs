//! What verbs need to find, ask and signal a running gateway.

use std::{
    env,
    io::ErrorKind,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use tidegate_store::embedded;

use super::{place::SharedOptions, stdout};
use crate::boot::{
    commands::{self, Command, CommandReply},
    pid_file::{draining, is_gone, running},
};

/// What the gateway waits for at most is its own to limit; this is for one that does not answer at all.
const ANSWER_SLACK: Duration = Duration::from_secs(30);

/// Sends a signal to the running gateway; returns its process id.
pub(super) fn signal(place: &SharedOptions, signal: Signal) -> anyhow::Result<Pid> {
    let pid = find(place)?;
    send(pid, signal)?;
    Ok(pid)
}

fn send(pid: Pid, signal: Signal) -> anyhow::Result<()> {
    kill_process(pid, signal).with_context(|| format!("cannot signal process {}", pid.as_raw_nonzero()))
}

/// What `stop` ends.
pub(super) struct Ending {
    pub serving: Option<Pid>,
    /// Of before an upgrade or a reload.
    pub draining: Vec<Pid>,
}

/// Sends a signal to the running gateway, and to processes of before it that drain.
pub(super) fn signal_all(place: &SharedOptions, signal: Signal) -> anyhow::Result<Ending> {
    let path = pid_file(place)?;
    let mut draining: Vec<Pid> = draining(&path).into_iter().filter_map(Pid::from_raw).collect();
    let serving =
        if draining.is_empty() { Some(find(place)?) } else { running(&path)?.and_then(Pid::from_raw) };
    draining.retain(|pid| Some(*pid) != serving);
    for pid in serving.iter().chain(&draining) {
        // One that drains may have ended by itself.
        match send(*pid, signal) {
            Err(_) if is_gone(pid.as_raw_nonzero().get()) && Some(*pid) != serving => {}
            sent => sent?,
        }
    }
    Ok(Ending { serving, draining })
}

/// Waits until a process is gone.
pub(super) fn wait_gone(pid: Pid, timeout: Duration) -> anyhow::Result<()> {
    let deadline = Instant::now() + timeout;
    while !is_gone(pid.as_raw_nonzero().get()) {
        if Instant::now() >= deadline {
            bail!("process {} is still running after {} s", pid.as_raw_nonzero(), timeout.as_secs());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A broken config.yaml must not prevent a stop, so only the place of the pid file is asked for.
fn pid_file(place: &SharedOptions) -> anyhow::Result<PathBuf> {
    Ok(place.source()?.prefix.join("logs").join("tidegate.pid"))
}

/// The process that serves from this folder.
pub(super) fn serving(place: &SharedOptions) -> anyhow::Result<Option<i32>> {
    running(&pid_file(place)?)
}

/// Whether the process that serves from this folder answers commands.
pub(super) fn answers(place: &SharedOptions, patience: Duration) -> bool {
    let is_serving = matches!(serving(place), Ok(Some(_)));
    is_serving && pid_file(place).is_ok_and(|path| commands::unusable(&path, patience).is_ok())
}

fn find(place: &SharedOptions) -> anyhow::Result<Pid> {
    let path = pid_file(place)?;
    let pid = running(&path)?.and_then(Pid::from_raw);
    pid.with_context(|| match draining(&path).as_slice() {
        [] => absent(place, &path),
        [pid, ..] => format!(
            "not running: process {pid} only finishes requests from before an upgrade or a reload; `tidegate start` starts the \
             gateway, `tidegate stop` ends that process at once"
        ),
    })
}

/// Explains why no process was found to signal.
fn absent(place: &SharedOptions, path: &Path) -> String {
    let shown = path.display();
    let database = place.load().map(|loaded| loaded.settings.files.database);
    match database.ok().and_then(|database| Some((embedded::holder(&database)?, database))) {
        Some((pid, database)) => format!(
            "no process holds {shown}, but process {pid} has {} open: a gateway of this folder whose pid file is gone; \
             `kill -TERM {pid}` ends it",
            database.display()
        ),
        None => format!(
            "not running: no process holds {shown}; `tidegate start` starts it, --prefix names another folder"
        ),
    }
}

/// Sends a command to the running gateway and prints what it did. The error is its reason not to.
pub(super) fn command(place: &SharedOptions, command: &Command, limit: Duration) -> anyhow::Result<()> {
    let text = ask(place, command, limit)?;
    stdout::line(&format!("tidegate: {text}"));
    Ok(())
}

/// As [`command`], for an answer that is not about what was done.
pub(super) fn ask(place: &SharedOptions, command: &Command, limit: Duration) -> anyhow::Result<String> {
    let pid = find(place)?;
    let path = commands::path(&pid_file(place)?);
    let patience = limit + ANSWER_SLACK;
    let answer = commands::send(&path, command, patience).map_err(|error| {
        let (pid, seconds) = (pid.as_raw_nonzero(), patience.as_secs());
        match error.kind() {
            // The kernel's text for this is "resource temporarily unavailable".
            ErrorKind::WouldBlock | ErrorKind::TimedOut => anyhow!(
                "process {pid} has not answered within {seconds} s: it is stopped or overloaded. What it has not read it will \
                 not do; what it has begun it ends, which its error log tells"
            ),
            _ => anyhow!(error).context(format!("cannot ask process {pid} at {}", path.display())),
        }
    })?;
    match answer {
        CommandReply::Done(text) => Ok(text),
        CommandReply::Failed(reason) => bail!("{reason}"),
        CommandReply::Follows(_) => Err(commands::unexpected()),
    }
}

/// This program as it was called: a link to the version in use stays a link, which a later upgrade follows.
pub(super) fn own_program() -> anyhow::Result<PathBuf> {
    let called = env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let candidate = if called.components().count() > 1 {
        Some(std::path::absolute(&called)?)
    } else {
        let folders = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&folders).map(|folder| folder.join(&called)).find(|file| file.is_file())
    };
    match candidate.filter(|file| file.is_file()) {
        Some(file) => Ok(file),
        None => env::current_exe().context("cannot find this program's own file"),
    }
}
