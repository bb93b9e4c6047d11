//! Whether a folder can be written to.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::Path,
};

use anyhow::{Context, bail};

/// Whether there is a folder that can be written, or one can be made.
pub(super) fn writable_folder(path: &Path) -> anyhow::Result<()> {
    // A link to nothing is in the way of a folder.
    match fs::symlink_metadata(path) {
        Ok(_) if fs::metadata(path).is_ok_and(|found| found.is_dir()) => {
            let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
            let allowed = rustix::fs::access(path, access).map_err(std::io::Error::from);
            allowed
                .and_then(|()| takes_files(path))
                .with_context(|| format!("{} cannot be written", path.display()))
        }
        Ok(_) => bail!("{} is not a folder", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(above) => writable_folder(above),
            None => Err(error.into()),
        },
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

/// To root every folder looks writable, and some hold no files (`/proc`). A full disk is another question.
fn takes_files(folder: &Path) -> io::Result<()> {
    let probe = folder.join(format!(".tidegate-probe.{}", std::process::id()));
    match File::options().write(true).create_new(true).open(&probe) {
        Ok(_) => fs::remove_file(&probe),
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether a file can be written, or made in a folder that there is or can be made. Leaves nothing.
pub(super) fn writable(path: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        File::options().append(true).open(path)?;
        return Ok(());
    }
    writable_folder(path.parent().unwrap_or(path))
}
