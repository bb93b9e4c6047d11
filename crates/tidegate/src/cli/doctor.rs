//! `tidegate doctor`: what is wrong with this machine and this configuration, and what to do about it.
//!
//! The checks of the machine are those of `tidegate bench doctor`, which shows what spoils measurements, too.

mod apisix;
mod check;
mod disk;
mod gateway;
#[cfg_attr(not(feature = "bench"), path = "doctor/machine/absent.rs")]
mod machine;
pub(in crate::cli) mod objects;
mod plugin_files;
mod reach;
mod remedy;
mod resources;
pub(in crate::cli) mod store;
pub(in crate::cli) mod trial;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use serde_json::json;

use self::check::{Check, State};
use super::{place::SharedOptions, printable::printable_lines, stdout};

/// Something is wrong; `bench doctor` has the same.
const SOMETHING_BAD: u8 = 3;

#[derive(Args)]
pub(super) struct Arguments {
    /// Check whether this apisix.yaml of Apache APISIX can be used here
    file: Option<PathBuf>,
    /// Check whether the configuration in this etcd of Apache APISIX can be used here
    #[arg(long, value_name = "URL", conflicts_with = "file")]
    etcd: Option<String>,
    /// Prefix of APISIX's keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/apisix", requires = "etcd")]
    etcd_prefix: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let checks = match (&arguments.file, &arguments.etcd) {
        (Some(file), _) => apisix::of_file(file)?,
        (None, Some(url)) => apisix::of_etcd(url, &arguments.etcd_prefix)?,
        (None, None) => {
            let mut checks = machine::checks();
            checks.extend(gateway::checks(place));
            checks
        }
    };
    let bad = checks.iter().filter(|check| check.state == State::Bad).count();
    if arguments.json {
        let checks: Vec<_> = checks.iter().map(Check::json).collect();
        let text = serde_json::to_string_pretty(&json!({"bad": bad, "checks": checks}))?;
        stdout::line(&printable_lines(&text));
    } else {
        for check in &checks {
            stdout::line(&printable_lines(&check.text()));
        }
        stdout::line(&verdict(bad, checks.len()));
    }
    Ok(if bad > 0 { ExitCode::from(SOMETHING_BAD) } else { ExitCode::SUCCESS })
}

fn verdict(bad: usize, all: usize) -> String {
    match bad {
        0 => format!("\n{all} checks, nothing is wrong"),
        1 => format!("\n{all} checks, 1 thing is wrong"),
        _ => format!("\n{all} checks, {bad} things are wrong"),
    }
}
