//! Which side has no room left when a closed loop gets no more.

use crate::Outcome;

/// A thread or machine that works this share of the time has no room left.
const BUSY: f64 = 0.9;
/// A load generator that works this share of the time may be what is full.
const CLIENT_BUSY: f64 = 0.8;
/// A server that works less than this has room.
const ROOM: f64 = 0.7;

/// Cores that threads of which one works at a time use in sum.
const ONE_CORE: (f64, f64) = (0.85, 1.15);

/// Which side has no room left, as far as it can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Server,
    /// Many threads of the server work, together as much as one.
    OneAtATime,
    /// The server would work if it got a CPU.
    Machine,
    Client,
    /// Not the server's CPU: a lock, a pool, a limit, or what the server asks.
    Behind,
    Unclear,
    /// The server is on another machine, or may not be looked at.
    Unseen,
}

impl Full {
    pub(super) fn of(outcome: &Outcome) -> Full {
        let client_busy = outcome.client.busiest_thread >= CLIENT_BUSY;
        let Some(server) = &outcome.server else {
            return if client_busy { Full::Client } else { Full::Unseen };
        };
        let cpus = outcome.machine.cpus.max(1) as f64;
        let wanted = server.busiest_thread + server.busiest_waited;
        if server.busiest_thread >= BUSY || cores(outcome) >= BUSY * cpus {
            Full::Server
        } else if cpus > 1.0 && (ONE_CORE.0..ONE_CORE.1).contains(&cores(outcome)) {
            Full::OneAtATime
        } else if wanted >= BUSY {
            Full::Machine
        } else if client_busy {
            Full::Client
        } else if wanted < ROOM && cores(outcome) < ROOM {
            Full::Behind
        } else {
            Full::Unclear
        }
    }

    pub(super) fn who(self) -> &'static str {
        match self {
            Full::Server => "the server's CPU is saturated",
            Full::OneAtATime => "the server's threads use one core together: only one works at a time",
            Full::Machine => "the CPUs of this machine are saturated",
            Full::Client => "the load generator is nearly saturated",
            Full::Behind => "and the server's CPU is not saturated: it waits",
            Full::Unclear => "and no CPU is saturated",
            Full::Unseen => "the server or something behind it is full",
        }
    }

    pub(super) fn remedy(self) -> &'static str {
        match self {
            Full::Server => {
                "that is what the server can do: more takes more workers or cores, or less work for a request"
            }
            Full::OneAtATime => {
                "look for a lock that all threads take (an interpreter's, an allocator's, a log's), and run several processes instead of threads"
            }
            Full::Machine => {
                "pin the server to its own cores (taskset), or run the client on another machine"
            }
            Full::Client => "add threads (-t) before the server is blamed",
            Full::Behind => {
                "look for what lets few requests through at a time: a lock, a pool, a rate limit, a limit of connections, the upstream"
            }
            Full::Unclear => {
                "look at the server's threads one by one, at its locks, and at what is behind it"
            }
            Full::Unseen => {
                "look at CPU and locks of the server, and at what is behind it; none of it can be seen from this machine"
            }
        }
    }
}

pub(super) fn cores(outcome: &Outcome) -> f64 {
    let cpu = outcome.server.as_ref().map_or(0.0, |server| server.cpu_seconds);
    cpu / outcome.seconds.max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outcome::Server, system::Machine};

    #[test]
    fn who_is_full() {
        let check = |server: Option<(f64, f64, f64)>, client: f64, who: Full| {
            let machine = Machine { cpus: 4, ..Machine::default() };
            let mut outcome = Outcome { seconds: 10.0, machine, ..Outcome::default() };
            outcome.client.busiest_thread = client;
            outcome.server = server.map(|(cores, busiest_thread, busiest_waited)| Server {
                cpu_seconds: cores * outcome.seconds,
                busiest_thread,
                busiest_waited,
                ..Server::default()
            });
            assert_eq!(Full::of(&outcome), who, "{server:?} {client}");
        };
        check(Some((0.99, 0.97, 0.0)), 0.4, Full::Server);
        check(Some((3.8, 0.5, 0.1)), 0.4, Full::Server);
        check(Some((0.6, 0.6, 0.38)), 0.4, Full::Machine);
        check(Some((0.5, 0.5, 0.1)), 0.85, Full::Client);
        check(None, 0.85, Full::Client);
        check(Some((0.1, 0.02, 0.01)), 0.1, Full::Behind);
        check(Some((0.8, 0.75, 0.05)), 0.3, Full::Unclear);
        check(None, 0.3, Full::Unseen);
    }
}
