//! In place of the load generator, in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use std::{ffi::OsString, process::ExitCode};

use tidegate_model::catalog::built_without;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<OsString>,
}

pub(crate) fn run(_: &Arguments) -> ExitCode {
    crate::say::complain!("tidegate bench: {}", built_without("bench"));
    ExitCode::FAILURE
}
