//! The memory of the last page, kept for the next one.
//!
//! Memory that was given back to the system comes again page by page, zeroed, each time with a fault, and a virtual machine may have to ask its host
//! for it: a thread that writes tens of megabytes of it each second holds its core for longer than its turn.

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

/// Longer than the usual interval of scrapes, 15 s.
const KEPT: Duration = Duration::from_secs(20);

#[derive(Default)]
pub(super) struct Spare(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// Without content.
    memory: Vec<u8>,
    /// How often one was kept: tells whether it is still the same.
    number: u64,
}

impl Spare {
    /// An empty vector with the room of an earlier page, if one is kept.
    pub(super) fn take(&self) -> Vec<u8> {
        mem::take(&mut self.lock().memory)
    }

    /// Keeps the memory of `page` for a while, where a runtime can tell when that is over.
    pub(super) fn keep(self: &Arc<Spare>, mut page: Vec<u8>) {
        let Ok(runtime) = Handle::try_current() else { return };
        page.clear();
        let mut kept = self.lock();
        if page.capacity() <= kept.memory.capacity() {
            return;
        }
        kept.memory = page;
        kept.number += 1;
        let number = kept.number;
        drop(kept);
        let spare = self.clone();
        runtime.spawn(async move {
            tokio::time::sleep(KEPT).await;
            spare.forget(number);
        });
    }

    fn forget(&self, number: u64) {
        let mut kept = self.lock();
        if kept.number == number {
            kept.memory = Vec::new();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_until_it_is_taken_or_not_wanted() {
        let spare = Arc::new(Spare::default());
        spare.keep(b"without a runtime".to_vec());
        assert_eq!(spare.take().capacity(), 0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(async {
            spare.keep(b"page".to_vec());
            let memory = spare.take();
            assert!(memory.is_empty() && memory.capacity() >= 4);
            assert_eq!(spare.take().capacity(), 0, "it is taken");
            spare.keep(memory);
            spare.keep(b"a longer page".to_vec());
            spare.forget(2);
            assert!(spare.lock().memory.capacity() >= 13, "another is there since");
            spare.forget(3);
            assert_eq!(spare.take().capacity(), 0, "it was not wanted");
        });
    }
}
