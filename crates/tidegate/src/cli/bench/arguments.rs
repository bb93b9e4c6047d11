//! The flags of `tidegate bench`. Where wrk, wrk2 and ab have a letter for something, it is the same letter.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::load::Load;

/// Benchmark an HTTP server: throughput, latency, and the causes of tail latency
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    args_override_self = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub load: Load,
    #[command(subcommand)]
    pub mode: Option<Mode>,
    // These take the place of the gateway's own flags: -c means connections here, the others mean nothing.
    #[arg(long, hide = true)]
    config: Option<PathBuf>,
    #[arg(long, hide = true)]
    prefix: Option<PathBuf>,
    #[arg(long, hide = true)]
    listen: Option<String>,
}

#[derive(Subcommand)]
pub(crate) enum Mode {
    /// Compare two results written with --json
    Compare(super::compare::Arguments),
    /// Check the machine, gateway configuration and target for what distorts measurements
    Doctor(super::doctor::Arguments),
    /// Stand for many gateways that follow an etcd: what they cost it, and how soon a change reaches all
    Followers(super::followers::Arguments),
    /// Run scenario files such as perf/suites/*.yaml and print their tables
    Suite(super::suite::Arguments),
    /// Start servers with known causes of latency, and healthy ones, and check what is reported for each
    Selftest(super::selftest::Selftest),
}
