//! One thread that writes all log files.
//!
//! Callers hand it whole buffers through a bounded channel and never wait: when the disk stalls and the
//! channel fills, buffers are dropped and their lines counted. The thread ends when the last handle is gone.

mod lines;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

pub use lines::LineSink;

/// Buffers waiting for the disk before new ones are dropped; at 16 KiB each this bounds memory at 16 MiB.
const QUEUE_BUFFERS: usize = 1024;

/// Handle to the writer thread; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: SyncSender<Message>,
    /// Raised by [`LogWriter::reopen`]; the thread compares it before each write, so a full queue cannot
    /// swallow the request.
    generation: Arc<AtomicU64>,
}

/// One open log file; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogSink {
    queue: SyncSender<Message>,
    file: Arc<LogFile>,
}

#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    dropped: AtomicU64,
    /// Lines the disk refused.
    failed: AtomicU64,
}

#[derive(Debug)]
enum Message {
    Open(Arc<LogFile>, File),
    Write {
        file: Arc<LogFile>,
        bytes: Vec<u8>,
        lines: u64,
    },
    /// Lines wait in this file's own buffer.
    Lines(Arc<lines::Waiting>),
    Wake,
    /// Answered when everything sent before it is written.
    Drain(SyncSender<()>),
}

impl LogWriter {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        Self::start_with_queue(QUEUE_BUFFERS)
    }

    fn start_with_queue(buffers: usize) -> io::Result<Self> {
        let (queue, incoming) = sync_channel(buffers);
        let generation = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&generation);
        thread::Builder::new().name("log-writer".into()).spawn(move || write_logs(&incoming, &seen))?;
        Ok(LogWriter { queue, generation })
    }

    /// Opens a file for appending. `/dev/stdout` and `/dev/stderr` mean this process's own, whatever they are
    /// connected to. Call from control code: opening touches the disk.
    pub fn open(&self, path: &Path) -> io::Result<LogSink> {
        let opened = open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open log file \"{}\": {error}", path.display()))
        })?;
        let file = Arc::new(LogFile {
            path: path.to_owned(),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let gone = |_| io::Error::other("the log writer thread has ended");
        self.queue.send(Message::Open(Arc::clone(&file), opened)).map_err(gone)?;
        Ok(LogSink { queue: self.queue.clone(), file })
    }

    /// A file that takes single lines and is opened, by the thread, at the first of them. Touches no disk.
    pub fn lines(&self, path: &Path) -> LineSink {
        LineSink::new(self.queue.clone(), path)
    }

    /// Reopens all files by name before the next write: what log rotation asks for with SIGUSR1.
    pub fn reopen(&self) {
        self.generation.fetch_add(1, Relaxed);
        // A full queue is fine: then a write is coming anyway.
        let _ = self.queue.try_send(Message::Wake);
    }

    /// Waits until everything sent so far is written, but not longer than `patience`: a stalled disk must
    /// not keep the process from stopping. Returns whether it was.
    pub fn drain(&self, patience: Duration) -> bool {
        let (done, wait) = sync_channel(1);
        self.queue.try_send(Message::Drain(done)).is_ok() && wait.recv_timeout(patience).is_ok()
    }
}

impl LogSink {
    /// Hands over a buffer of whole lines; never waits. Returns false when it was dropped.
    pub fn send(&self, bytes: Vec<u8>, lines: u64) -> bool {
        let message = Message::Write { file: Arc::clone(&self.file), bytes, lines };
        match self.queue.try_send(message) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.file.dropped.fetch_add(lines, Relaxed);
                false
            }
        }
    }

    /// Lines lost since start, because the queue was full or the disk refused them.
    pub fn dropped(&self) -> u64 {
        self.file.dropped.load(Relaxed) + self.file.failed.load(Relaxed)
    }

    pub fn path(&self) -> &Path {
        &self.file.path
    }
}

/// As Linux has it.
const O_NONBLOCK: i32 = 0o4000;

fn open(path: &Path) -> io::Result<File> {
    // Opening these by name fails when they are sockets, as under some service runners.
    match path.to_str() {
        Some("/dev/stdout") => Ok(duplicate(&io::stdout())?),
        Some("/dev/stderr") => Ok(duplicate(&io::stderr())?),
        // For writing alone, a pipe without a reader would be waited for without end.
        _ if path.metadata().is_ok_and(|metadata| metadata.file_type().is_fifo()) => {
            // Nor may a full one hold up what others write.
            OpenOptions::new().read(true).write(true).custom_flags(O_NONBLOCK).open(path)
        }
        _ => OpenOptions::new().create(true).append(true).mode(0o640).open(path),
    }
}

fn duplicate(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
    Ok(stream.as_fd().try_clone_to_owned()?.into())
}

/// A file as the writer thread holds it.
struct OpenFile {
    log: Arc<LogFile>,
    file: File,
}

fn write_logs(incoming: &Receiver<Message>, generation: &AtomicU64) {
    let mut files: Vec<OpenFile> = Vec::new();
    let mut line_files = lines::OpenFiles::default();
    let mut opened = generation.load(Relaxed);
    while let Ok(message) = incoming.recv() {
        let wanted = generation.load(Relaxed);
        if wanted != opened {
            opened = wanted;
            reopen_all(&mut files);
            line_files.reopen();
        }
        match message {
            Message::Open(log, file) => {
                // Sinks that are gone leave their file here until the next one opens.
                files.retain(|open| Arc::strong_count(&open.log) > 1);
                files.push(OpenFile { log, file });
            }
            Message::Write { file, bytes, lines } => {
                let Some(open) = files.iter_mut().find(|open| Arc::ptr_eq(&open.log, &file)) else {
                    continue;
                };
                if open.file.write_all(&bytes).is_err() {
                    file.failed.fetch_add(lines, Relaxed);
                }
            }
            Message::Lines(waiting) => line_files.write(&waiting),
            Message::Wake => {}
            Message::Drain(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

fn reopen_all(files: &mut [OpenFile]) {
    for open_file in files {
        match open(&open_file.log.path) {
            Ok(file) => open_file.file = file,
            // Keeps writing to the old file: a line in the wrong place beats a lost one.
            Err(error) => eprintln!("cannot reopen log file \"{}\": {error}", open_file.log.path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_reopens_and_counts() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("access.log");
        let moved = directory.path().join("access.log.1");
        let writer = LogWriter::start().expect("thread starts");
        let sink = writer.open(&path).expect("opens");
        assert!(sink.send(b"one\n".to_vec(), 1));
        assert!(writer.drain(Duration::from_secs(10)));
        std::fs::rename(&path, &moved).expect("rename");
        sink.send(b"two\n".to_vec(), 1);
        assert!(writer.drain(Duration::from_secs(10)));
        writer.reopen();
        sink.send(b"three\n".to_vec(), 1);
        assert!(writer.drain(Duration::from_secs(10)));
        assert_eq!(std::fs::read_to_string(&moved).expect("old"), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&path).expect("new"), "three\n");
        assert_eq!(sink.dropped(), 0);
    }

    #[test]
    fn a_stalled_disk_drops_and_counts_but_never_blocks() {
        // The queue of a writer whose thread never reads, as if the disk had stopped.
        let (queue, _incoming) = sync_channel(2);
        let file = Arc::new(LogFile {
            path: PathBuf::from("stalled"),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let sink = LogSink { queue, file };
        let sent: Vec<bool> = (0..4).map(|_| sink.send(b"line\n".to_vec(), 3)).collect();
        assert_eq!(sent, [true, true, false, false]);
        assert_eq!(sink.dropped(), 6);
    }

    #[test]
    fn a_full_disk_counts_lines() {
        let writer = LogWriter::start().expect("thread starts");
        let sink = writer.open(Path::new("/dev/full")).expect("opens");
        sink.send(b"lost\n".to_vec(), 1);
        assert!(writer.drain(Duration::from_secs(10)));
        assert_eq!(sink.dropped(), 1);
    }

    #[test]
    fn an_unusable_path_is_an_error_that_names_it() {
        let writer = LogWriter::start().expect("thread starts");
        let error = writer.open(Path::new("/nonexistent/access.log")).expect_err("cannot open");
        assert!(error.to_string().contains("/nonexistent/access.log"), "{error}");
    }
}
