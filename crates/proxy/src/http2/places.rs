//! The requests of one HTTP/2 connection: which are open or slow in the sense of [`super::untaken`], and which are left by the
//! client.
//!
//! Every kind of answer waits for its client in [`super::stream`], which records the wait here. Once a second the connection's
//! task looks for requests that have waited: a client that does not keep up is counted, and cut where too many are.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Waker},
};

use super::untaken::{ALWAYS, Account, Held, Left, STREAM_BYTES};
use crate::timers::{Deadlines, Timer};

/// A client that takes nothing of an answer for so long counts as not taking it.
pub(super) const COUNTED_AFTER_MS: u64 = 1_000;
/// Unless all streams of its connection took this much meanwhile: then the client reads others first. More than the
/// window that a connection begins with.
pub(super) const KEEPS_UP_BYTES: u64 = 64 * 1024;
/// A connection that has taken nothing for so long stalls; its requests in line are the first to make room for
/// others.
pub(super) const STALLS_AFTER_MS: u64 = 250;

pub(crate) struct Places {
    deadlines: &'static Deadlines,
    account: Rc<Account>,
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    held: Cell<Held>,
    waiting: Cell<usize>,
    /// Handed over for the client since the connection began.
    total: Cell<u64>,
    /// When it grew last.
    moved_ms: Cell<u64>,
    /// The total when answers were last found left.
    left_at: Cell<Option<u64>>,
    /// Wakes the connection's task for the next look.
    timer: Timer,
    armed: Cell<bool>,
}

#[derive(Default)]
struct Slot {
    /// The units that it counts for; 0: the slot is free.
    units: usize,
    state: State,
    /// Its answer has begun.
    answered: bool,
    cut: bool,
    began_ms: u64,
    wait: Option<Wait>,
}

/// What a request counts as.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    Open,
    Slow,
    #[default]
    Nothing,
}

/// A request that waits for its client.
struct Wait {
    since_ms: u64,
    /// The connection's total then, or when it was last looked at.
    total: u64,
    waker: Waker,
    left: Option<Left>,
}

impl Places {
    pub(crate) fn new(deadlines: &'static Deadlines, account: Rc<Account>) -> Places {
        Places {
            deadlines,
            account,
            slots: RefCell::default(),
            free: RefCell::default(),
            held: Cell::default(),
            waiting: Cell::new(0),
            total: Cell::new(0),
            moved_ms: Cell::new(deadlines.now_ms()),
            left_at: Cell::new(None),
            timer: Timer::new(deadlines),
            armed: Cell::new(false),
        }
    }

    /// By the connection's task.
    pub(crate) fn attach(&self, context: &Context<'_>) {
        self.timer.attach(context);
    }

    pub(crate) fn account(&self) -> &Rc<Account> {
        &self.account
    }

    /// Units that are open or slow.
    pub(crate) fn held(&self) -> usize {
        self.held.get().all()
    }

    /// Handed over for the client since the connection began.
    pub(crate) fn total(&self) -> u64 {
        self.total.get()
    }

    /// The client has left answers that still wait, and has not taken much since: requests in line wait with them.
    pub(crate) fn leaves(&self) -> bool {
        self.waiting.get() > 0
            && self.left_at.get().is_some_and(|then| self.total.get() - then < KEEPS_UP_BYTES)
    }

    pub(crate) fn hand_over(&self, bytes: usize) {
        self.total.set(self.total.get() + bytes as u64);
        self.moved_ms.set(self.deadlines.now_ms());
    }

    /// Answers wait, and the client has taken nothing for a while.
    pub(crate) fn stalls(&self) -> bool {
        let still_ms = self.deadlines.now_ms().saturating_sub(self.moved_ms.get());
        self.waiting.get() > 0 && still_ms >= STALLS_AFTER_MS
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> u32 {
        let slot =
            Slot { units: 1, state: State::Open, began_ms: self.deadlines.now_ms(), ..Slot::default() };
        let mut slots = self.slots.borrow_mut();
        let index = match self.free.borrow_mut().pop() {
            Some(index) => index,
            None => {
                slots.push(Slot::default());
                (slots.len() - 1) as u32
            }
        };
        if let Some(place) = slots.get_mut(index as usize) {
            *place = slot;
        }
        self.count(State::Nothing, State::Open, 1);
        if self.held() > ALWAYS {
            self.arm();
        }
        index
    }

    pub(crate) fn end(&self, index: u32) {
        let slot = self.slots.borrow_mut().get_mut(index as usize).map(std::mem::take);
        let Some(slot) = slot.filter(|slot| slot.units > 0) else { return };
        self.free.borrow_mut().push(index);
        self.waiting.set(self.waiting.get() - usize::from(slot.wait.is_some()));
        self.count(slot.state, State::Nothing, slot.units);
    }

    /// Counts bytes of an answer that the request holds until its client has taken them.
    pub(crate) fn weigh(&self, index: u32, bytes: usize) {
        let units = bytes / STREAM_BYTES;
        if let Some(slot) = self.slots.borrow_mut().get_mut(index as usize).filter(|_| units > 0) {
            slot.units += units;
            self.count(State::Nothing, slot.state, units);
        }
    }

    /// The answer begins.
    pub(crate) fn answer(&self, index: u32) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(index as usize) {
            slot.answered = true;
            if slot.state == State::Slow {
                self.count(std::mem::take(&mut slot.state), State::Nothing, slot.units);
            }
        }
    }

    /// The request has an answer that its client does not take now. `false`: it is cut.
    pub(crate) fn wait(&self, index: u32, context: &Context<'_>) -> bool {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(index as usize) else { return true };
        if slot.cut {
            return false;
        }
        if slot.wait.is_none() {
            let (since_ms, total) = (self.deadlines.now_ms(), self.total.get());
            slot.wait = Some(Wait { since_ms, total, waker: context.waker().clone(), left: None });
            self.waiting.set(self.waiting.get() + 1);
            self.count(std::mem::replace(&mut slot.state, State::Open), State::Open, slot.units);
            self.arm();
        }
        true
    }

    /// The client took some of it.
    pub(crate) fn flow(&self, index: u32) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(index as usize) else { return };
        slot.cut = false;
        if slot.wait.take().is_some() {
            self.waiting.set(self.waiting.get() - 1);
        }
    }

    fn count(&self, from: State, to: State, units: usize) {
        if from == to {
            return;
        }
        let before = self.held.get();
        let mut now = before;
        match from {
            State::Open => now.open -= units,
            State::Slow => now.slow -= units,
            State::Nothing => {}
        }
        match to {
            State::Open => now.open += units,
            State::Slow => now.slow += units,
            State::Nothing => {}
        }
        self.held.set(now);
        let (before, now) = (before.beyond(), now.beyond());
        if before != now {
            self.account.change(before, now);
        }
    }

    /// A request waits: schedules a look.
    pub(crate) fn arm(&self) {
        if !self.armed.replace(true) {
            self.timer.set(COUNTED_AFTER_MS);
        }
    }

    /// A request waits in line: schedules an early look.
    pub(crate) fn arm_soon(&self) {
        self.armed.set(true);
        self.timer.set(STALLS_AFTER_MS);
    }

    /// Looks for requests that have waited for a second.
    pub(crate) fn admit_overdue(&self) {
        if !self.armed.get() || !self.timer.expired() {
            return;
        }
        self.armed.set(false);
        self.timer.clear();
        let (now_ms, total) = (self.deadlines.now_ms(), self.total.get());
        let mut cut = Vec::new();
        let mut leaves = false;
        for slot in self.slots.borrow_mut().iter_mut().filter(|slot| slot.units > 0) {
            let Some(wait) = &mut slot.wait else {
                // It does not wait for its client.
                if slot.state == State::Open && now_ms.saturating_sub(slot.began_ms) >= COUNTED_AFTER_MS {
                    let state = if slot.answered { State::Nothing } else { State::Slow };
                    self.count(std::mem::replace(&mut slot.state, state), state, slot.units);
                }
                continue;
            };
            if now_ms.saturating_sub(wait.since_ms) < COUNTED_AFTER_MS {
                continue;
            }
            let keeps_up = total - std::mem::replace(&mut wait.total, total) >= KEEPS_UP_BYTES;
            if keeps_up {
                (wait.since_ms, wait.left) = (now_ms, None);
                continue;
            }
            leaves = true;
            if wait.left.is_none() {
                wait.left = self.account.leave(slot.units);
                if wait.left.is_none() {
                    slot.cut = true;
                    cut.push(wait.waker.clone());
                }
            }
        }
        if leaves {
            self.left_at.set(Some(total));
        }
        if self.waiting.get() > 0 || self.held.get().open > ALWAYS {
            self.arm();
        }
        cut.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::timers::TICK_MS;

    fn places() -> (&'static Deadlines, Places) {
        let deadlines: &'static Deadlines = Box::leak(Box::default());
        (deadlines, Places::new(deadlines, Account::of(IpAddr::from([198, 51, 100, 7]))))
    }

    #[test]
    fn who_waits_for_the_client_stays_open() {
        let (deadlines, places) = places();
        let context = Context::from_waker(Waker::noop());
        let held = |open, slow| Held { open, slow };
        let (silent, stuck, flowing) = (places.begin(), places.begin(), places.begin());
        places.answer(stuck);
        places.answer(flowing);
        assert!(places.wait(stuck, &context));
        assert_eq!((places.held.get(), places.waiting.get()), (held(3, 0), 1));
        let second = COUNTED_AFTER_MS + 2 * TICK_MS;
        assert!(!places.stalls());
        deadlines.tick(second);
        assert!(places.stalls());
        places.admit_overdue();
        assert_eq!(places.held.get(), held(1, 1), "an upstream keeps the silent one waiting");
        assert!(places.leaves());
        places.hand_over(KEEPS_UP_BYTES as usize);
        assert!(!places.leaves());
        deadlines.tick(2 * second);
        places.admit_overdue();
        assert!(!places.leaves(), "the connection takes something");
        deadlines.tick(3 * second);
        places.admit_overdue();
        assert!(places.leaves(), "and nothing more");
        places.flow(stuck);
        places.weigh(stuck, 3 * STREAM_BYTES);
        assert_eq!(places.held.get(), held(4, 1));
        places.answer(silent);
        assert_eq!(places.held.get(), held(4, 0));
        assert!(places.wait(silent, &context) && places.wait(stuck, &context));
        assert_eq!((places.held.get(), places.waiting.get()), (held(5, 0), 2));
        [silent, stuck, flowing].into_iter().for_each(|index| places.end(index));
        assert_eq!((places.held.get(), places.waiting.get()), (held(0, 0), 0));
        assert_eq!(places.begin(), flowing, "places are used again");
    }
}
