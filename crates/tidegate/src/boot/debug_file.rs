//! conf/debug.yaml: looked at once a second, so that plugins can be watched without a restart.
//!
//! `basic.enable` is all of it. Its other parts, which print arguments of Lua functions, have nothing to print here.

use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tidegate_config::Settings;
use tidegate_telemetry::error_log;

/// The switch, kept up to date from now on. Needs the host's runtime.
pub(super) fn follow(settings: &Settings) -> Arc<AtomicBool> {
    let path = settings.below_prefix("conf/debug.yaml");
    let switch = Arc::new(AtomicBool::new(wanted(&path)));
    if let Some(host) = tidegate_plugin_api::host() {
        let switch = switch.clone();
        host.background.spawn(async move {
            let mut seen = changed(&path);
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let now = changed(&path);
                if now != seen {
                    seen = now;
                    switch.store(wanted(&path), Ordering::Relaxed);
                }
            }
        });
    }
    switch
}

/// When the inode changed: no tool sets that back.
fn changed(path: &Path) -> Option<(i64, i64)> {
    std::fs::metadata(path).map(|metadata| (metadata.ctime(), metadata.ctime_nsec())).ok()
}

/// Off without the file.
fn wanted(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    match tidegate_config::yaml::to_value(&text) {
        Ok(value) => enabled(&value),
        Err(fault) => {
            error_log::log(error_log::Level::Error, format_args!("{}: not read: {fault:?}", path.display()));
            false
        }
    }
}

fn enabled(value: &Value) -> bool {
    value.get("basic").and_then(|basic| basic.get("enable")).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_basic_counts() {
        let check = |text: &str, expected: bool| {
            let value = tidegate_config::yaml::to_value(text).expect("valid YAML");
            assert_eq!(enabled(&value), expected, "{text}");
        };
        check("basic:\n  enable: true\n", true);
        check("basic:\n  enable: false\n#END\n", false);
        check("hook_conf:\n  enable: true\n", false);
        check("basic: 1\n", false);
    }
}
