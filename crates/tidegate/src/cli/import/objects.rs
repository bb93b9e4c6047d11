//! Objects of an apisix.yaml, judged as `tidegate doctor` and a start judge them, with their lines.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tidegate_config::Settings;
use tidegate_import::Report;

use crate::cli::doctor::objects::{OwnPlugins, said_of_file};

/// The config.yaml that they will be served with.
pub(super) struct Config {
    keys: Value,
    file: PathBuf,
}

impl Config {
    pub(super) fn of(settings: &Settings) -> Config {
        Config { keys: settings.raw.clone(), file: settings.files.config.clone() }
    }

    /// With all plugins, those that are off by default too.
    pub(super) fn with_all_plugins(settings: &Settings) -> Config {
        let mut config = Config::of(settings);
        let own = settings.plugins.iter().map(String::as_str);
        let all = tidegate_plugins::registry::PLUGINS.iter().map(|plugin| plugin.name);
        config.keys["plugins"] =
            all.chain(own).collect::<std::collections::BTreeSet<_>>().into_iter().collect();
        config
    }

    /// The one beside the file, which is the one that it was served with.
    fn beside(file: &Path) -> Option<Config> {
        let beside = file.with_file_name("config.yaml");
        let text = super::beside::read_text(&beside).ok()?;
        Some(Config { keys: tidegate_config::yaml::to_value(&text).ok()?, file: beside })
    }
}

/// What is said of the objects of `file`.
pub(super) fn report_objects(
    file: &Path,
    text: &str,
    config: Option<&Config>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let beside = if config.is_some() { None } else { Config::beside(file) };
    let config = config.or(beside.as_ref());
    let own_plugins =
        config.map_or_else(OwnPlugins::default, |config| OwnPlugins::of(Some(&config.keys), &config.file));
    let said = said_of_file(file, &of_today(file, text), config.map(|config| &config.keys), own_plugins)?;
    if let Some(refusal) = &said.refusal {
        report.unsupported(0, "objects", refusal);
    }
    let shown = format!("{}:", file.display());
    for message in &said.messages {
        let (line, text) = placed(message, &shown);
        let (subject, why) = text.split_once(": ").unwrap_or((text, ""));
        match why.starts_with("unknown field ") {
            // APISIX does not look at it either.
            true => report.ignored(line, subject, why),
            false => report.unsupported(line, subject, why),
        }
    }
    Ok(())
}

/// As `--to` writes it, line by line: `ssl` of 2.x is `ssls`, and the last line is `#END`.
fn of_today(file: &Path, text: &str) -> String {
    if file.extension().is_some_and(|ending| ending == "json") {
        return text.to_owned();
    }
    let line = |line: &str| match line.strip_prefix("ssl:") {
        Some(rest) => format!("ssls:{rest}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).chain(["#END\n".to_owned()]).collect()
}

/// `FILE:LINE:COLUMN: TEXT`; line 0 without a place.
fn placed<'m>(message: &'m str, shown: &str) -> (usize, &'m str) {
    let place = message.strip_prefix(shown).and_then(|rest| rest.split_once(": "));
    match place.and_then(|(place, text)| Some((place.split(':').next()?.parse().ok()?, text))) {
        Some(found) => found,
        None => (0, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_file() {
        assert_eq!(placed("a/b.yaml:12:3: routes/1: why", "a/b.yaml:"), (12, "routes/1: why"));
        assert_eq!(placed("routes/1: why", "a/b.yaml:"), (0, "routes/1: why"));
    }
}
