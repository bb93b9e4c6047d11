//! Clients of services that are not upstreams, for plugins, registries, probes and the command line.
//!
//! Each bounds how much its service may send and how long it may take. Calls that a request waits for run on its worker;
//! the rest run on the control runtime. Requests to upstreams are not here but in crate `proxy`.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod batch;
pub mod google;
pub mod http;
pub mod jws;
pub mod jws_sign;
pub mod names;
pub mod nginx_base64;
mod paced;
pub mod public_jwk;
#[cfg_attr(not(feature = "redis"), path = "redis/absent.rs")]
pub mod redis;
pub mod rsa_size;
pub mod secrets;
pub mod sigv4;
pub mod socket;
pub mod verbatim;
