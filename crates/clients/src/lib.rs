//! Clients of services that are not upstreams: what plugins, registries, probes and the command line speak to.
//!
//! Each bounds what its service may send and how long it may take. What a request waits for runs on its worker; the rest
//! runs on the control runtime. Requests to upstreams are not here but in crate `proxy`.

#![forbid(unsafe_code)]

pub mod batch;
pub mod http;
pub mod jws;
pub mod jws_sign;
pub mod nginx_base64;
mod paced;
#[cfg_attr(not(feature = "redis"), path = "redis/absent.rs")]
pub mod redis;
pub mod secrets;
pub mod socket;
pub mod verbatim;
