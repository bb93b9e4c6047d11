//! Signals as nginx's users know them: TERM and INT stop, QUIT drains, HUP reloads, USR1 reopens logs.

use std::{
    sync::{
        Mutex,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1},
    iterator,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Stop,
    Quit,
    Reload,
    Reopen,
}

pub struct Signals {
    events: Mutex<Receiver<Event>>,
}

impl Signals {
    pub fn install() -> anyhow::Result<Signals> {
        let mut signals = iterator::Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1])?;
        let (sender, events) = channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let event = match signal {
                    SIGQUIT => Event::Quit,
                    SIGHUP => Event::Reload,
                    SIGUSR1 => Event::Reopen,
                    _ => Event::Stop,
                };
                if sender.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals { events: Mutex::new(events) })
    }

    /// The next signal; `None` when `patience` ran out first.
    pub fn next(&self, patience: Option<Duration>) -> Option<Event> {
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
