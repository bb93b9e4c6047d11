//! Protocols on top of TCP (APISIX's xRPC): what is a call, which one waits, and how long it took.

pub(crate) mod dubbo;
pub(crate) mod redis;
