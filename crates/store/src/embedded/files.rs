//! The files beside the database.

use std::{
    fs::File,
    io::{self},
    path::{Path, PathBuf},
    str,
};

/// Written once there is a store, for operators to read.
const MARKER_EXTENSION: &str = "created";

pub(super) fn marker(path: &Path) -> PathBuf {
    path.with_extension(MARKER_EXTENSION)
}

pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

const EXTENSION: &str = "last-good";

/// Where the copy of a store lies.
pub fn place(database: &Path) -> PathBuf {
    database.with_extension(EXTENSION)
}
