//! Distinguishes a new store from a lost one.
//!
//! A store gets its name only once it is complete: it is made beside its place and renamed, so a crash in between leaves
//! a start that can be tried again. What lies at that place and is not a store is therefore damage, whatever its size.
//! After that a marker is written (`marker.rs`). It stays when the store is gone, and so do files of other stores of the gateway: a
//! start that finds them and no store would serve an empty configuration to all clients, and fails instead.

use std::{
    fs::{self, File, TryLockError},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use super::{
    faults::{damaged, unavailable},
    files::{marker, sync_folder},
};
use crate::error::StoreError;

/// The name of a store that is being made.
const UNFINISHED_SUFFIX: &str = ".new";
/// What the gateway writes into the same folder when the configuration comes from elsewhere. Not the admin key: a first
/// start may write it before there is a store.
const OTHER_SIGNS: [(&str, &str); 1] = [("etcd.snapshot", "the gateway had its configuration from etcd")];

pub(super) enum StoreFile {
    /// Something is there; whether it is a store is to be seen.
    Taken,
    /// Nothing is, nor was.
    New,
}

/// What is at the store's place. The error names what is wrong and the remedy.
pub(super) fn inspect_path(path: &Path) -> Result<StoreFile, StoreError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(damaged(path, "it is not a regular file")),
        Ok(found) if found.len() == 0 => Err(damaged(path, "it has 0 bytes")),
        Ok(_) => Ok(StoreFile::Taken),
        Err(error) if error.kind() == io::ErrorKind::NotFound => absent(path),
        Err(error) => Err(unavailable(format!(
            "cannot open database {}: {error}; check that the path exists and this user may write to it",
            path.display()
        ))),
    }
}

fn absent(path: &Path) -> Result<StoreFile, StoreError> {
    let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
    if is_there(path) {
        return Err(damaged(path, "it is a link to a file that is not there"));
    }
    let others = OTHER_SIGNS.into_iter().map(|(name, meaning)| (path.with_file_name(name), meaning));
    let own = [marker(path), super::files::place(path)].map(|sign| (sign, "it has been in use"));
    let mut signs = own.into_iter().chain(others);
    match signs.find(|(sign, _)| is_there(sign)) {
        None => Ok(StoreFile::New),
        Some((sign, meaning)) => Err(StoreError::Damaged(format!(
            "database {} is missing, but {} shows that {meaning}; run `tidegate config repair` to see what \
             can be recovered, restore a backup, or move {} away to start with an empty configuration",
            path.display(),
            sign.display(),
            sign.display()
        ))),
    }
}

/// Makes a store with what `fill` writes into it. It has its name when that is durable.
pub(super) fn create(
    path: &Path,
    fill: impl FnOnce(File) -> Result<redb::Database, String>,
) -> Result<redb::Database, String> {
    let unfinished = unfinished(path);
    let problem = |error: io::Error| {
        let shown = path.display();
        format!("cannot create database {shown}: {error}; check free space and permissions of its folder")
    };
    let file = claim(&unfinished).map_err(problem)?;
    let redb = fill(file)?;
    fs::rename(&unfinished, path).and_then(|()| sync_folder(path)).map_err(problem)?;
    Ok(redb)
}

/// An empty file that belongs to this process alone. What a crash left of an earlier attempt is emptied.
fn claim(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process is creating it")),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // Another process may have finished it, and let it go, between the two calls: then it is a store by now.
    if fs::metadata(path)?.ino() != file.metadata()?.ino() {
        return Err(io::Error::other("another process has just created it"));
    }
    file.set_len(0)?;
    Ok(file)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED_SUFFIX);
    name.into()
}
