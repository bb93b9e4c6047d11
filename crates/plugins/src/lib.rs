//! The plugins, one file each. `registry` lists them; what several of them need is in `common`.

#![forbid(unsafe_code)]

pub mod common;
pub mod registry;

mod key_auth;
mod limit_count;
mod mocking;
mod prometheus;
