//! One thread that writes all log files.
//!
//! Callers hand it whole buffers through a bounded channel and never wait: when the disk stalls and the
//! channel fills, buffers are dropped and their lines counted. So are lines that the disk refuses. The thread ends when the
//! last handle is gone.

mod appending;
mod lines;
mod loss_report;
mod losses;
mod opening;
pub(super) mod sink;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use appending::Appending;

pub use self::sink::{LineSink, LogSink, lines_lost};
use crate::background::{begin_turn, lower_priority_for_logs};

use self::{
    opening::open,
    sink::{LogFile, Message},
};
pub(crate) use losses::Losses;

/// Buffers waiting for the disk before new ones are dropped.
const QUEUE_BUFFERS: usize = 1024;

/// While lost lines are unreported, how often the thread checks whether it is time to report them.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Handle to the writer thread; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: SyncSender<Message>,
    /// Raised by [`LogWriter::reopen`]; the thread compares it before each write, so a full queue cannot
    /// swallow the request.
    generation: Arc<AtomicU64>,
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
        thread::Builder::new().name("log-writer".into()).spawn(move || {
            lower_priority_for_logs();
            write_logs(&incoming, &seen);
        })?;
        Ok(LogWriter { queue, generation })
    }

    /// Opens a file for appending. `/dev/stdout` and `/dev/stderr` mean this process's own, whatever they are
    /// connected to. Call from control code: opening touches the disk.
    pub fn open(&self, path: &Path) -> io::Result<LogSink> {
        let opened = open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot open log file \"{}\": {error}", path.display()))
        })?;
        let file = LogFile::new(path);
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

/// A file as the writer thread holds it.
struct OpenFile {
    log: Arc<LogFile>,
    file: Appending,
}

/// The files that the thread has open.
#[derive(Default)]
struct Files {
    own: Vec<OpenFile>,
    of_lines: lines::OpenFiles,
}

fn write_logs(incoming: &Receiver<Message>, generation: &AtomicU64) {
    let mut files = Files::default();
    let mut opened = generation.load(Relaxed);
    let mut report = self::loss_report::LossReport::default();
    let mut is_untold = false;
    loop {
        let next = match is_untold {
            true => incoming.recv_timeout(BETWEEN_LOOKS),
            false => incoming.recv().map_err(RecvTimeoutError::from),
        };
        if matches!(next, Err(RecvTimeoutError::Disconnected)) {
            return;
        }
        begin_turn();
        let wanted = generation.load(Relaxed);
        if wanted != opened {
            opened = wanted;
            files.reopen();
        }
        if let Ok(message) = next {
            files.take(message);
        }
        let own = files.own.iter().map(|open| &open.log.losses);
        is_untold = report.report_losses(own.chain(files.of_lines.losses()));
    }
}

impl Files {
    fn take(&mut self, message: Message) {
        match message {
            Message::Open(log, file) => {
                // Sinks that are gone leave their file here until the next one opens.
                self.own.retain(|open| Arc::strong_count(&open.log) > 1);
                self.own.push(OpenFile { log, file: Appending::new(file) });
            }
            Message::Write { file, bytes } => {
                if let Some(open) = self.own.iter_mut().find(|open| Arc::ptr_eq(&open.log, &file))
                    && let Err((lines, error)) = open.file.write(&bytes)
                {
                    file.losses.refused(lines, &error);
                }
                file.waiting_bytes.fetch_sub(bytes.len(), Relaxed);
            }
            Message::Lines(waiting) => self.of_lines.write(&waiting),
            Message::Wake => {}
            Message::Drain(done) => {
                let _ = done.try_send(());
            }
        }
    }

    fn reopen(&mut self) {
        for open_file in &mut self.own {
            let path = open_file.log.losses.path();
            // There may be room by now for the end of its last line.
            let _ = open_file.file.write(&[]);
            match open(path) {
                Ok(file) => open_file.file = Appending::new(file),
                // Keeps writing to the old file: a line in the wrong place beats a lost one.
                #[expect(
                    clippy::print_stderr,
                    reason = "the error log may be the file that cannot be opened"
                )]
                Err(error) => eprintln!("cannot reopen log file \"{}\": {error}", path.display()),
            }
        }
        self.of_lines.reopen();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_writer::sink::MOST_WAITING_BYTES;

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
        let sink = LogSink { queue, file: LogFile::new(Path::new("stalled")) };
        let sent: Vec<bool> = (0..4).map(|_| sink.send(b"line\n".to_vec(), 3)).collect();
        assert_eq!(sent, [true, true, false, false]);
        assert_eq!(sink.dropped(), 6);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let (queue, _incoming) = sync_channel(100);
        let sink = LogSink { queue, file: LogFile::new(Path::new("stalled")) };
        let large = vec![b'x'; MOST_WAITING_BYTES / 4];
        let sent: Vec<bool> = (0..6).map(|_| sink.send(large.clone(), 1)).collect();
        assert_eq!(sent, [true, true, true, true, false, false]);
        assert_eq!(sink.losses().counts(), [("backlog", 2), ("failed", 0)]);
    }

    #[test]
    fn a_full_disk_counts_lines() {
        let writer = LogWriter::start().expect("thread starts");
        let sink = writer.open(Path::new("/dev/full")).expect("opens");
        sink.send(b"lost\n".to_vec(), 1);
        assert!(writer.drain(Duration::from_secs(10)));
        assert_eq!(sink.losses().counts(), [("backlog", 0), ("failed", 1)]);
    }

    #[test]
    fn an_unusable_path_is_an_error_that_names_it() {
        let writer = LogWriter::start().expect("thread starts");
        let error = writer.open(Path::new("/nonexistent/access.log")).expect_err("cannot open");
        assert!(error.to_string().contains("/nonexistent/access.log"), "{error}");
    }
}
