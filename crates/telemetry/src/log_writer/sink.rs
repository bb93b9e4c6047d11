//! The callers' side of the writer: it hands over and never waits.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

use super::Losses;

/// The same for the lines of one file, in bytes: a buffer may be as large as configured.
pub(super) const MOST_WAITING_BYTES: usize = 16 << 20;

/// One open log file; cheap to clone.
#[derive(Clone, Debug)]
pub struct LogSink {
    pub(super) queue: SyncSender<Message>,
    pub(super) file: Arc<LogFile>,
}

#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) waiting_bytes: AtomicUsize,
    pub(super) losses: Losses,
}

impl LogFile {
    pub(super) fn new(path: &Path) -> Arc<LogFile> {
        Arc::new(LogFile { waiting_bytes: AtomicUsize::new(0), losses: Losses::new(path) })
    }
}

#[derive(Debug)]
pub(super) enum Message {
    Open(Arc<LogFile>, File),
    Write {
        file: Arc<LogFile>,
        bytes: Vec<u8>,
    },
    /// Lines wait in this file's own buffer.
    Lines(Arc<Waiting>),
    Wake,
    /// Answered when everything sent before it is written.
    Drain(SyncSender<()>),
}

impl LogSink {
    /// Hands over a buffer of whole lines; never waits. Returns false when it was dropped.
    pub fn send(&self, bytes: Vec<u8>, lines: u64) -> bool {
        let (file, length) = (&self.file, bytes.len());
        let waits = file.waiting_bytes.fetch_add(length, Relaxed);
        let message = Message::Write { file: Arc::clone(file), bytes };
        // A single buffer may be larger.
        let has_room = waits == 0 || waits + length <= MOST_WAITING_BYTES;
        if has_room && self.queue.try_send(message).is_ok() {
            return true;
        }
        file.waiting_bytes.fetch_sub(length, Relaxed);
        file.losses.waited_too_long(lines);
        false
    }

    /// Lines lost since start, because too many waited or the disk refused them.
    pub fn dropped(&self) -> u64 {
        self.file.losses.sum()
    }

    /// What was lost of this file.
    pub fn losses(&self) -> &Losses {
        &self.file.losses
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.losses.path()
    }
}

/// How much may wait for a stalled disk, per file.
const WAITING_BYTES: usize = 8 << 20;

/// Lines of all these files that were lost since start, by reason as a metric names it: the losses of a file count even
/// after no configuration names it.
pub(super) static LOST: [(&str, AtomicU64); 2] =
    [("backlog", AtomicU64::new(0)), ("failed", AtomicU64::new(0))];

/// Lines of all files that were lost since the start, by reason.
pub fn lines_lost() -> [(&'static str, u64); 2] {
    LOST.each_ref().map(|(reason, lines)| (*reason, lines.load(Relaxed)))
}

/// One file; cheap to clone.
#[derive(Clone, Debug)]
pub struct LineSink {
    queue: SyncSender<Message>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(super) buffer: Mutex<Buffer>,
    pub(super) losses: Losses,
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// The thread knows that something waits.
    pub(super) announced: bool,
}

impl LineSink {
    pub(super) fn new(queue: SyncSender<Message>, path: &Path) -> Self {
        let waiting = Waiting { buffer: Mutex::default(), losses: Losses::new(path) };
        LineSink { queue, waiting: Arc::new(waiting) }
    }

    /// Hands over a line, its end included; never waits for the disk. Returns false when it was dropped.
    pub fn append(&self, line: &[u8]) -> bool {
        let mut buffer = self.waiting.buffer.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if buffer.bytes.len() + line.len() > WAITING_BYTES {
            let [(_, backlog), _] = &LOST;
            backlog.fetch_add(1, Relaxed);
            self.waiting.losses.waited_too_long(1);
            return false;
        }
        buffer.bytes.extend_from_slice(line);
        if !buffer.announced {
            // A full queue is not a loss: the next line announces the buffer again.
            buffer.announced = self.queue.try_send(Message::Lines(Arc::clone(&self.waiting))).is_ok();
        }
        true
    }

    /// Lines lost because too many waited, or the disk refused them.
    pub fn dropped(&self) -> u64 {
        self.waiting.losses.sum()
    }
}
