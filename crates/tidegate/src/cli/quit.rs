//! `tidegate quit`: stop when the requests under way are answered.
//!
//! Returns at once, as APISIX does: requests may take minutes. `nginx_config.worker_shutdown_timeout` is the limit.

use rustix::process::Signal;

use super::{daemon, place::SharedOptions};

pub(super) fn run(place: &SharedOptions) -> anyhow::Result<()> {
    daemon::signal(place, Signal::QUIT).map(|_| ())
}
