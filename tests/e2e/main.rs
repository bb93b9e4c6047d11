//! Black-box tests: the built binary as a process, raw sockets on both sides. One test binary.
//!
//! The request tables ([`valid`], [`malformed`], [`smuggling`], [`chunks`], [`limits`]) go through
//! [`case::check`]; what needs a conversation is in [`connections`] and [`responses`]. [`tidy`] reads the
//! sources instead of running anything.

mod case;
mod chunks;
mod connections;
mod etcd;
mod first_run;
mod fuzz_replay;
mod limits;
mod malformed;
mod nginx;
mod quota;
mod responses;
mod smuggling;
mod tidy;
mod tls;
mod valid;
