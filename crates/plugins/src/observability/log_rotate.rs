//! Moves access.log and error.log aside once an interval or when they are large, keeps a number of old ones.
//!
//! Works by being enabled; routes do not configure it. Settings are in `plugin_attr.log-rotate`.

mod archive;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, host};
use tidegate_telemetry::clock;
use tidegate_telemetry::error_log::{self, Level};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "log-rotate",
    version: 0.1,
    priority: 100,
    on_by_default: false,
    guards: false,
    scope: Some("global"),
    schema: include_str!("log_rotate.json"),
    build: |_: &Value, _: &BuildContext| Ok(Arc::new(Nothing)),
    start: Some(start),
    ..PluginDef::DEFAULT
};

/// Requests do not meet it.
struct Nothing;

impl Plugin for Nothing {
    fn phases(&self) -> Phases {
        Phases::NONE
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct Attributes {
    /// Seconds.
    interval: u64,
    max_kept: usize,
    /// Bytes; not above 0: size does not matter.
    max_size: i64,
    enable_compression: bool,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes { interval: 3600, max_kept: 168, max_size: -1, enable_compression: false }
    }
}

fn start(attributes: &Value) -> Result<(), String> {
    let attributes: Attributes = match attributes {
        Value::Null => Attributes::default(),
        given => serde_json::from_value(given.clone()).map_err(|error| error.to_string())?,
    };
    let Some(host) = host() else { return Ok(()) };
    host.background.spawn(async move {
        let mut rotation = Rotation { attributes, logs: logs(&host.settings, &host.prefix), due: None };
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !tidegate_model::PluginCatalog::is_enabled(&*host.catalog, PLUGIN.name) {
                continue;
            }
            // Files of gigabytes may be compressed: not on the control runtime's own threads.
            match tokio::task::spawn_blocking(move || {
                rotation.tick(SystemTime::now());
                rotation
            })
            .await
            {
                Ok(same) => rotation = same,
                Err(_) => return,
            }
        }
    });
    Ok(())
}

/// The log files that config.yaml names, error log first.
fn logs(settings: &Value, prefix: &Path) -> Vec<PathBuf> {
    let text = |pointer: &str| settings.pointer(pointer).and_then(Value::as_str);
    let error_log = text("/nginx_config/error_log").unwrap_or("logs/error.log");
    let mut logs = Vec::new();
    // `stderr` and `off` are not files.
    if error_log.contains('/') && !error_log.starts_with("/dev/") {
        logs.push(prefix.join(error_log));
    }
    let enabled = settings.pointer("/nginx_config/http/enable_access_log").and_then(Value::as_bool);
    let access_log = text("/nginx_config/http/access_log").unwrap_or("logs/access.log");
    if enabled.unwrap_or(true) && access_log != "off" && !access_log.starts_with("/dev/") {
        logs.push(prefix.join(access_log));
    }
    logs
}

struct Rotation {
    attributes: Attributes,
    logs: Vec<PathBuf>,
    /// Seconds since 1970 of the next rotation by time.
    due: Option<u64>,
}

impl Rotation {
    fn tick(&mut self, at: SystemTime) {
        let now = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let interval = self.attributes.interval.max(1);
        let Some(due) = self.due else {
            self.due = Some(now + interval - now % interval);
            return;
        };
        if now >= due {
            self.due = Some(due + interval);
            self.rotate(&self.logs, now);
        } else if self.attributes.max_size > 0 {
            let large = |path: &&PathBuf| {
                std::fs::metadata(path).is_ok_and(|data| data.len() >= self.attributes.max_size as u64)
            };
            let large: Vec<PathBuf> = self.logs.iter().filter(large).cloned().collect();
            self.rotate(&large, now);
        }
    }

    fn rotate(&self, logs: &[PathBuf], now: u64) {
        let stamp = stamp(now);
        let moved: Vec<PathBuf> = logs.iter().filter_map(|log| aside(log, &stamp)).collect();
        if moved.is_empty() {
            return;
        }
        if let Some(host) = host() {
            host.log_writer.reopen();
            // Lines on their way still belong to the old file.
            host.log_writer.drain(Duration::from_secs(1));
        }
        if self.attributes.enable_compression {
            moved.iter().for_each(|file| archive::compress(file));
        }
        logs.iter().for_each(|log| prune(log, self.attributes.max_kept));
    }
}

/// `2026-11-21_03-00-00`, local time.
fn stamp(seconds: u64) -> String {
    clock::local(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000), "%Y-%m-%d_%H-%M-%S")
}

/// Renames `access.log` to `TIME__access.log`; the new name, if there is such a file now.
fn aside(log: &Path, stamp: &str) -> Option<PathBuf> {
    let name = log.file_name()?.to_str()?;
    let target = log.with_file_name(format!("{stamp}__{name}"));
    if target.exists() {
        return Some(target);
    }
    match std::fs::rename(log, &target) {
        Ok(()) => Some(target),
        Err(error) => {
            let (from, to) = (log.display(), target.display());
            error_log::log(Level::Error, format_args!("move file from {from} to {to} failed: {error}"));
            None
        }
    }
}

/// Removes the oldest of a log's old files. Their names sort by time.
fn prune(log: &Path, max_kept: usize) {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return;
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut old: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|file| {
            file.rsplit_once("__")
                .is_some_and(|(_, kind)| kind == name || kind.strip_suffix(".tar.gz") == Some(name))
        })
        .collect();
    old.sort_unstable_by(|a, b| b.cmp(a));
    for file in old.iter().skip(max_kept) {
        if let Err(error) = std::fs::remove_file(folder.join(file)) {
            error_log::log(Level::Error, format_args!("remove old log file: {file} err: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_and_prunes() {
        let folder = std::env::temp_dir().join(format!("log-rotate-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let log = folder.join("access.log");
        let attributes = Attributes { interval: 10, max_kept: 2, max_size: 5, enable_compression: false };
        let mut rotation = Rotation { attributes, logs: vec![log.clone()], due: None };
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        let kept = || std::fs::read_dir(&folder).unwrap().count();
        rotation.tick(at(1));
        std::fs::write(&log, "abc").unwrap();
        rotation.tick(at(2));
        assert_eq!(kept(), 1, "neither old nor large");
        rotation.tick(at(10));
        assert!(!log.exists(), "the interval is over");
        for seconds in [11, 12, 13] {
            std::fs::write(&log, "abcdef").unwrap();
            rotation.tick(at(seconds));
        }
        assert_eq!(kept(), 2, "the oldest are gone");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
