//! Whether a folder can be written to.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::Path,
};

use anyhow::{Context, bail};

/// Whether there is a folder that can be written, or one can be made.
pub(super) fn writable_folder(path: &Path) -> anyhow::Result<()> {
    // A link to nothing is in the way of a folder.
    match fs::symlink_metadata(path) {
        Ok(_) if fs::metadata(path).is_ok_and(|found| found.is_dir()) => {
            rustix::fs::access(path, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)
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

/// Whether a file can be written, or made in a folder that there is or can be made. Changes nothing.
pub(super) fn writable(path: &Path) -> anyhow::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        File::options().append(true).open(path)?;
        return Ok(());
    }
    writable_folder(path.parent().unwrap_or(path))
}
