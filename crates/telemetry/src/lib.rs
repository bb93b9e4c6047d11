//! What the gateway reports to its operators: metrics, access log, error log.
//!
//! One rule shapes all three: **a request never waits for an observer.** Workers write to memory only they
//! write to; other threads render it, or carry it to disk, and when those fall behind, lines are dropped and
//! counted. Nothing here takes a lock that a worker takes too.
//!
//! Not here: trace export, and the choice of what to measure (the `prometheus` plugin makes it).

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod access_log;
pub mod background;
pub mod clock;
pub mod error_log;
pub mod escape;
pub mod handshakes;
pub mod limiter;
pub mod log_writer;
pub mod metrics;
pub mod stats;
