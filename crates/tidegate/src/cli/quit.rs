//! `tidegate quit`: stop when the requests under way are answered.
//!
//! Returns at once, as APISIX does: requests may take minutes. `nginx_config.worker_shutdown_timeout` is the limit.

use rustix::process::Signal;

use super::{daemon, place::SharedOptions, stdout};

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    let pid = daemon::signal(place, Signal::QUIT)?.as_raw_nonzero();
    stdout::line(&format!(
        "tidegate: process {pid} takes no more connections and ends after its last answer"
    ));
    Ok(())
}
