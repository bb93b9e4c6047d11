//! What black-box tests need: the gateway as a process, a client that sends exact bytes, an upstream that can
//! misbehave, and real servers (nginx, Redis, etcd) in temporary folders.
//!
//! Everything here is blocking and built on the standard library: a test tool that shares its HTTP code with
//! the program under test would share its mistakes too.

#![deny(missing_docs)]
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "what a failed test shows")]

pub mod client;
pub mod consul;
pub mod datagrams;
pub mod etcd;
pub mod gateway;
pub mod http2;
pub mod message;
pub mod process;
pub mod relay;
pub mod servers;
pub mod upstream;
pub mod usage;
pub mod wrk;

pub use client::Client;
pub use consul::Consul;
pub use datagrams::Datagrams;
pub use etcd::Etcd;
pub use gateway::Gateway;
pub use http2::Http2Client;
pub use message::{Message, ReadError};
pub use relay::Relay;
pub use upstream::{
    Seen, Upstream,
    behaviour::{Behaviour, Step},
};
pub use wrk::Wrk;

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// How long a test waits for something that must happen. Long, because machines that run tests are slow;
/// no test that passes waits it out.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// Polls until a condition holds that nothing announces, for at most [`PATIENCE`]. Returns how long it took.
pub fn eventually(what: impl Display, holds: impl FnMut() -> bool) -> Duration {
    eventually_within(PATIENCE, what, holds)
}

/// As [`eventually`], where the time is a part of what is tested.
pub fn eventually_within(limit: Duration, what: impl Display, mut holds: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

/// A port that is free now. Below those that the system gives to outgoing connections (32768 and up on Linux), one of
/// which could take it before the caller has bound it.
pub fn free_port() -> u16 {
    static GIVEN: std::sync::Mutex<std::collections::BTreeSet<u16>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Processes that run tests at the same time begin at different places.
    let begin = u64::from(std::process::id()) * 641 + given.len() as u64;
    for port in (0..PORTS).map(|step| FIRST_PORT + ((begin + step) % PORTS) as u16) {
        if !given.contains(&port) && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            given.insert(port);
            return port;
        }
    }
    panic!("no free port from {FIRST_PORT} on");
}

const FIRST_PORT: u16 = 12_000;
const PORTS: u64 = 20_000;
