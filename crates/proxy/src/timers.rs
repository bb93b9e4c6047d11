//! Time limits of connections: one slot each, swept every [`TICK_MS`].
//!
//! Setting a limit is a store. Timers of the runtime would take a lock and a list insertion per request, for limits
//! that almost never fire; 10,000 slots are swept in some ten microseconds. Limits are late by one tick at most.

use std::{
    cell::{Cell, RefCell},
    task::{Context, Waker},
};

pub const TICK_MS: u64 = 50;
const NEVER: u64 = u64::MAX;

#[derive(Default)]
pub struct Deadlines {
    now_ms: Cell<u64>,
    at: RefCell<Vec<u64>>,
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<u32>>,
}

impl Deadlines {
    /// Milliseconds since the worker started, as of the last tick.
    pub fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Moves the clock and wakes what is overdue.
    pub fn tick(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
        let at = self.at.borrow();
        let wakers = self.wakers.borrow();
        for (index, &deadline) in at.iter().enumerate() {
            if deadline <= now_ms
                && let Some(Some(waker)) = wakers.get(index)
            {
                waker.wake_by_ref();
            }
        }
    }

    /// Wakes everybody: something they all must look at has changed.
    pub fn wake_all(&self) {
        for waker in self.wakers.borrow().iter().flatten() {
            waker.wake_by_ref();
        }
    }

    fn allocate(&self) -> u32 {
        if let Some(index) = self.free.borrow_mut().pop() {
            return index;
        }
        self.at.borrow_mut().push(NEVER);
        self.wakers.borrow_mut().push(None);
        (self.at.borrow().len() - 1) as u32
    }
}

/// A connection's slot.
pub struct Timer {
    deadlines: &'static Deadlines,
    index: u32,
}

impl Timer {
    pub fn new(deadlines: &'static Deadlines) -> Timer {
        Timer { deadlines, index: deadlines.allocate() }
    }

    /// Remembers which task to wake; once per task.
    pub fn attach(&self, context: &Context<'_>) {
        if let Some(waker) = self.deadlines.wakers.borrow_mut().get_mut(self.index as usize) {
            *waker = Some(context.waker().clone());
        }
    }

    /// The limit is `after_ms` from now.
    pub fn set(&self, after_ms: u64) {
        let at = self.deadlines.now_ms.get().saturating_add(after_ms).saturating_add(TICK_MS);
        self.put(at);
    }

    pub fn clear(&self) {
        self.put(NEVER);
    }

    fn put(&self, at: u64) {
        if let Some(slot) = self.deadlines.at.borrow_mut().get_mut(self.index as usize) {
            *slot = at;
        }
    }

    pub fn expired(&self) -> bool {
        let at = self.deadlines.at.borrow().get(self.index as usize).copied().unwrap_or(NEVER);
        at <= self.deadlines.now_ms.get()
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.put(NEVER);
        if let Some(waker) = self.deadlines.wakers.borrow_mut().get_mut(self.index as usize) {
            *waker = None;
        }
        self.deadlines.free.borrow_mut().push(self.index);
    }
}
