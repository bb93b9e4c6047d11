//! Where this process spends its CPU time: stacks of its own threads, sampled for some seconds.
//!
//! Each thread has a timer that runs while the thread does, and sends it SIGPROF ([`timers`]). The handler notes three registers and copies the
//! stack ([`samples`]); it allocates nothing, takes no lock and waits for no thread, so that a worker loses some microseconds a hundred
//! times per second of CPU time. Everything else is the matter of the thread that calls [`take`]: it unwinds the copies ([`stacks`]), which
//! cannot touch what it should not, names functions ([`symbols`]), and writes the profile ([`folded`], [`pprof`]).
//!
//! Time in the kernel is shown at the call that entered it. Deliberately absent: waiting (only CPU time is sampled), and allocations.

#![deny(missing_docs)]

mod folded;
mod modules;
mod pprof;
mod profile;
mod samples;
mod stacks;
mod symbols;
mod timers;

use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::{Duration, Instant, SystemTime},
};

use tidegate_telemetry::background::{give_way, lower_priority};

use self::{modules::Modules, profile::Profile, stacks::Stacks, timers::Timers};

/// Samples per second of CPU time: not a divisor of what else happens at fixed times.
const FREQUENCY: u64 = 99;

/// How often samples are taken over. There is room for more than all cores take meanwhile.
const TURN: Duration = Duration::from_millis(20);

/// How often threads are looked for that were not there before.
const LOOK: Duration = Duration::from_millis(200);

/// How a profile is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Compressed protobuf, as `go tool pprof`, Grafana and speedscope read it.
    Pprof,
    /// A line for each stack, as `flamegraph.pl` and speedscope read it.
    Folded,
}

/// Why a profile was not taken.
#[derive(Debug)]
pub enum Refused {
    /// One is being taken.
    Busy,
    /// No client waits for it.
    Left,
    /// The system does not allow it.
    Failed(String),
}

/// Whether a profile is being taken: there is one handler and one set of buffers.
static RUNNING: AtomicBool = AtomicBool::new(false);

struct Turn;

impl Turn {
    fn take() -> Option<Turn> {
        let taken = RUNNING.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        RUNNING.store(false, Ordering::Release);
    }
}

/// Samples all threads of this process but the calling one for `length`, or until the other end of `left` is dropped. Blocks, and lowers the
/// priority of the calling thread for good.
pub fn take(length: Duration, form: Form, left: &Receiver<()>) -> Result<Vec<u8>, Refused> {
    let _turn = Turn::take().ok_or(Refused::Busy)?;
    lower_priority();
    let mut stacks = Stacks::new(Modules::of_this_process());
    let (begun, at) = (Instant::now(), SystemTime::now());
    let mut timers = Timers::start(FREQUENCY).map_err(Refused::Failed)?;
    let mut looked = begun;
    loop {
        let rest = length.saturating_sub(begun.elapsed());
        if rest.is_zero() {
            break;
        }
        match left.recv_timeout(rest.min(TURN)) {
            Err(RecvTimeoutError::Disconnected) => return Err(Refused::Left),
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
        }
        samples::drain(|sample| {
            stacks.add(sample, timers.name_of(sample.thread));
            give_way();
        });
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            timers.arm_new_threads();
        }
    }
    let length = begun.elapsed();
    timers.stop();
    samples::drain(|sample| stacks.add(sample, timers.name_of(sample.thread)));
    let lost = samples::lost() + stacks.lost();
    let profile = Profile { at, length, frequency: FREQUENCY, lost, stacks: stacks.named() };
    match form {
        Form::Pprof => pprof::write(&profile).map_err(|error| Refused::Failed(error.to_string())),
        Form::Folded => Ok(folded::write(&profile)),
    }
}

#[cfg(test)]
mod tests;
