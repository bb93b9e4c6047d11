//! `tidegate stop`: stop at once, with the processes of before an upgrade or a reload that still drain.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{daemon, place::SharedOptions, stdout};

/// Stopping at once waits for no client; this is for a machine under load.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let begun = Instant::now();
    let ending = daemon::signal_all(place, Signal::TERM)?;
    let which = ending.serving.iter().map(|pid| (pid, "")).chain(
        ending
            .draining
            .iter()
            .map(|pid| (pid, ", which finished requests from before an upgrade or a reload,")),
    );
    for (pid, what) in which {
        daemon::wait_gone(*pid, TIMEOUT)?;
        let seconds = begun.elapsed().as_secs_f64();
        stdout::line(&format!(
            "tidegate: process {}{what} stopped after {seconds:.1} s",
            pid.as_raw_nonzero()
        ));
    }
    Ok(())
}
