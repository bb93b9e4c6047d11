//! The files that loggers append to. They stay open until SIGUSR1 asks for new ones.
//!
//! A line is written by the worker itself, as in APISIX: whoever reads the file after an answer finds the line in it.
//! The page cache takes it; only a disk that has stopped would hold the worker.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::PathBuf,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use plugin::host;
use rustc_hash::FxHashMap;
use telemetry::error_log::{self, Level};

pub struct LogFile {
    path: PathBuf,
    /// Opened at the first line; with the generation of log files it belongs to.
    open: Mutex<Option<(u64, File)>>,
}

static FILES: Mutex<Option<FxHashMap<PathBuf, Weak<LogFile>>>> = Mutex::new(None);

/// The file of that path: the same for all who name it. A relative path starts at the installation's directory.
pub fn open(path: &str) -> Arc<LogFile> {
    let path = host().map_or_else(|| PathBuf::from(path), |host| host.prefix.join(path));
    let mut files = FILES.lock();
    let files = files.get_or_insert_default();
    if let Some(file) = files.get(&path).and_then(Weak::upgrade) {
        return file;
    }
    files.retain(|_, file| file.strong_count() > 0);
    let file = Arc::new(LogFile { path: path.clone(), open: Mutex::new(None) });
    files.insert(path, Arc::downgrade(&file));
    file
}

impl LogFile {
    /// One write, so that lines of several workers and processes do not mix.
    pub fn append(&self, line: &[u8]) {
        let generation = host().map_or(0, |host| host.log_writer.generation());
        let mut open = self.open.lock();
        if open.as_ref().is_none_or(|(of, _)| *of != generation) {
            if open.is_some() {
                let path = self.path.display();
                error_log::log(Level::Notice, format_args!("reopen cached log file: {path}"));
            }
            match OpenOptions::new().create(true).append(true).open(&self.path) {
                Ok(file) => *open = Some((generation, file)),
                Err(error) => {
                    *open = None;
                    self.complain("open", &error);
                    return;
                }
            }
        }
        if let Some((_, file)) = open.as_mut()
            && let Err(error) = file.write_all(line)
        {
            self.complain("write", &error);
        }
    }

    fn complain(&self, what: &str, error: &std::io::Error) {
        let path = self.path.display();
        error_log::log(Level::Error, format_args!("failed to {what} file: {path}, error info: {error}"));
    }
}
