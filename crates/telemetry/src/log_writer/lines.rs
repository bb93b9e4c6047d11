//! Files that several threads append single lines to, such as those of plugin `file-logger`.
//!
//! A line goes into the file's own buffer and the writer thread is notified once per bufferful: while the disk is
//! busy, lines gather and go out in one write. The buffer is bounded; what does not fit is dropped and counted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::{
    Appending, Losses,
    opening::open,
    sink::{LOST, Waiting},
};
use crate::error_log::{self, Level};

/// The files as the writer thread holds them.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: Vec<(Arc<Waiting>, Appending)>,
    /// Names that were open before the last rotation, to log it when they are opened again.
    closed: Vec<PathBuf>,
}

impl OpenFiles {
    /// Closes all; the next line of each reopens it by name.
    pub(super) fn reopen(&mut self) {
        let close = |(waiting, mut file): (Arc<Waiting>, Appending)| {
            // There may be room by now for the end of its last line.
            let _ = file.write(&[]);
            waiting.losses.path().to_owned()
        };
        self.closed = self.files.drain(..).map(close).collect();
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = &Losses> + Clone {
        self.files.iter().map(|(waiting, _)| &waiting.losses)
    }

    pub(super) fn write(&mut self, waiting: &Arc<Waiting>) {
        let bytes = {
            let mut buffer = waiting.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            buffer.announced = false;
            std::mem::take(&mut buffer.bytes)
        };
        let file = match self.file(waiting) {
            Ok(file) => file,
            Err(error) => {
                lost(waiting, memchr::memchr_iter(b'\n', &bytes).count() as u64, &error);
                return;
            }
        };
        if let Err((lines, error)) = file.write(&bytes) {
            lost(waiting, lines, &error);
        }
    }

    fn file(&mut self, waiting: &Arc<Waiting>) -> std::io::Result<&mut Appending> {
        let found = self.files.iter().position(|(known, _)| Arc::ptr_eq(known, waiting));
        let index = match found {
            Some(index) => index,
            None => {
                // Sinks that are gone leave their file here until another one opens.
                self.files.retain(|(known, _)| Arc::strong_count(known) > 1);
                let path = waiting.losses.path();
                let file = open(path).inspect_err(|error| complain(path, error))?;
                if let Some(index) = self.closed.iter().position(|closed| closed == path) {
                    self.closed.swap_remove(index);
                    let path = path.display();
                    error_log::log(Level::Notice, format_args!("reopen cached log file: {path}"));
                }
                self.files.push((Arc::clone(waiting), Appending::new(file)));
                self.files.len() - 1
            }
        };
        let file = self.files.get_mut(index).map(|(_, file)| file);
        file.ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

fn lost(waiting: &Waiting, lines: u64, error: &std::io::Error) {
    let [_, (_, failed)] = &LOST;
    failed.fetch_add(lines, Relaxed);
    waiting.losses.refused(lines, error);
}

fn complain(path: &Path, error: &std::io::Error) {
    let path = path.display();
    error_log::log(Level::Error, format_args!("failed to open file: {path}, error info: {error}"));
}

#[cfg(test)]
mod tests {
    use crate::log_writer::LineSink;
    use std::{sync::mpsc::sync_channel, time::Duration};

    use super::*;
    use crate::log_writer::LogWriter;

    #[test]
    fn lines_arrive_in_order_and_rotation_opens_the_name_again() {
        let directory = tempfile::tempdir().expect("temp dir");
        let (path, moved) = (directory.path().join("lines.log"), directory.path().join("lines.log.1"));
        let writer = LogWriter::start().expect("thread starts");
        let sink = writer.lines(&path);
        assert!(!path.exists(), "opened before there is a line");
        for line in ["one\n", "two\n"] {
            assert!(sink.append(line.as_bytes()));
        }
        assert!(writer.drain(Duration::from_secs(10)));
        std::fs::rename(&path, &moved).expect("rename");
        sink.append(b"three\n");
        assert!(writer.drain(Duration::from_secs(10)));
        writer.reopen();
        sink.append(b"four\n");
        assert!(writer.drain(Duration::from_secs(10)));
        assert_eq!(std::fs::read_to_string(&moved).expect("old"), "one\ntwo\nthree\n");
        assert_eq!(std::fs::read_to_string(&path).expect("new"), "four\n");
    }

    #[test]
    fn a_stalled_disk_holds_nobody() {
        // The queue of a writer whose thread never reads.
        let (queue, incoming) = sync_channel(1);
        let sink = LineSink::new(queue, Path::new("stalled"));
        let line = vec![b'x'; 1 << 20];
        let taken = (0..10).filter(|_| sink.append(&line)).count();
        assert_eq!((taken, sink.dropped()), (8, 2));
        assert_eq!(incoming.try_iter().count(), 1, "told once");
    }
}
