//! Standard output of the verbs: the one way to it.
//!
//! A reader that has seen enough, such as `head`, is not a failure: the rest goes nowhere. Where it cannot be written otherwise, as
//! on a full disk, the verb ends as it would, says so, and its exit code is 1.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
    sync::Mutex,
};

/// Why something could not be written.
static PROBLEM: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints; the error is that of this text.
pub(super) fn try_print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    unless_closed(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    written.or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

/// Prints. What goes wrong is the end of the verb: [`problem`].
pub(super) fn print(text: &str) {
    keep_problem(try_print(text));
}

/// Prints a line, as [`print`].
pub(super) fn line(text: &str) {
    print(&format!("{text}\n"));
}

/// Keeps what another writer to standard output came to.
pub(super) fn keep_problem(written: io::Result<()>) {
    if let (Err(error), Ok(mut problem)) = (unless_closed(written), PROBLEM.lock()) {
        problem.get_or_insert(error);
    }
}

/// What could not be printed since the last time.
pub(super) fn problem() -> anyhow::Result<()> {
    match PROBLEM.lock().ok().and_then(|mut problem| problem.take()) {
        None => Ok(()),
        Some(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
    }
}

/// The exit code of a verb that came to this one.
pub(super) fn checked(code: ExitCode) -> ExitCode {
    match problem() {
        Ok(()) => code,
        Err(error) => {
            crate::say::complain!("tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
