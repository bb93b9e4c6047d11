//! Lines that did not reach their file: their number, and their reasons for a metric.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The lost lines of one file since start.
#[derive(Debug)]
pub struct Losses {
    path: PathBuf,
    /// Too many waited for the disk.
    backlog: AtomicU64,
    /// The disk refused them.
    failed: AtomicU64,
    /// Lines already reported in the error log.
    told: AtomicU64,
    /// The last error of the disk.
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

    pub(super) fn untold(&self) -> bool {
        self.sum() != self.told.load(Relaxed)
    }

    /// The number of lost lines that the error log has not reported yet, and the reason; they count as
    /// reported from now on.
    pub(super) fn take_untold(&self) -> (u64, String) {
        let sum = self.sum();
        let new = sum - self.told.swap(sum, Relaxed);
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).take();
        (new, reason.unwrap_or_else(|| "the disk is too slow".to_owned()))
    }
}
