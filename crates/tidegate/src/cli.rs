//! The command line: `tidegate VERB`.

mod admin_api;
#[cfg_attr(not(feature = "bench"), path = "cli/bench/absent.rs")]
mod bench;
mod completions;
mod configuration;
mod connections;
mod count;
mod daemon;
mod denied;
mod doctor;
mod echo;
mod exchange;
mod explain;
mod health;
mod help;
#[cfg_attr(not(feature = "import"), path = "cli/import/absent.rs")]
mod import;
mod init;
mod manual;
mod openapi;
mod output;
mod place;
mod printable;
mod proxy;
mod quit;
mod reload;
mod routes;
mod run;
mod self_signed;
mod serve;
mod start;
mod stay;
mod stdout;
mod stop;
mod temporary;
mod test;
mod upgrade;
mod usage;
mod version;

use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use printable::printable_lines;
use rustix::{fs::Mode, process::umask};

use self::place::SharedOptions;

/// An API gateway that speaks Apache APISIX's Admin API and reads its configuration.
#[derive(Parser)]
#[command(
    name = "tidegate",
    bin_name = "tidegate",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(flatten)]
    place: SharedOptions,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Write a commented config.yaml as a starting point
    Init(init::Arguments),
    /// Run in the foreground until a signal stops it
    Run(run::Arguments),
    /// Serve the files of a directory
    Serve(serve::Arguments),
    /// Put a gateway in front of one server, with TLS, a key, a rate limit or CORS
    Proxy(Box<proxy::Arguments>),
    /// Answer with the received request: something to proxy to
    Echo(echo::Arguments),
    /// Start in the background; return once connections are accepted
    Start(start::Arguments),
    /// Stop at once
    Stop,
    /// Stop gracefully: finish the requests in flight first
    Quit,
    /// Apply a changed config.yaml without losing a request, and reopen the log files
    Reload(reload::Arguments),
    /// Replace the running process with this program without losing a request
    Upgrade(upgrade::Arguments),
    /// Check whether a start would succeed: exit code 0 if so, 1 if not, 2 if some objects cannot be used
    Test(test::Arguments),
    /// Print version, commit, date and build features
    Version,
    /// Ask the running gateway whether it serves: exit code 0 if so, else 1
    Health,
    /// Print the routes of the running gateway
    Routes,
    /// Print the open sessions of TCP and UDP, drain or close them
    Connections(connections::Arguments),
    /// Show which route a request would match and why, and which plugins would run
    Explain(explain::Arguments),
    /// Check the machine and the configuration, and say what to do: exit code 3 if something is wrong
    Doctor(doctor::Arguments),
    /// Export, import, roll back, back up and repair the configuration, and show its history
    #[command(subcommand)]
    Config(configuration::Verb),
    /// Convert the configuration of another gateway, and report what became of each part
    Import(import::Arguments),
    /// Benchmark an HTTP server: throughput, latency, and the causes of tail latency
    Bench(Box<bench::Arguments>),
    /// Print the Admin, Control and status APIs as an OpenAPI 3.1 document
    Openapi(openapi::Arguments),
    /// Print a shell completion script
    Completions(completions::Arguments),
    /// Write manual pages
    #[command(hide = true)]
    Manual(manual::Arguments),
    /// Pass signals on to the gateway until it ends
    #[command(name = stay::VERB, hide = true)]
    Stay(stay::Arguments),
}

/// Logs, data and configuration are for the gateway's user and group: files 0640, folders 0750, whatever writes them.
/// Stricter ones stay so.
fn keep_to_owner_and_group(verb: &Verb) {
    if matches!(verb, Verb::Init(_) | Verb::Run(_) | Verb::Start(_) | Verb::Serve(_) | Verb::Proxy(_)) {
        let before = umask(Mode::empty());
        umask(before | Mode::WGRP | Mode::RWXO);
    }
}

/// The command line as it is declared, and as each verb shows it.
fn command() -> Command {
    help::of_verbs(Cli::command())
}

pub(crate) fn main() -> ExitCode {
    let parsed = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    let code = match parsed {
        Ok(Cli { place, verb }) => run(&place, verb),
        Err(error) => usage::explain(&error),
    };
    stdout::checked(code)
}

fn run(place: &SharedOptions, verb: Verb) -> ExitCode {
    crate::boot::signals::outlast_file_limits();
    keep_to_owner_and_group(&verb);
    let result = match verb {
        Verb::Init(arguments) => init::run(place, &arguments),
        Verb::Run(arguments) => run::run(place, &arguments),
        Verb::Serve(arguments) => serve::run(place, &arguments),
        Verb::Proxy(arguments) => proxy::run(place, &arguments),
        Verb::Echo(arguments) => echo::run(place, &arguments),
        Verb::Start(arguments) => start::run(place, &arguments),
        Verb::Stop => stop::run(place),
        Verb::Quit => quit::run(place),
        Verb::Reload(arguments) => match reload::run(place, &arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Upgrade(arguments) => match upgrade::run(place, &arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Test(arguments) => match test::run(place, &arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Version => version::run(),
        Verb::Health => health::run(place),
        Verb::Routes => routes::run(place),
        Verb::Connections(arguments) => connections::run(place, &arguments),
        Verb::Explain(arguments) => explain::run(place, &arguments),
        Verb::Doctor(arguments) => match doctor::run(place, &arguments) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Config(verb) => match configuration::run(place, &verb) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Verb::Import(arguments) => import::run(place, &arguments),
        Verb::Bench(arguments) => return bench::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments, &mut command()),
        Verb::Openapi(arguments) => openapi::run(&arguments),
        Verb::Manual(arguments) => manual::run(&arguments, command()),
        Verb::Stay(arguments) => stay::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let remedy = denied::remedy(&error);
            crate::say::complain!("tidegate: {}{remedy}", printable_lines(&format!("{error:#}")));
            match error.is::<usage::Unusable>() {
                true => ExitCode::from(usage::EXIT_CODE),
                false => ExitCode::FAILURE,
            }
        }
    }
}
