//! Signals as nginx's users know them: TERM and INT stop, QUIT drains, HUP reloads, USR1 reopens logs, USR2 upgrades.
//! Commands, messages from the new process and those of the watchdog come through the same queue.

use std::{
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ},
    iterator,
};

use super::{
    commands::{Command, Reply},
    handover::successor::SuccessorMessage,
};

pub(crate) const SIGNALS: [i32; 6] = [SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2];

pub(crate) enum Event {
    Stop,
    Quit,
    Reload,
    Reopen,
    Upgrade,
    Command(Command, Reply),
    Successor(u32, SuccessorMessage),
    /// A worker did not come back; so many so far.
    Stuck(u64),
}

/// What SIGHUP means.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    Reload,
    /// The terminal is closed, and no configuration can be reloaded.
    Stop,
}

impl Hangup {
    /// The signals to handle. Who began the process with `nohup` has it outlive its terminal.
    fn signals(self) -> Vec<i32> {
        let all = SIGNALS.into_iter();
        all.filter(|signal| self == Hangup::Reload || *signal != SIGHUP || !is_ignored(SIGHUP)).collect()
    }
}

/// Whether the process that began this one had it ignore a signal.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

/// For other threads that send events to the main thread.
#[derive(Clone)]
pub(crate) struct EventSender(Sender<Event>);

impl EventSender {
    pub(crate) fn send(&self, event: Event) {
        // The receiver is gone when the process ends.
        let _ = self.0.send(event);
    }
}

/// A write past the limit on the size of files (`ulimit -f`) is an error like that of a full disk, and does not end the process.
pub(crate) fn outlast_file_limits() {
    // Without a handler the signal ends the process; the flag is never read.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

pub(crate) struct Signals {
    events: Mutex<Receiver<Event>>,
    sender: Sender<Event>,
}

impl Signals {
    pub(crate) fn install(hangup: Hangup) -> anyhow::Result<Signals> {
        let mut signals = iterator::Signals::new(hangup.signals())?;
        let (sender, events) = channel();
        let for_signals = sender.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let event = match signal {
                    SIGQUIT => Event::Quit,
                    SIGHUP if hangup == Hangup::Reload => Event::Reload,
                    SIGUSR1 => Event::Reopen,
                    SIGUSR2 => Event::Upgrade,
                    _ => Event::Stop,
                };
                if for_signals.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals { events: Mutex::new(events), sender })
    }

    pub(crate) fn event_sender(&self) -> EventSender {
        EventSender(self.sender.clone())
    }

    /// The next signal; `None` when `patience` ran out first.
    pub(crate) fn next(&self, patience: Option<Duration>) -> Option<Event> {
        let events = self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match patience {
            None => events.recv().ok(),
            Some(patience) => match events.recv_timeout(patience) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Event::Stop),
            },
        }
    }
}
