//! Files that several threads append single lines to, such as those of plugin `file-logger`.
//!
//! A line goes into the file's own buffer and the writer thread is told once per bufferful: while the disk is busy,
//! lines gather and go out in one write. The buffer is bounded; what does not fit is dropped and counted.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;

use super::{Message, open};
use crate::error_log::{self, Level};

/// What may wait for a stalled disk, per file.
const WAITING_BYTES: usize = 8 << 20;

/// One file; cheap to clone.
#[derive(Clone, Debug)]
pub struct LineSink {
    queue: SyncSender<Message>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
pub(super) struct Waiting {
    path: PathBuf,
    buffer: Mutex<Buffer>,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// The thread knows that something waits.
    announced: bool,
}

impl LineSink {
    pub(super) fn new(queue: SyncSender<Message>, path: &Path) -> Self {
        let waiting = Waiting { path: path.to_owned(), buffer: Mutex::default(), dropped: AtomicU64::new(0) };
        LineSink { queue, waiting: Arc::new(waiting) }
    }

    /// Hands over a line, its end included; never waits for the disk. Returns false when it was dropped.
    pub fn append(&self, line: &[u8]) -> bool {
        let mut buffer = self.waiting.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if buffer.bytes.len() + line.len() > WAITING_BYTES {
            self.waiting.dropped.fetch_add(1, Relaxed);
            return false;
        }
        buffer.bytes.extend_from_slice(line);
        if !buffer.announced {
            // A full queue is not a loss: the next line tells again.
            buffer.announced = self.queue.try_send(Message::Lines(Arc::clone(&self.waiting))).is_ok();
        }
        true
    }

    /// Lines lost because too many waited.
    pub fn dropped(&self) -> u64 {
        self.waiting.dropped.load(Relaxed)
    }
}

/// The files as the writer thread holds them.
#[derive(Default)]
pub(super) struct OpenFiles {
    files: Vec<(Arc<Waiting>, File)>,
    /// Names that were open before the last rotation, to say so when they are opened again.
    closed: Vec<PathBuf>,
}

impl OpenFiles {
    /// Closes all; the next line of each reopens it by name.
    pub(super) fn reopen(&mut self) {
        self.closed = self.files.drain(..).map(|(waiting, _)| waiting.path.clone()).collect();
    }

    pub(super) fn write(&mut self, waiting: &Arc<Waiting>) {
        let bytes = {
            let mut buffer = waiting.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            buffer.announced = false;
            std::mem::take(&mut buffer.bytes)
        };
        let Some(file) = self.file(waiting) else { return };
        if let Err(error) = file.write_all(&bytes) {
            complain("write", waiting, &error);
        }
    }

    fn file(&mut self, waiting: &Arc<Waiting>) -> Option<&mut File> {
        let found = self.files.iter().position(|(known, _)| Arc::ptr_eq(known, waiting));
        let index = match found {
            Some(index) => index,
            None => {
                // Sinks that are gone leave their file here until another one opens.
                self.files.retain(|(known, _)| Arc::strong_count(known) > 1);
                let file = open(&waiting.path).map_err(|error| complain("open", waiting, &error)).ok()?;
                if let Some(index) = self.closed.iter().position(|path| *path == waiting.path) {
                    self.closed.swap_remove(index);
                    let path = waiting.path.display();
                    error_log::log(Level::Notice, format_args!("reopen cached log file: {path}"));
                }
                self.files.push((Arc::clone(waiting), file));
                self.files.len() - 1
            }
        };
        self.files.get_mut(index).map(|(_, file)| file)
    }
}

fn complain(what: &str, waiting: &Waiting, error: &std::io::Error) {
    let path = waiting.path.display();
    error_log::log(Level::Error, format_args!("failed to {what} file: {path}, error info: {error}"));
}

#[cfg(test)]
mod tests {
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
