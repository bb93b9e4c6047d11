//! config.yaml: how the process itself is set up.

#![forbid(unsafe_code)]

pub mod environment;
pub mod yaml;
