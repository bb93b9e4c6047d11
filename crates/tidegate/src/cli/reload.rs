//! `tidegate reload`: read config.yaml again.

use rustix::process::Signal;

use super::{Place, daemon};

pub fn run(place: &Place) -> anyhow::Result<()> {
    // A configuration that would not load is told here, and the running one stays.
    place.load()?;
    daemon::signal(place, Signal::HUP).map(|_| ())
}
