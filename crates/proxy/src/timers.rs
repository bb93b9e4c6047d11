//! Time limits of connections: one slot each, swept every [`TICK_MS`].
//!
//! Setting a limit is a store. Timers of the runtime would take a lock and a list insertion per request, for limits
//! that almost never fire; 10,000 slots are swept in some ten microseconds. Limits are late by one tick at most.

use std::{
    cell::{Cell, RefCell},
    cmp::Reverse,
    task::{Context, Waker},
};

pub(crate) const TICK_MS: u64 = 50;
const NEVER: u64 = u64::MAX;
/// The lowest bit of a deadline: the connection is idle and may be closed to make room.
const IDLE: u64 = 1;
/// The deadline of a connection that is being closed to make room, until its task notices.
const LEAVING: u64 = 0;

#[derive(Default)]
pub(crate) struct Deadlines {
    now_ms: Cell<u64>,
    at: RefCell<Vec<u64>>,
    /// Of each slot, the turn in which its connection became idle: deadlines are too coarse, and of different lengths.
    idle_since: RefCell<Vec<u32>>,
    turn: Cell<u32>,
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<u32>>,
}

impl Deadlines {
    /// Milliseconds since the worker started, as of the last tick.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now_ms.get()
    }

    /// Moves the clock and wakes what is overdue.
    pub(crate) fn tick(&self, now_ms: u64) {
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

    /// Wakes the one that waits with the timer of this slot, if there is one.
    pub(crate) fn wake(&self, slot: u64) {
        let wakers = self.wakers.borrow();
        if let Some(Some(waker)) = usize::try_from(slot).ok().and_then(|slot| wakers.get(slot)) {
            waker.wake_by_ref();
        }
    }

    /// Wakes all waiters: something that concerns all of them has changed.
    pub(crate) fn wake_all(&self) {
        for waker in self.wakers.borrow().iter().flatten() {
            waker.wake_by_ref();
        }
    }

    /// Expires the longest idle connections until `count` connections are closing; returns how many are.
    pub(crate) fn evict_idle(&self, count: usize) -> usize {
        let mut at = self.at.borrow_mut();
        let now_ms = self.now_ms.get();
        let leaving = at.iter().filter(|at| **at == LEAVING).count();
        let is_idle = |deadline: u64| deadline != NEVER && deadline & IDLE != 0 && deadline > now_ms;
        let since = self.idle_since.borrow();
        // Turns wrap around: their distance from the present one counts.
        let age = |since: &u32| self.turn.get().wrapping_sub(*since);
        let mut idle: Vec<(Reverse<u32>, usize)> = (at.iter().zip(since.iter()).enumerate())
            .filter(|(_, (at, _))| is_idle(**at))
            .map(|(index, (_, since))| (Reverse(age(since)), index))
            .collect();
        let wanted = count.saturating_sub(leaving);
        if idle.len() > wanted {
            idle.select_nth_unstable(wanted);
            idle.truncate(wanted);
        }
        for (_, index) in &idle {
            if let Some(slot) = at.get_mut(*index) {
                *slot = LEAVING;
            }
            if let Some(Some(waker)) = self.wakers.borrow().get(*index) {
                waker.wake_by_ref();
            }
        }
        leaving + idle.len()
    }

    fn allocate(&self) -> u32 {
        if let Some(index) = self.free.borrow_mut().pop() {
            return index;
        }
        self.at.borrow_mut().push(NEVER);
        self.idle_since.borrow_mut().push(0);
        self.wakers.borrow_mut().push(None);
        (self.at.borrow().len() - 1) as u32
    }
}

/// A connection's slot.
pub(crate) struct Timer {
    deadlines: &'static Deadlines,
    index: u32,
}

impl Timer {
    pub(crate) fn new(deadlines: &'static Deadlines) -> Timer {
        Timer { deadlines, index: deadlines.allocate() }
    }

    /// Its number, for [`Deadlines::wake`].
    pub(crate) fn slot(&self) -> u64 {
        self.index.into()
    }

    /// Remembers which task to wake; once per task.
    pub(crate) fn attach(&self, context: &Context<'_>) {
        if let Some(waker) = self.deadlines.wakers.borrow_mut().get_mut(self.index as usize) {
            *waker = Some(context.waker().clone());
        }
    }

    /// The limit is `after_ms` from now.
    pub(crate) fn set(&self, after_ms: u64) {
        self.put(self.after(after_ms) & !IDLE);
    }

    /// As [`Timer::set`], for an idle connection.
    pub(crate) fn set_idle(&self, after_ms: u64) {
        self.put(self.after(after_ms) | IDLE);
        let turn = self.deadlines.turn.get().wrapping_add(1);
        self.deadlines.turn.set(turn);
        if let Some(since) = self.deadlines.idle_since.borrow_mut().get_mut(self.index as usize) {
            *since = turn;
        }
    }

    /// The connection is no longer idle. Keeps the deadline; one that was closing gets `after_ms` from now.
    pub(crate) fn busy(&self, after_ms: u64) {
        let at = self.deadlines.at.borrow().get(self.index as usize).copied().unwrap_or(NEVER);
        match at {
            LEAVING => self.set(after_ms),
            NEVER => {}
            at => self.put(at & !IDLE),
        }
    }

    fn after(&self, after_ms: u64) -> u64 {
        self.deadlines.now_ms.get().saturating_add(after_ms).saturating_add(TICK_MS)
    }

    pub(crate) fn clear(&self) {
        self.put(NEVER);
    }

    fn put(&self, at: u64) {
        if let Some(slot) = self.deadlines.at.borrow_mut().get_mut(self.index as usize) {
            *slot = at;
        }
    }

    /// The connection is to make room for another one.
    pub(crate) fn is_leaving(&self) -> bool {
        self.deadlines.at.borrow().get(self.index as usize) == Some(&LEAVING)
    }

    pub(crate) fn expired(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_idle_go_first() {
        let deadlines: &'static Deadlines = Box::leak(Box::default());
        let timers: Vec<Timer> = (0..6).map(|_| Timer::new(deadlines)).collect();
        // Of limits of any length, across the end of the turns' numbers.
        deadlines.turn.set(u32::MAX - 2);
        for (at, limit) in [(1, 100), (3, 500), (2, 500), (4, 100), (0, 100)] {
            if let Some(timer) = timers.get(at) {
                timer.set_idle(limit);
            }
        }
        if let Some(timer) = timers.get(1) {
            timer.busy(0);
        }
        assert_eq!(deadlines.evict_idle(2), 2);
        let ended: Vec<bool> = timers.iter().map(Timer::expired).collect();
        assert_eq!(ended, [false, false, true, true, false, false], "one is busy, and one has no limit");
        assert_eq!(deadlines.evict_idle(2), 2, "they are about to leave");
        assert_eq!(deadlines.evict_idle(9), 4);
        if let Some(timer) = timers.get(2) {
            timer.busy(100);
            assert!(!timer.expired());
        }
        assert_eq!(deadlines.evict_idle(1), 3);
    }
}
