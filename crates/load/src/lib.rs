//! `tidegate bench`: a load generator that says why a tail is there.
//!
//! [`plan`] says what to send, [`engine`] sends it (a thread per core, each with its own sockets and `epoll`, no
//! allocation per request), [`outcome`] holds what was seen, [`diagnosis`] names causes, [`report`] prints.
//!
//! Deliberately absent: proxies, cookies, redirects, decoding of contents. They measure the client.

#![forbid(unsafe_code)]

pub mod diagnosis;
pub mod doctor;
pub mod engine;
pub mod flame;
pub mod hold;
pub mod interrupt;
pub mod outcome;
pub mod plan;
pub mod preflight;
pub mod probe;
mod problem;
pub mod report;
pub mod request;
pub mod suite;
pub mod system;
pub mod target;
pub mod template;
pub mod tls;

pub use outcome::Outcome;
pub use plan::{Plan, Protocol};
pub use problem::{Kind, Problem};
