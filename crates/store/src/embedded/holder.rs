//! Which process has a database open.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// From the kernel's list of locks; `None`: no other process has it, or one that cannot be seen from here.
pub fn holder(path: &Path) -> Option<i32> {
    let inode = fs::metadata(path).ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut pids = locks.lines().filter_map(|line| holds(line, &inode));
    pids.find(|pid| pid.unsigned_abs() != std::process::id() && has_open(*pid, path))
}

/// A file of another device may have the same inode number.
fn has_open(pid: i32, path: &Path) -> bool {
    let Ok(path) = fs::canonicalize(path) else { return false };
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|file| file == path)
}

/// Whether a process has a file open that is gone from this place. One whose files cannot be listed counts as if it had.
pub fn holds_removed(pid: i32, path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| fs::canonicalize(folder).ok());
    let (Some(folder), Some(name)) = (folder, path.file_name()) else { return true };
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return true };
    let removed = format!("{} (deleted)", folder.join(name).display());
    files
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|file| file.as_os_str() == &*removed)
}

/// `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. The device is left out: overlays show a different one.
fn holds(line: &str, inode: &str) -> Option<i32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let is_flock = words.next() == Some("FLOCK");
    let pid: i32 = words.nth(2)?.parse().ok()?;
    let is_file = words.next()?.rsplit(':').next() == Some(inode);
    (is_flock && is_file && pid > 0).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel() {
        let line = "1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF";
        assert_eq!(holds(line, "1234"), Some(4711));
        assert_eq!(holds(line, "234"), None);
        // A process of another namespace, another kind of lock, and what waits for one.
        assert_eq!(holds("1: FLOCK  ADVISORY  WRITE 0 fe:00:1234 0 EOF", "1234"), None);
        assert_eq!(holds("2: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", "1234"), None);
        assert_eq!(holds("1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF", "1234"), None);
        assert_eq!(holds("", "1234"), None);
    }
}
