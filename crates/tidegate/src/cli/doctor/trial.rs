//! What a start would say of the objects: `tidegate test` as a process of its own, and the lines that it prints.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    process::{Command, Stdio},
};

use anyhow::Context;

use super::{
    check::Check,
    remedy::{self, UNUSABLE},
};
use crate::cli::daemon;

/// Levels of the error log that say that something is wrong.
const LEVELS: [&str; 5] = ["warn", "error", "crit", "alert", "emerg"];
/// What other checks say as well, or what is said twice.
const ELSEWHERE: [&str; 2] = ["failed to check item data of ", "failed to resolve "];

/// What was said.
pub(in crate::cli) struct Said {
    /// Messages of the error log, each once.
    pub messages: Vec<String>,
    /// Why a start would end.
    pub refusal: Option<String>,
}

impl Said {
    /// What is said of objects that cannot be used.
    pub(in crate::cli) fn faults(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str).filter(|message| message.contains(UNUSABLE))
    }

    /// It runs, and says itself what it cannot use.
    pub(super) fn leave_faults_to_the_gateway(&mut self) {
        self.messages.retain(|message| !message.contains(UNUSABLE));
    }

    /// How many objects cannot be used. Of some several things are said.
    pub(super) fn unusable(&self) -> usize {
        let object = |message| unplaced(message).split(UNUSABLE).next().unwrap_or_default();
        self.faults().map(object).collect::<BTreeSet<&str>>().len()
    }
}

/// The check of a message. A secret need not be where a configuration is looked at.
pub(super) fn check(name: &str, message: &str) -> Check {
    let check = Check::of_message(name, message, remedy::of(message));
    match message.contains("failed to resolve secret reference") {
        true => Check::unknown(name, check.seen, "see that it is there where the gateway will run"),
        false => check,
    }
}

/// Runs it with these arguments.
pub(in crate::cli) fn test(arguments: &[OsString]) -> anyhow::Result<Said> {
    let mut command = Command::new(daemon::own_program()?);
    command.arg("test").args(arguments);
    let output = command
        .env_remove("TIDEGATE_CONFIG")
        .env_remove("TIDEGATE_PREFIX")
        .stdin(Stdio::null())
        .output()
        .context("cannot run `tidegate test`")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut messages: Vec<String> = Vec::new();
    for message in text.lines().filter_map(message) {
        let is_known = messages.iter().any(|known| message == known || message.ends_with(known.as_str()));
        if !is_known && !ELSEWHERE.iter().any(|start| unplaced(message).starts_with(start)) {
            messages.push(message.to_owned());
        }
    }
    let failed = output.status.code() != Some(0) && output.status.code() != Some(2);
    let last = text.lines().rev().find_map(|line| line.strip_prefix("tidegate: "));
    let refusal = failed.then(|| last.unwrap_or("`tidegate test` ended without a reason").to_owned());
    Ok(Said { messages, refusal })
}

/// Of `2026/11/26 15:29:28 [error] 1#1: MESSAGE`.
fn message(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [")?;
    let (level, rest) = rest.split_once("] ")?;
    let (_, message) = rest.split_once(": ").filter(|_| LEVELS.contains(&level))?;
    Some(message)
}

/// A message without the place before it, `FILE:LINE:COLUMN: `.
fn unplaced(message: &str) -> &str {
    match message.split_once(": ") {
        Some((place, rest)) if place.starts_with('/') => rest,
        _ => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_from_lines_of_the_log() {
        let line = "2026/11/26 15:29:28 [error] 1#1: /a/apisix.yaml:1:2: routes/1 cannot be used: why";
        assert_eq!(message(line), Some("/a/apisix.yaml:1:2: routes/1 cannot be used: why"));
        assert_eq!(unplaced("/a/apisix.yaml:1:2: routes/1 cannot"), "routes/1 cannot");
        assert_eq!(message("2026/11/26 15:29:28 [notice] 1#1: text"), None);
        assert_eq!(message("tidegate: warning: text"), None);
    }

    #[test]
    fn objects_are_counted_once() {
        let messages = [
            "/a.yaml:1:2: routes/1 cannot be used: a",
            "/a.yaml:1:9: routes/1 cannot be used: b",
            "routes/2 cannot be used: c",
        ];
        let said = Said { messages: messages.map(str::to_owned).to_vec(), refusal: None };
        assert_eq!(said.unusable(), 2);
    }

    #[test]
    fn absent_secrets_do_not_count() {
        let text = "routes/1 cannot be used: plugin x: failed to resolve secret reference: $env://A";
        assert_eq!(check("object", text).json()["state"], "unknown");
        assert_eq!(check("object", "routes/1 cannot be used: y").json()["state"], "bad");
    }
}
