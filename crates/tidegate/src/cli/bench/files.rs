//! Files that a run reads and writes, and standard output.

use std::{
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use tidegate_bench::Problem;

pub(super) fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, Problem> {
    fs::read(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
}

/// A file that is opened before a run and written after it: a wrong path must not cost the run.
pub(super) struct Output {
    path: PathBuf,
    file: File,
    /// Whether the file was not there before.
    created: bool,
    written: bool,
}

impl Output {
    /// Opens the file of `flag`. What is in it stays until there is something to write.
    pub(super) fn open(flag: &str, path: &Path) -> Result<Output, Problem> {
        let wrong = |error: std::io::Error| {
            Problem::usage(format!("{flag} {}: {error}; nothing was sent", path.display()))
        };
        let created = path.symlink_metadata().is_err();
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(path).map_err(wrong)?;
        Ok(Output { path: path.to_owned(), file, created, written: false })
    }

    pub(super) fn write(mut self, text: &str) -> Result<(), Problem> {
        self.written = true;
        // Devices and pipes have no length.
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .map_err(|error| Problem::failed(format!("{}: {error}", self.path.display())))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // A run that came to nothing leaves no empty report.
        if self.created && !self.written {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Prints to standard output. A reader that has seen enough, such as `head`, is not a failure.
pub(super) fn print(text: &str) -> Result<(), Problem> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Problem::failed(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
