//! How log files are opened.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// As Linux has it.
const O_NONBLOCK: i32 = 0o4000;

pub(super) fn open(path: &Path) -> io::Result<File> {
    // Opening these by name fails when they are sockets, as under some service runners.
    match path.to_str() {
        Some("/dev/stdout") => Ok(duplicate(&io::stdout())?),
        Some("/dev/stderr") => Ok(duplicate(&io::stderr())?),
        // Opening a pipe for writing only would wait forever without a reader.
        _ if path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo()) => {
            // A full pipe must not block writes to other files either.
            OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(path)
        }
        _ => OpenOptions::new().create(true).append(true).mode(0o640).open(path),
    }
}

fn duplicate(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}
