//! Waiting for events. A core that falls asleep between two answers costs more than one that looks again: waking a
//! virtual CPU takes the *server* an interrupt for each answer. So a busy closed-loop run looks for a moment before it
//! sleeps. Where that finds nothing, because answers take longer or because the server runs on this very core, it is
//! tried ever less often. The time spent looking is not counted as work.

use std::os::fd::OwnedFd;

use rustix::{
    buffer::spare_capacity,
    event::epoll,
    io::Errno,
    time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    },
};

use super::clock::Clock;
use crate::Problem;

const LOOK_NS: u64 = 30_000;
/// Between two looks of a crowd.
const REST_NS: u64 = 2_000;
/// After this many fruitless looks only one wait in [`SELDOM`] looks.
const PATIENCE: u32 = 16;
const SELDOM: u32 = 64;
/// The token of the timer; no connection has it.
const TIMER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) struct Poll {
    epoll: OwnedFd,
    /// Wakes a run at a constant rate to the microsecond; `epoll_wait` itself counts milliseconds.
    timer: Option<OwnedFd>,
    fruitless: u32,
    waits: u32,
    /// With many connections a look may come a moment late: what arrives meanwhile is found together.
    is_crowd: bool,
    /// Time spent looking, in nanoseconds.
    pub(crate) looked_ns: u64,
}

impl Poll {
    pub(super) fn new(exact: bool, is_crowd: bool) -> Result<Poll, Problem> {
        let failed = |error: Errno| Problem::failed(format!("epoll: {}", std::io::Error::from(error)));
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let mut timer = None;
        if exact {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let created = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
            let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&epoll, &created, epoll::EventData::new_u64(TIMER), events).map_err(failed)?;
            timer = Some(created);
        }
        Ok(Poll { epoll, timer, fruitless: 0, waits: 0, is_crowd, looked_ns: 0 })
    }

    pub(crate) fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Fills `events`; returns without any when `until` comes first.
    pub(super) fn wait(
        &mut self,
        events: &mut Vec<epoll::Event>,
        clock: &Clock,
        until: u64,
        may_look: bool,
    ) -> Result<(), Problem> {
        events.clear();
        let now = clock.now();
        if may_look && self.is_due() && self.poll_now(events, clock, now)? {
            return Ok(());
        }
        self.sleep(events, until.saturating_sub(clock.now()))
    }

    fn is_due(&mut self) -> bool {
        self.waits = self.waits.wrapping_add(1);
        self.fruitless < PATIENCE || self.waits.is_multiple_of(SELDOM)
    }

    /// Whether there were events.
    fn poll_now(
        &mut self,
        events: &mut Vec<epoll::Event>,
        clock: &Clock,
        begun: u64,
    ) -> Result<bool, Problem> {
        self.sleep(events, 0)?;
        if !events.is_empty() {
            // What is there at once says nothing about waiting, and took none.
            return Ok(true);
        }
        loop {
            if self.is_crowd {
                rest(clock);
            }
            self.sleep(events, 0)?;
            let took = clock.now() - begun;
            let found = !events.is_empty();
            if found || took >= LOOK_NS {
                self.looked_ns += took;
                self.fruitless = if found { 0 } else { (self.fruitless + 1).min(PATIENCE) };
                return Ok(found);
            }
        }
    }

    fn sleep(&self, events: &mut Vec<epoll::Event>, at_most_ns: u64) -> Result<(), Problem> {
        let timeout = timespec(at_most_ns);
        if let Some(timer) = self.timer.as_ref().filter(|_| at_most_ns > 0) {
            let once = Itimerspec { it_interval: timespec(0), it_value: timeout };
            // Without the timer the wait ends some tenths of a millisecond later.
            let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &once);
        }
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Problem::failed(format!("epoll_wait: {}", std::io::Error::from(error)))),
        }
    }
}

/// Each look takes a lock that the server's side needs to announce an answer.
fn rest(clock: &Clock) {
    let until = clock.now() + REST_NS;
    while clock.now() < until {
        std::hint::spin_loop();
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}
