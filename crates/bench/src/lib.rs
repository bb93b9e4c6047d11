//! `tidegate bench`: a load generator that says why a tail is there.
//!
//! [`plan`] says what to send, [`engine`] sends it (a thread per core, each with its own sockets and `epoll`, no
//! allocation per request), [`outcome`] holds what was seen, [`diagnosis`] names causes, [`condition`] judges,
//! [`report`] prints.
//!
//! Deliberately absent: proxies, decoding of contents. They measure the client.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod condition;
pub mod control;
pub mod diagnosis;
pub mod doctor;
pub mod engine;
pub mod flame;
pub mod grpc;
pub mod hold;
pub mod interrupt;
pub mod outcome;
pub mod plan;
pub mod preflight;
pub mod probe;
mod problem;
pub mod reach;
pub mod report;
pub mod request;
pub mod selftest;
pub mod suite;
pub mod system;
pub mod target;
pub mod template;
pub mod tls;
pub mod websocket;

pub use outcome::Outcome;
pub use plan::{Plan, Protocol};
pub use problem::{Kind, Problem};
