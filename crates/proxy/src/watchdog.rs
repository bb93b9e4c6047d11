//! The watchdog: a worker that does not come back is reported and given up, and another one takes its place.
//!
//! ```text
//! at work --1 s without the end of a poll--> given up ------------------> ended
//!    ^                                        |  connections shut down     ^
//!    |   same listening sockets,              |  lowest priority           |
//!    +-- by descriptors of its own -- new     +--comes back: drains--------+
//! ```
//!
//! A thread cannot be ended from outside: what it holds (locks, memory, counts of `limit-conn`, descriptors) it keeps until
//! it comes back or the process ends. Nothing is closed under it, only shut down. It accepts nothing any more: it looks at
//! [`Progress::is_lost`] before it does. From the second one on, the process asks for a successor.
//!
//! Workers do nothing for it beyond what the stall watch needs: their polls are counted, and the clock of each makes one
//! every 50 ms. Time in which the thread had no processor is not counted, nor is time in which the watchdog itself did not
//! run: a suspended machine, or a stopped process, holds up both.

mod connections;

use std::{
    fs::{self, File},
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, setpriority_process};
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};

use super::crew::Watched;
use crate::{
    crew::{Crew, Seat, Stuck},
    progress::Marked,
    schedule::{Scheduled, State},
    worker::Introduction,
};

/// A worker is given up after a poll of this length, not counting time in which the machine did not run the
/// thread.
const LIMIT: Duration = Duration::from_secs(1);
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);
/// The most that one look counts: more passes only if the watchdog itself was held up.
const MOST_OF_A_LOOK: Duration = Duration::from_millis(200);
/// The most workers given up in the life of a process; each keeps its memory.
const MOST_GIVEN_UP: u64 = 64;
/// Lowest: a useless thread that computes leaves the processor to the others.
const PRIORITY: i32 = 19;

/// A fault that cannot be repaired is logged once in ten seconds.
static TOLD: Limiter = Limiter::new(1, 10_000);

pub(crate) fn start(crew: Arc<Crew>, tell: impl Fn(u64) + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("watchdog".to_owned()).spawn(move || watch(&crew, &tell))?;
    Ok(())
}

fn watch(crew: &Crew, tell: &dyn Fn(u64)) {
    let mut looked = Instant::now();
    let mut given_up = 0;
    loop {
        thread::sleep(LOOK);
        let now = Instant::now();
        let passed = now.saturating_duration_since(looked).min(MOST_OF_A_LOOK);
        looked = now;
        let mut seats = crew.seats.lock();
        let before = given_up;
        for seat in seats.iter_mut() {
            remember_ended(seat);
            check_worker(crew, seat, passed, &mut given_up);
        }
        // Waiters for a revision do not wait for workers that were given up.
        drop(seats);
        if given_up > before {
            crew.publisher.applied.notify_waiters();
            crew.signals.notify.notify_waiters();
            tell(given_up);
        }
    }
}

fn remember_ended(seat: &mut Seat) {
    for back in seat.lost.extract_if(.., |lost| lost.has_ended()) {
        seat.ended.push(back.stats);
        log(Level::Warn, format_args!("replaced worker {} has ended", seat.index));
    }
}

fn check_worker(crew: &Crew, seat: &mut Seat, passed: Duration, given_up: &mut u64) {
    let Some(running) = &mut seat.running else { return fill(crew, seat) };
    let Some(introduced) = running.introduced.get() else { return };
    if running.has_ended() || !running.watched.is_stuck(introduced, passed) {
        return;
    }
    if !std::mem::replace(&mut running.watched.named, true) {
        let marked = introduced.progress.ran().last().copied();
        let stuck = name(crew, seat.index, marked);
        log(Level::Alert, format_args!("{}", stuck_message(&stuck, marked, running.watched.held_up)));
        // Only the operator's routes and plugins make series: clients cannot add any.
        *crew.stuck.lock().entry(stuck).or_default() += 1;
    }
    if *given_up < MOST_GIVEN_UP {
        *given_up += 1;
        give_up(crew, seat);
    } else if TOLD.pass().is_some() {
        let index = seat.index;
        log(
            Level::Alert,
            format_args!(
                "worker {index} is stuck and is not replaced, because {MOST_GIVEN_UP} workers were replaced \
                 before; restart the gateway"
            ),
        );
    }
}

impl Watched {
    /// Whether it has not come back for too long. `passed`: since the last look.
    fn is_stuck(&mut self, introduced: &Introduction, passed: Duration) -> bool {
        let polls = introduced.progress.polls();
        if self.polls != polls {
            *self = Watched { polls, ..Watched::default() };
            return false;
        }
        let (state, scheduled) = observe(introduced.thread);
        let earlier = std::mem::replace(&mut self.scheduled, scheduled);
        self.held_up += held_up(state, scheduled, earlier, passed);
        self.held_up >= LIMIT
    }
}

/// The part of `passed` that counts.
fn held_up(
    state: Option<State>,
    scheduled: Option<Scheduled>,
    earlier: Option<Scheduled>,
    passed: Duration,
) -> Duration {
    match (state, scheduled, earlier) {
        (Some(State::Stopped), ..) => Duration::ZERO,
        // The time that it waits now is counted when it gets a processor: what it ran is known at any time.
        (Some(State::Runnable), Some(now), Some(earlier)) => now.computed(earlier, passed),
        (Some(State::Blocked), Some(now), Some(earlier)) => now.not_waited(earlier, passed),
        // The first look after progress has no earlier value to compare with.
        (Some(State::Runnable), Some(_), None) => Duration::ZERO,
        // The kernel does not report it.
        _ => passed,
    }
}

fn observe(thread: i32) -> (Option<State>, Option<Scheduled>) {
    let folder = format!("/proc/self/task/{thread}");
    let state = fs::read_to_string(format!("{folder}/stat")).ok();
    let schedule = File::open(format!("{folder}/schedstat")).ok();
    (state.as_deref().and_then(State::parse), schedule.as_ref().and_then(Scheduled::read))
}

fn give_up(crew: &Crew, seat: &mut Seat) {
    let Some(running) = seat.running.take() else { return };
    crew.signals.gave_up.store(true, Ordering::SeqCst);
    if let Some(introduced) = running.introduced.get() {
        introduced.progress.set_lost();
    }
    // First of all: clients wait in the queues, and where others pass connections on to this place.
    crew.balance.leave(seat.index);
    fill(crew, seat);
    if let Some(introduced) = running.introduced.get() {
        if let Some(thread) = Pid::from_raw(introduced.thread) {
            let _ = setpriority_process(Some(thread), PRIORITY);
        }
        shut_down(crew, seat.index, introduced);
    }
    seat.lost.push(running);
}

/// A worker for an empty place; none is needed once the gateway accepts no more.
fn fill(crew: &Crew, seat: &mut Seat) {
    if crew.signals.ending() {
        return;
    }
    if let Err(error) = crew.fill(seat)
        && TOLD.pass().is_some()
    {
        let index = seat.index;
        log(Level::Alert, format_args!("cannot replace worker {index}: {error}; retrying"));
    }
}

fn shut_down(crew: &Crew, index: usize, introduced: &Introduction) {
    // Where the gateway ends and no other process has the listening sockets, connections in their queues are
    // not left waiting.
    let (ending, handed_over) = (crew.signals.ending(), crew.signals.handed_over.load(Ordering::SeqCst));
    match connections::shut_down(&introduced.doors, ending && !handed_over) {
        Ok(count) => {
            let place = if ending { "ends with the process" } else { "was replaced" };
            log(
                Level::Warn,
                format_args!("worker {index} {place}; {count} of its connections are shut down"),
            );
        }
        Err(error) => log(
            Level::Error,
            format_args!(
                "cannot shut down the connections of worker {index}, its clients keep waiting: {error}"
            ),
        ),
    }
}

fn name(crew: &Crew, worker: usize, marked: Option<Marked>) -> Stuck {
    let route = marked.filter(|marked| marked.route > 0);
    let route = route.and_then(|marked| crew.publisher.route_id(marked.route));
    Stuck {
        worker,
        route: route.unwrap_or_else(|| "".into()),
        plugin: marked.map_or("", |marked| marked.name),
    }
}

fn stuck_message(stuck: &Stuck, marked: Option<Marked>, held_up: Duration) -> String {
    let what = match marked {
        Some(marked) => format!("plugin {} ({})", stuck.plugin, marked.at),
        None => "unknown work".to_owned(),
    };
    let route = if stuck.route.is_empty() { "none".to_owned() } else { stuck.route.to_string() };
    format!(
        "worker {} has been stuck for {:.1} s: {what}, route: {route}",
        stuck.worker,
        held_up.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_holds_a_worker_up_counts() {
        let ms = Duration::from_millis;
        let at = |ran, waited| Some(Scheduled { ran: ms(ran), waited: ms(waited) });
        for (state, now, earlier, counted) in [
            // It computes, alone or with others.
            (State::Runnable, at(200, 0), at(100, 0), 100),
            (State::Runnable, at(140, 60), at(100, 0), 40),
            // It waits for a processor, and the kernel has not counted that yet.
            (State::Runnable, at(100, 0), at(100, 0), 0),
            (State::Runnable, at(100, 0), None, 0),
            // It waits for a file, a lock.
            (State::Blocked, at(100, 0), at(100, 0), 100),
            (State::Blocked, at(100, 0), None, 100),
            (State::Blocked, at(110, 70), at(100, 0), 30),
            (State::Stopped, at(100, 0), at(100, 0), 0),
            // A kernel that does not count.
            (State::Runnable, None, None, 100),
        ] {
            assert_eq!(
                held_up(Some(state), now, earlier, ms(100)),
                ms(counted),
                "{state:?} {now:?} {earlier:?}"
            );
        }
        assert_eq!(held_up(None, None, None, ms(100)), ms(100));
    }
}
