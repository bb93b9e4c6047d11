//! The sessions of UDP that no node has answered yet, oldest first: those that make room. Datagrams from invented addresses fill this
//! list, and no session that works is closed for it.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::admission::Admitted;

/// A node may take a moment to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of a session from outside.
#[derive(Default)]
pub(crate) struct Mark {
    pub answered: Cell<bool>,
    pub wake: Notify,
    /// Its place; given to another one before the session has ended.
    pub admitted: Cell<Option<Admitted>>,
}

/// Of one worker.
#[derive(Default)]
pub(crate) struct Unanswered(RefCell<VecDeque<(Instant, Weak<Mark>)>>);

impl Unanswered {
    pub(crate) fn add(&self, mark: &Rc<Mark>) {
        let mut queue = self.0.borrow_mut();
        // What has ended, or was answered, at the front is not kept until there is a need for room.
        while queue.front().is_some_and(|(_, mark)| mark.upgrade().is_none_or(|mark| mark.answered.get())) {
            queue.pop_front();
        }
        queue.push_back((Instant::now(), Rc::downgrade(mark)));
    }

    /// Ends the oldest one that had its time, and frees its place; whether there was one.
    pub(crate) fn evict(&self) -> bool {
        let mut queue = self.0.borrow_mut();
        while let Some((began, mark)) = queue.front() {
            match mark.upgrade().filter(|mark| !mark.answered.get()) {
                Some(_) if began.elapsed() < PATIENCE => return false,
                Some(mark) => {
                    drop(mark.admitted.take());
                    mark.wake.notify_one();
                    queue.pop_front();
                    return true;
                }
                None => drop(queue.pop_front()),
            }
        }
        false
    }
}
