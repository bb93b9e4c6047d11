//! Room on the disks that the gateway writes to: a full one refuses changes and loses log lines.

use std::{collections::BTreeMap, path::Path};

use rustix::fs::{StatVfs, stat, statvfs};
use tidegate_config::{Provider, Settings};

use super::check::Check;

/// Less than this, or than a hundredth of the disk, is as good as full: logs grow by more in minutes.
const LEAST_BYTES: u64 = 64 << 20;
const LEAST_SHARE: u64 = 100;

/// One check for each file system.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    let store = settings.files.database.parent().filter(|_| settings.provider == Provider::Embedded);
    let places = store.into_iter().chain([settings.files.logs.as_path()]);
    // A folder that a start makes is on the file system of the one that holds it.
    let there = places.filter_map(|place| place.ancestors().find(|folder| folder.is_dir()));
    let disks: BTreeMap<u64, &Path> =
        there.filter_map(|folder| Some((stat(folder).ok()?.st_dev, folder))).collect();
    disks.into_values().filter_map(|folder| Some(check(folder, &statvfs(folder).ok()?))).collect()
}

fn check(folder: &Path, disk: &StatVfs) -> Check {
    const NAME: &str = "disk";
    let shown = folder.display();
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let least = LEAST_BYTES.min(disk.f_blocks.saturating_mul(disk.f_frsize) / LEAST_SHARE);
    // Some file systems count no inodes.
    let has_inodes = disk.f_files == 0 || disk.f_favail > 0;
    let mib = free >> 20;
    let remedy = "free some or enlarge it: until then changes are refused and log lines are lost";
    match (free > least, has_inodes) {
        (true, true) => Check::good(NAME, format!("{mib} MiB are free at {shown}")),
        (false, _) => Check::bad(NAME, format!("only {mib} MiB are free at {shown}"), remedy),
        (true, false) => Check::bad(NAME, format!("no inodes are free at {shown}"), remedy),
    }
}
