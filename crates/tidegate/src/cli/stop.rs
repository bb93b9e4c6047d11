//! `tidegate stop`: stop at once.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{daemon, place::SharedOptions, stdout};

/// Stopping at once waits for no client; this is for a machine under load.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let begun = Instant::now();
    let pid = daemon::signal(place, Signal::TERM)?;
    daemon::wait_gone(pid, TIMEOUT)?;
    let seconds = begun.elapsed().as_secs_f64();
    stdout::line(&format!("tidegate: process {} stopped after {seconds:.1} s", pid.as_raw_nonzero()));
    Ok(())
}
