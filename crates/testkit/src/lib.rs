//! What black-box tests need: the gateway as a process, a client that sends exact bytes, an upstream that can
//! misbehave, and real servers (nginx, Redis, etcd) in temporary folders.
//!
//! Everything here is blocking and built on the standard library: a test tool that shares its HTTP code with
//! the program under test would share its mistakes too.

#![forbid(unsafe_code)]

pub mod client;
pub mod consul;
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
pub use etcd::Etcd;
pub use gateway::Gateway;
pub use http2::Http2Client;
pub use message::{Message, ReadError};
pub use relay::Relay;
pub use upstream::{Behaviour, Seen, Step, Upstream};
pub use wrk::Wrk;

use std::time::Duration;

/// How long a test waits for something that must happen. Long, because machines that run tests are slow;
/// no test that passes waits it out.
pub const PATIENCE: Duration = Duration::from_secs(45);

/// A port nobody listens on now. The system hands out others for a while, so races are rare.
pub fn free_port() -> u16 {
    // Not given out twice: the system may name one again before whoever asked first has bound it.
    static GIVEN: std::sync::Mutex<std::collections::BTreeSet<u16>> =
        std::sync::Mutex::new(std::collections::BTreeSet::new());
    let mut given = GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        let bound = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = bound.expect("the system has a free port").port();
        if given.insert(port) {
            return port;
        }
    }
}
