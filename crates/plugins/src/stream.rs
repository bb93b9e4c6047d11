//! The plugins of stream routes. They have names of plugins for HTTP, and schemas of their own.

pub(crate) mod ip_restriction;
pub(crate) mod limit_conn;
pub(crate) mod mqtt_proxy;
pub(crate) mod prometheus;
pub(crate) mod syslog;
pub(crate) mod traffic_split;
pub(crate) mod xrpc;
