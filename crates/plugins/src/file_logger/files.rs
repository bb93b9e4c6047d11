//! The files that loggers append to, written by the process's log writer, which also reopens them after SIGUSR1.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use plugin::host;
use rustc_hash::FxHashMap;
use telemetry::{
    error_log::{self, Level},
    log_writer::LogSink,
};

pub struct LogFile {
    path: PathBuf,
    /// Opened at the first line.
    sink: OnceLock<LogSink>,
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
    let file = Arc::new(LogFile { path: path.clone(), sink: OnceLock::new() });
    files.insert(path, Arc::downgrade(&file));
    file
}

impl LogFile {
    pub fn append(&self, line: Vec<u8>) {
        if let Some(sink) = self.sink() {
            sink.send(line, 1);
        }
    }

    fn sink(&self) -> Option<&LogSink> {
        if self.sink.get().is_none() {
            match host()?.log_writer.open(&self.path) {
                Ok(sink) => {
                    let _ = self.sink.set(sink);
                }
                Err(error) => {
                    error_log::log(
                        Level::Error,
                        format_args!("failed to open file: {}, error info: {error}", self.path.display()),
                    );
                    return None;
                }
            }
        }
        self.sink.get()
    }
}
