//! `faults`: commands, perhaps of one key, that wait before they reach the node.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use serde_json::Value;

use super::commands::Keys;
use crate::common::conf::typed;

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    commands: Vec<String>,
    key: Option<String>,
    delay: f64,
}

/// Of one command.
#[derive(Debug, Default)]
pub(super) struct OfCommand {
    by_key: BTreeMap<Vec<u8>, Duration>,
    any: Duration,
}

/// By the command in lower case.
#[derive(Debug, Default)]
pub(super) struct Faults {
    commands: BTreeMap<Vec<u8>, OfCommand>,
    /// Of keys; longer ones need not be kept.
    pub(super) longest: usize,
}

impl Faults {
    /// A later rule takes the place of an earlier one for the same command and key. For commands without keys the key of a rule
    /// does not count.
    pub(super) fn new(conf: &Value) -> Result<Faults, String> {
        let conf: Conf = typed(conf)?;
        let mut faults = Faults::default();
        for fault in conf.faults {
            // Less than nothing is nothing.
            let delay = Duration::try_from_secs_f64(fault.delay.max(0.0)).unwrap_or(Duration::MAX);
            for command in fault.commands {
                let command = command.to_ascii_lowercase().into_bytes();
                let key = fault.key.as_ref().filter(|_| Keys::of(&command) != Keys::None);
                let of_command = faults.commands.entry(command).or_default();
                match key {
                    Some(key) => {
                        faults.longest = faults.longest.max(key.len());
                        of_command.by_key.insert(key.clone().into_bytes(), delay);
                    }
                    None => of_command.any = delay,
                }
            }
        }
        Ok(faults)
    }

    pub(super) fn of(&self, command: &[u8]) -> Option<&OfCommand> {
        self.commands.get(command)
    }
}

impl OfCommand {
    pub(super) fn of_key(&self, key: &[u8]) -> Option<Duration> {
        self.by_key.get(key).copied()
    }

    /// Without a key that a rule names.
    pub(super) fn any(&self) -> Duration {
        self.any
    }
}
