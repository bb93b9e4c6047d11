//! How much memory request bodies, answers of services and unfinished handshakes may take: what config.yaml says, or a part of what there is.

use std::{fs, path::Path};

use tidegate_config::Settings;

const PART: u64 = 4;
const PART_OF_ANSWERS: u64 = 8;
const LEAST: u64 = 64 << 20;

/// Sets the budgets of `plugin::memory` and `plugin::answers`.
pub(super) fn install(settings: &Settings) {
    let there_is = available();
    let part = |part: u64| there_is.map_or(LEAST, |bytes| bytes / part).max(LEAST);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let apisix = &settings.apisix;
    tidegate_plugin_api::memory::set_limit(size(
        apisix.body_memory.total_bytes.unwrap_or_else(|| part(PART)),
    ));
    tidegate_plugin_api::answers::set_limit(size(
        apisix.plugin_answer_memory_bytes.unwrap_or_else(|| part(PART_OF_ANSWERS)),
    ));
}

/// What an unfinished TLS handshake may hold: its first message, by RFC 8446 up to 16 MB, by the library 64 KB.
const HANDSHAKE_BYTES: u64 = 64 << 10;
const PART_OF_HANDSHAKES: u64 = 32;
const FEWEST_HANDSHAKES: u64 = 256;

/// How many TLS handshakes may be unfinished where config.yaml does not say.
pub(super) fn handshakes() -> usize {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let by_memory = available().map_or(0, |bytes| bytes / PART_OF_HANDSHAKES / HANDSHAKE_BYTES);
    let number = by_memory.max(FEWEST_HANDSHAKES).min(descriptors.map_or(u64::MAX, |limit| limit / 4));
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Of the machine or of the control group.
fn available() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| of_group(&text, Path::new("/sys/fs/cgroup")));
    machine.into_iter().chain(group).min()
}

fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The lowest limit of the control groups around this process, of version 2 or 1; `None` without any.
fn of_group(own: &str, root: &Path) -> Option<u64> {
    let mut lowest = None;
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A container sees its own group as the root, whatever the path says.
        for folder in Path::new(path.trim_start_matches('/')).ancestors() {
            let limit = fs::read_to_string(root.join(folder).join(file)).ok();
            let limit = limit.and_then(|text| text.trim().parse::<u64>().ok());
            lowest = [lowest, limit].into_iter().flatten().min();
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_groups() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "3000\n");
        write("memory/c/memory.limit_in_bytes", "2000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        for (own, expected) in [
            ("0::/a/b\n", Some(3000)),
            ("0::/\n", None),
            ("4:cpu:/c\n3:memory:/c\n0::/a/b", Some(2000)),
            ("3:memory:/gone\n", Some(9_223_372_036_854_771_712)),
            ("", None),
        ] {
            assert_eq!(of_group(own, root.path()), expected, "{own}");
        }
        assert_eq!(of_machine("MemTotal:       24683520 kB\nMemFree: 1 kB\n"), Some(25_275_924_480));
    }
}
