//! `tidegate stay PID_FILE`: what becomes of the first process after an upgrade, where it stays and must leave behind threads
//! that do not end. Only that process calls it: see [`crate::boot::stay`].

use std::path::PathBuf;

use anyhow::Context as _;

pub(super) use crate::boot::stay::VERB;

use crate::boot::{
    signals::{Hangup, Signals},
    stay::{accept_signals, until_end},
};

#[derive(clap::Args)]
pub(super) struct Arguments {
    pid_file: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let signals = Signals::install(Hangup::Reload)?;
    accept_signals().context("cannot unblock signals")?;
    until_end(&signals, &arguments.pid_file, true);
    Ok(())
}
