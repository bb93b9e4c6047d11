//! Files that a run reads and writes, and standard output.

use std::path::{Path, PathBuf};

use tidegate_bench::Problem;
use tidegate_config::bounded;

use crate::cli::{
    output::{self, Access},
    stdout,
};

pub(super) fn read(path: &Path) -> Result<String, Problem> {
    bounded::read_text(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
}

pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, Problem> {
    bounded::read(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
}

/// A file that is opened before a run and written after it: a wrong path must not cost the run.
pub(super) struct Output {
    path: PathBuf,
    output: output::Output,
}

impl Output {
    /// Opens the file of `flag`. What is in it stays until there is something to write.
    pub(super) fn open(flag: &str, path: &Path) -> Result<Output, Problem> {
        let opened = output::Output::open(path, Access::Usual);
        let output = opened.map_err(|error| {
            Problem::usage(format!("{flag} {}: {error}; nothing was sent", path.display()))
        })?;
        Ok(Output { path: path.to_owned(), output })
    }

    pub(super) fn write(self, text: &str) -> Result<(), Problem> {
        let Output { path, output } = self;
        output.write(text.as_bytes()).map_err(|error| Problem::failed(format!("{}: {error}", path.display())))
    }
}

/// Prints to standard output.
pub(super) fn print(text: &str) -> Result<(), Problem> {
    stdout::try_print(text)
        .map_err(|error| Problem::failed(format!("cannot write to standard output: {error}")))
}
