//! In place of reading other gateways' configurations, in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use std::ffi::OsString;

use anyhow::bail;
use tidegate_config::Loaded;
use tidegate_model::catalog::built_without;

use super::SharedOptions;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _any: Vec<OsString>,
}

/// There is nothing to read.
#[derive(clap::Args)]
pub(crate) struct Reading {}

pub(crate) fn run(_: &SharedOptions, _: &Arguments) -> anyhow::Result<()> {
    bail!("import: {}", built_without("import"))
}

pub(crate) fn serve(
    from: &str,
    _: &SharedOptions,
    _: &Reading,
    _: bool,
    _: &mut Loaded,
) -> anyhow::Result<()> {
    bail!("--from {from}: {}", built_without("import"))
}
