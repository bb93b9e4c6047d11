//! The request path: workers, connections, and the path of a request from its first byte to its log line.
//!
//! Start reading at [`request`]: it is the table of contents. A worker is one thread with its own runtime, listeners,
//! upstream connections, buffers and timers; workers share nothing but the [`tidegate_plugin_api::Snapshot`] they read and the
//! counters they own. Configuration reaches them through [`publish::Publisher`].
//!
//! Deliberately absent: anything that reads a file, a store or JSON. [`port_owner`] looks into /proc, before a start fails.

mod accept_balance;
pub mod admission;
mod answer;
#[cfg(debug_assertions)]
mod audit;
pub mod balancer;
pub mod buffer;
pub mod claims;
mod clean_trailers;
mod client;
pub mod client_address;
pub mod connection;
mod crew;
pub mod exchange;
pub mod explain;
#[cfg(debug_assertions)]
mod fault;
mod field_line;
pub mod filters;
pub mod finish;
pub mod gather;
pub mod handshake;
pub mod handshake_room;
mod http1;
pub mod http2;
pub mod internal;
mod linger;
pub mod listeners;
pub mod matching;
pub mod pace;
mod peak;
mod persistence;
pub mod phases;
pub mod pool;
pub mod port_owner;
pub mod progress;
pub mod proxy_protocol;
pub mod publish;
pub mod read_ahead;
pub mod refusal;
pub mod request;
pub mod respond;
mod route;
pub mod runtime;
mod schedule;
pub mod settings;
pub(crate) mod slow_lane;
pub mod stall;
pub mod stats;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod timers;
pub mod tunnel;
mod upstream_head;
pub(crate) mod watchdog;
pub mod worker;
pub mod workers;

pub use internal::{Internal, InternalCall, InternalFuture, InternalHead, InternalResponse};
pub use listeners::Listeners;
pub use publish::Publisher;
pub use settings::Settings;
pub use workers::{Workers, start};
