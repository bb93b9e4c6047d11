//! `tidegate stop`: stop at once.

use std::time::Duration;

use rustix::process::Signal;

use super::{daemon, place::SharedOptions};

/// Stopping at once waits for no client; this is for a machine under load.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let pid = daemon::signal(place, Signal::TERM)?;
    daemon::wait_gone(pid, TIMEOUT)
}
