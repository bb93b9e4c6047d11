//! `tidegate bench suite FILE...`: scenario matrices, several targets, medians.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::Ordering::Relaxed,
};

use clap::Args;
use tidegate_bench::{
    Problem, interrupt,
    suite::{self, Runner, Settings, Suite},
};
use tidegate_config::yaml;
use tidegate_model::typed;

use super::{
    exit::{INTERRUPTED, PARTLY_FAILED},
    files::{self, Output},
};
use crate::say::complain;

#[derive(Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Suites, such as perf/suites/*.yaml
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Short measurements: all shipped suites in about 15 minutes
    #[arg(long)]
    quick: bool,
    /// Also measure a running server, as NAME=URL; may be given several times
    #[arg(long = "target", value_name = "NAME=URL", value_parser = target)]
    targets: Vec<(String, String)>,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Also write the tables to a file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn target(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, url)) if !name.is_empty() => {
            tidegate_bench::target::Origin::parse(url).map_err(|problem| problem.text)?;
            Ok((name.to_owned(), url.to_owned()))
        }
        _ => Err("a target is written NAME=URL".into()),
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    // All are read before the first runs: a mistake in the last must not cost the time of the others.
    let suites: Result<Vec<Suite>, Problem> =
        arguments.files.iter().map(|file| read(file, arguments)).collect();
    let binary = std::env::current_exe().map_err(|error| {
        Problem::failed(format!("cannot find this binary to start it as a target: {error}"))
    })?;
    let settings = Settings { binary, external: arguments.targets.clone(), stop: interrupt::flag()? };
    let output = arguments.output.as_deref().map(|path| Output::open("--output", path)).transpose()?;
    let (mut text, mut failed) = (String::new(), 0);
    for suite in suites? {
        let mut say = |line: String| complain!("{}: {line}", suite.name);
        let measured = Runner::new(&suite, &settings, &mut say).run()?;
        let table = suite::markdown(&suite, &measured);
        files::print(&format!("{table}\n"))?;
        text.push_str(&table);
        text.push('\n');
        failed += suite::summary(&measured);
    }
    if let Some(output) = output {
        output.write(&text)?;
    }
    if settings.stop.load(Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(if failed > 0 { ExitCode::from(PARTLY_FAILED) } else { ExitCode::SUCCESS })
}

fn read(file: &Path, arguments: &Arguments) -> Result<Suite, Problem> {
    let name = file.display().to_string();
    let mut suite = parse(&files::read(file)?, &name)?;
    if arguments.quick {
        suite.quick();
    }
    if let Some(only) = &arguments.only {
        suite.scenarios.retain(|scenario| scenario.name.contains(only));
        if suite.scenarios.is_empty() {
            return Err(Problem::usage(format!("{name}: no scenario has {only:?} in its name")));
        }
    }
    Ok(suite)
}

/// Reads YAML; `file` is its name, for messages.
fn parse(text: &str, file: &str) -> Result<Suite, Problem> {
    let document = yaml::to_value(text).map_err(|fault| Problem::usage(format!("{file}:{fault}")))?;
    let suite: Suite = typed(&document).map_err(|why| Problem::usage(format!("{file}: {why}")))?;
    suite.checked(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_suites_are_good() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../perf/suites");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).expect("perf/suites").flatten() {
            let text = std::fs::read_to_string(entry.path()).expect("readable");
            let suite = parse(&text, &entry.path().display().to_string());
            names.push(suite.unwrap_or_else(|problem| panic!("{problem}")).name);
        }
        names.sort();
        assert_eq!(
            names,
            ["apisix-benchmark", "api7-table", "hyperapi-table", "jitter", "lotos-table"]
                .map(String::from)
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (bad, why) in [
            ("name: a", "f: missing field `about`"),
            ("name: a\nabout: b\nscenarios: []", "f: no scenarios"),
            ("name: a\nabout: b\nname: c", "f:3:1: key \"name\" is given twice, first at 1:1"),
        ] {
            assert_eq!(parse(bad, "f").expect_err(bad).text, why);
        }
        let unknown = "name: a\nabout: b\nscenarios: [{name: c, nope: 1}]";
        let why = parse(unknown, "f").expect_err(unknown).text;
        assert!(
            why.starts_with("f: field scenarios[0].nope: unknown field `nope`, expected one of"),
            "{why}"
        );
    }
}
