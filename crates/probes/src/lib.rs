//! Background work that serves upstreams and certificates: health probes, name resolution, revocation (OCSP).
//!
//! It runs on the control runtime, never on a worker. Requests only read what it leaves behind: the health of an
//! [`tidegate_balancing::Upstream`] and the addresses of its nodes.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod dns;
pub mod health;
pub mod ocsp;

pub use dns::{
    Domains, Lookup, LookupError, MOST_ADDRESSES, ResolvedName, SystemLookup, SystemLookupOptions,
};
pub use health::{Monitor, Monitored, ProbeTls, probe};
