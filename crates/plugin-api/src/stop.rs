//! The end of the process: work that should not be lost (log batches) is notified, and waited for up to a
//! limit.

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

static STOPPING: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::channel(false).0);
static WORK: Mutex<usize> = Mutex::new(0);
static WORK_DONE: Condvar = Condvar::new();

/// While this lives, the end of the process waits for the work that holds it.
pub struct Guard(());

/// Holds the end of the process up, at most as long as [`finish`] waits.
pub fn guard() -> Guard {
    *WORK.lock() += 1;
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut work = WORK.lock();
        *work -= 1;
        if *work == 0 {
            WORK_DONE.notify_all();
        }
    }
}

/// Becomes ready when the process is about to end. For holders of a [`Guard`].
pub async fn requested() {
    let mut stopping = STOPPING.subscribe();
    // The sender is static: it is never gone.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Whether the process is about to end.
pub fn is_requested() -> bool {
    *STOPPING.borrow()
}

/// Requests the stop and waits for the guarded work, at most that long. Returns whether all of it ended.
pub fn finish(patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    STOPPING.send_replace(true);
    let mut work = WORK.lock();
    while *work > 0 {
        if WORK_DONE.wait_until(&mut work, deadline).timed_out() {
            return *work == 0;
        }
    }
    true
}
