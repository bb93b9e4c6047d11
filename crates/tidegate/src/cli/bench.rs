//! `tidegate bench`: measure any HTTP server, and say where its latency comes from.

mod arguments;
mod body;
mod compare;
mod doctor;
mod events;
mod exit;
mod files;
#[cfg_attr(not(feature = "etcd"), path = "bench/without_etcd.rs")]
mod followers;
mod grpc;
mod load;
mod progress;
mod reports;
mod requests;
mod run;
mod selftest;
mod stages;
mod suite;
mod time;
mod websocket;

use std::process::ExitCode;

use tidegate_bench::Problem;

use crate::say::complain;

pub(super) use arguments::Arguments;
use arguments::Mode;

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let result = match &arguments.mode {
        None => run::run(&arguments.load),
        Some(mode) => dispatch(mode),
    };
    result.unwrap_or_else(|problem| {
        complain!("tidegate bench: {problem}");
        ExitCode::from(problem.exit_code())
    })
}

fn dispatch(mode: &Mode) -> Result<ExitCode, Problem> {
    match mode {
        Mode::Compare(arguments) => compare::run(arguments),
        Mode::Doctor(arguments) => doctor::run(arguments),
        Mode::Followers(arguments) => followers::run(arguments),
        Mode::Suite(arguments) => suite::run(arguments),
        Mode::Selftest(arguments) => selftest::run(arguments),
    }
}
