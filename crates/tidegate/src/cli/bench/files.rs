//! Files that a run reads and writes.

use std::{fs, path::Path};

use load::Problem;

pub fn read(path: &Path) -> Result<String, Problem> {
    fs::read_to_string(path).map_err(|error| Problem::usage(format!("{}: {error}", path.display())))
}

pub fn write(path: &Path, text: &str) -> Result<(), Problem> {
    fs::write(path, text).map_err(|error| Problem::failed(format!("{}: {error}", path.display())))
}
