//! How many calls are under way. A plugin that hangs keeps its calls until their time is over, and must leave room for the
//! others: a configuration may have as many calls as are possible besides, so each further one still finds some.

use std::{cell::RefCell, collections::HashMap};

/// Calls at a time, per worker: more would only wait for the runner. One configuration alone gets half.
const MOST_CALLS: usize = 2048;

#[derive(Default)]
struct Calls {
    all: usize,
    of: HashMap<u64, usize>,
}

thread_local! {
    static CALLS: RefCell<Calls> = RefCell::default();
}

/// A call of a configuration, while it lives.
pub(super) struct Place(u64);

impl Place {
    /// The error is for the log.
    pub(super) fn take(of: u64) -> Result<Place, String> {
        CALLS.with_borrow_mut(|calls| {
            let own = calls.of.get(&of).copied().unwrap_or_default();
            let free = MOST_CALLS.saturating_sub(calls.all);
            if own >= free {
                return Err(format!(
                    "too many calls to the plugin runner are under way: {own} of this configuration, {} in all",
                    calls.all
                ));
            }
            calls.all += 1;
            calls.of.insert(of, own + 1);
            Ok(Place(of))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CALLS.with_borrow_mut(|calls| {
            calls.all = calls.all.saturating_sub(1);
            if let Some(own) = calls.of.get_mut(&self.0) {
                *own = own.saturating_sub(1);
                if *own == 0 {
                    calls.of.remove(&self.0);
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(of: u64) -> Vec<Place> {
        std::iter::from_fn(|| Place::take(of).ok()).collect()
    }

    #[test]
    fn each_leaves_room_for_others() {
        let first = fill(1);
        assert_eq!(first.len(), MOST_CALLS / 2);
        let second = fill(2);
        assert_eq!(second.len(), MOST_CALLS / 4);
        let others: Vec<Vec<Place>> = (3..9).map(fill).collect();
        assert!(others.iter().all(|places| !places.is_empty()));
        drop((first, second, others));
        assert_eq!(fill(2).len(), MOST_CALLS / 2);
        assert!(CALLS.with_borrow(|calls| calls.of.is_empty() && calls.all == 0));
    }
}
