//! `tidegate run`: serve in the foreground.

use super::{Place, daemon};
use crate::boot::{self, RunOptions};

pub fn run(place: &Place) -> anyhow::Result<()> {
    let mut loaded = place.load()?;
    loaded.fill_admin_keys()?;
    for warning in &loaded.warnings {
        eprintln!("tidegate: warning: {warning}");
    }
    let settings = loaded.settings;
    // Held until the end; a second gateway with the same prefix stops here.
    let _pid_file = daemon::PidFile::create(&settings.files.pid)?;
    let options = RunOptions { on_ready: Some(Box::new(daemon::announce_ready)) };
    boot::run(settings, options)
}
