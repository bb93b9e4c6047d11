//! Starting the gateway: from settings to listening workers.

use config::Settings;

/// What `run` knows beyond the settings.
#[derive(Default)]
pub struct RunOptions {
    /// To be called once, when connections are accepted.
    pub on_ready: Option<Box<dyn FnOnce() + Send>>,
}

/// Serves until a signal says stop.
pub fn run(_settings: Settings, options: RunOptions) -> anyhow::Result<()> {
    drop(options.on_ready);
    anyhow::bail!("not wired yet")
}
