//! The request path: workers, connections, and the path of a request from its first byte to its log line.
//!
//! Start reading at [`request`]: it is the table of contents. A worker is one thread with its own runtime, listeners,
//! upstream connections, buffers and timers; workers share nothing but the [`tidegate_plugin_api::Snapshot`] they read and the
//! counters they own. Configuration reaches them through [`publish::Publisher`].
//!
//! Deliberately absent: anything that reads a file, a store or JSON. [`port_owner`] looks into /proc, before a start fails.

#![deny(missing_docs)]

mod accept_balance;
pub mod admission;
mod answer;
mod asking;
mod balancer;
mod boxed;
mod buffer;
mod claims;
mod clean_trailers;
mod client;
mod client_address;
mod connection;
mod crew;
mod dial;
mod exchange;
pub mod explain;
#[cfg(debug_assertions)]
mod explain_check;
#[cfg(debug_assertions)]
mod fault;
mod field_line;
mod filters;
mod finish;
mod gather;
mod handshake;
pub mod handshake_room;
mod http1;
mod http2;
mod internal;
mod layer4;
mod linger;
pub mod listeners;
mod matching;
mod open;
pub mod pace;
pub mod page;
mod peak;
mod persistence;
mod phases;
mod plain;
mod pool;
pub mod port_owner;
mod prefetch;
mod progress;
mod proxy_protocol;
mod publish;
mod pubsub;
pub mod read_ahead;
mod refusal;
mod relay;
mod request;
mod respond;
mod route;
mod runtime;
mod schedule;
pub mod sessions;
pub mod settings;
mod slow_lane;
mod stall;
pub mod stats;
mod stream;
#[cfg(test)]
mod tests;
mod timers;
pub mod traffic;
mod tunnel;
mod turns;
mod upstream_head;
mod watchdog;
mod worker;
pub mod workers;

pub use internal::{Internal, InternalCall, InternalFuture, InternalHead, InternalResponse};
pub use listeners::Listeners;
pub use publish::Publisher;
pub use settings::Settings;
pub use worker::ask_for_short_slices;
pub use workers::{Workers, start};
