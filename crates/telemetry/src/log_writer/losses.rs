//! Lines that did not reach their file: how many there are, what a metric shows of them, and the line in the error log.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error_log::{self, Level};

/// Between two lines about lost lines, over all files of a writer.
const BETWEEN_TWO_LINES: Duration = Duration::from_secs(10);

/// Of one file, since start.
#[derive(Debug)]
pub struct Losses {
    path: PathBuf,
    /// Too many waited for the disk.
    backlog: AtomicU64,
    /// The disk refused them.
    failed: AtomicU64,
    /// What the error log knows of.
    told: AtomicU64,
    /// What the disk said last.
    reason: Mutex<Option<String>>,
}

impl Losses {
    pub(super) fn new(path: &Path) -> Losses {
        Losses {
            path: path.to_owned(),
            backlog: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            told: AtomicU64::new(0),
            reason: Mutex::new(None),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn waited_too_long(&self, lines: u64) {
        self.backlog.fetch_add(lines, Relaxed);
    }

    pub(super) fn refused(&self, lines: u64, reason: &std::io::Error) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_string());
        self.failed.fetch_add(lines, Relaxed);
    }

    /// Reasons as a metric names them, with their lines.
    pub fn counts(&self) -> [(&'static str, u64); 2] {
        [("backlog", self.backlog.load(Relaxed)), ("failed", self.failed.load(Relaxed))]
    }

    pub fn sum(&self) -> u64 {
        self.counts().iter().map(|(_, lines)| lines).sum()
    }

    fn untold(&self) -> bool {
        self.sum() != self.told.load(Relaxed)
    }

    fn tell(&self) {
        let sum = self.sum();
        let new = sum - self.told.swap(sum, Relaxed);
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reason = reason.unwrap_or_else(|| "the disk is too slow".to_owned());
        let path = self.path.display();
        error_log::log(Level::Error, format_args!("{new} lines of {path} were lost: {reason}"));
    }
}

/// When the writer's thread told of losses.
#[derive(Debug, Default)]
pub(super) struct Teller(Option<Instant>);

impl Teller {
    /// Tells of what was lost, if it is time to. Returns whether something waits to be told.
    pub(super) fn look<'l>(&mut self, files: impl Iterator<Item = &'l Losses> + Clone) -> bool {
        if !files.clone().any(Losses::untold) {
            return false;
        }
        if self.0.is_some_and(|last| last.elapsed() < BETWEEN_TWO_LINES) {
            return true;
        }
        self.0 = Some(Instant::now());
        files.filter(|losses| losses.untold()).for_each(Losses::tell);
        false
    }
}
