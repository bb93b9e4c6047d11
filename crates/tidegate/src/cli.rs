//! The command line: `tidegate VERB`.

mod admin_api;
mod bench;
mod completions;
mod configuration;
mod daemon;
mod explain;
mod import;
mod quit;
mod reload;
mod routes;
mod run;
mod serve;
mod start;
mod stop;
mod test;
mod upgrade;
mod version;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use config::{Loaded, Source};

/// An API gateway that speaks Apache APISIX's Admin API and reads its configuration.
#[derive(Parser)]
#[command(name = "tidegate", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve in the foreground, until a signal says stop
    Run(run::Arguments),
    /// Serve the files of a directory
    Serve(serve::Arguments),
    /// Serve in the background; returns when connections are accepted
    Start(start::Arguments),
    /// Stop at once
    Stop,
    /// Stop when the requests under way are answered
    Quit,
    /// Put a changed config.yaml in force without a lost request, and open the log files again
    Reload(reload::Arguments),
    /// Let this program take over from the one that runs, without a lost request
    Upgrade(upgrade::Arguments),
    /// Check config.yaml and the resource files, and print what is wrong
    Test,
    /// Print the version
    Version,
    /// Print the routes of the running gateway
    Routes,
    /// Tell which route a request would take and why, and what would run
    Explain(explain::Arguments),
    /// Export, import and roll back the configuration of the running gateway, and tell who changed what
    #[command(subcommand)]
    Config(configuration::Verb),
    /// Turn the configuration of another gateway into objects of this one, and say what became of each part
    Import(import::Arguments),
    /// Measure an HTTP server: throughput, latency, and what causes the tail
    Bench(Box<bench::Arguments>),
    /// Print a completion script for a shell
    Completions(completions::Arguments),
}

/// Where the gateway lives.
#[derive(Args, Clone)]
struct Place {
    /// Folder with conf/, logs/ and data/
    #[arg(long, global = true, value_name = "DIR", env = "TIDEGATE_PREFIX", default_value = ".")]
    prefix: PathBuf,
    /// Configuration file in place of conf/config.yaml
    #[arg(short, long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Port or address for HTTP in place of apisix.node_listen
    #[arg(long, global = true, value_name = "ADDR")]
    listen: Option<String>,
}

impl Place {
    /// Paths become absolute: the process in the background has another working directory.
    fn source(&self) -> anyhow::Result<Source> {
        let prefix =
            std::path::absolute(&self.prefix).context("cannot find the working directory; give --prefix")?;
        let file = self.config.as_ref().map(std::path::absolute).transpose()?;
        Ok(Source { prefix, file, listen: self.listen.clone() })
    }

    fn load(&self) -> anyhow::Result<Loaded> {
        Ok(config::load(&self.source()?)?)
    }
}

pub fn main() -> ExitCode {
    let Cli { place, verb } = Cli::parse();
    let result = match verb {
        Verb::Run(arguments) => run::run(&place, &arguments),
        Verb::Serve(arguments) => serve::run(&place, &arguments),
        Verb::Start(arguments) => start::run(&place, &arguments),
        Verb::Stop => stop::run(&place),
        Verb::Quit => quit::run(&place),
        Verb::Reload(arguments) => reload::run(&place, &arguments),
        Verb::Upgrade(arguments) => upgrade::run(&place, &arguments),
        Verb::Test => test::run(&place),
        Verb::Version => version::run(),
        Verb::Routes => routes::run(&place),
        Verb::Explain(arguments) => explain::run(&place, &arguments),
        Verb::Config(verb) => configuration::run(&place, &verb),
        Verb::Import(arguments) => import::run(&arguments),
        Verb::Bench(arguments) => return bench::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
