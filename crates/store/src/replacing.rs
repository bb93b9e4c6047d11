//! A large file takes the place of another.

use std::{
    fs::{self, File},
    io,
    num::NonZeroU64,
    path::Path,
};

use rustix::fs::{Advice, fadvise};
use tidegate_telemetry::background::give_way;

/// Of the old file, dropped from the page cache at a time.
const STEP: u64 = 256 * 1024;

/// As [`fs::rename`]. The kernel drops the cached pages of a file that loses its name in the same call, which for ten megabytes keeps the core for 1.4 ms:
/// they are dropped in turns before.
pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    drop_pages(to);
    fs::rename(from, to)
}

/// Does nothing if the file is missing.
fn drop_pages(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut at = 0;
    while at < length {
        let _ = fadvise(&file, at, NonZeroU64::new(STEP), Advice::DontNeed);
        give_way();
        at += STEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_new_file_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let [from, to] = ["new", "old"].map(|name| folder.path().join(name));
        for size in [0, 1, 3 * STEP + 1] {
            fs::write(&from, vec![b'a'; size as usize]).expect("written");
            rename(&from, &to).expect("renamed");
            assert_eq!(fs::metadata(&to).expect("a file").len(), size);
            assert!(!from.exists());
        }
    }
}
