//! What the Admin API asks of the running process.

use std::sync::{Arc, OnceLock};

use admin::{Hooks, Progress};
use proxy::Workers;
use store::BoxFuture;

use super::control::Control;

pub struct ProcessHooks {
    control: Arc<Control>,
    /// Empty until the data plane is open, which it is before the Admin API's own port is.
    workers: OnceLock<Arc<Workers>>,
}

impl ProcessHooks {
    pub fn new(control: &Arc<Control>) -> ProcessHooks {
        ProcessHooks { control: control.clone(), workers: OnceLock::new() }
    }

    pub fn set_workers(&self, workers: &Arc<Workers>) {
        let _ = self.workers.set(workers.clone());
    }
}

impl Hooks for ProcessHooks {
    fn progress(&self) -> Progress {
        Progress {
            compiled: *self.control.published.borrow(),
            applied: self.workers.get().map(|workers| workers.revisions()).unwrap_or_default(),
        }
    }

    fn wait_applied(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self.workers.get() {
                Some(workers) => workers.wait_for_revision(revision).await,
                // Nobody to tell "applied" of: let the caller's limit end it.
                None => std::future::pending().await,
            }
        })
    }
}
