//! In place of the followers, in a build without etcd.

use std::{ffi::OsString, process::ExitCode};

use tidegate_bench::Problem;
use tidegate_model::catalog::built_without;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<OsString>,
}

pub(super) fn run(_: &Arguments) -> Result<ExitCode, Problem> {
    Err(Problem::failed(built_without("etcd")))
}
