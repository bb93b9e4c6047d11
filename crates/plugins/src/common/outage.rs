//! One line in the error log when the Redis of a limiting plugin goes away, and one when it is back.

use std::{
    fmt::Arguments,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use tidegate_plugin_api::Request;
use tidegate_telemetry::error_log::{self, Level};

use super::limit_key::on_route;

/// Of one plugin of one resource. Redis is away when its last use failed.
#[derive(Default)]
pub struct Outage(AtomicBool);

impl Outage {
    /// Logs `line` unless the use before failed too.
    pub fn failed(&self, line: Arguments<'_>) {
        if !self.0.swap(true, Relaxed) {
            error_log::log(Level::Error, line);
        }
    }

    pub fn passed(&self, plugin: &str, request: &Request) {
        if self.0.load(Relaxed) && self.0.swap(false, Relaxed) {
            let route = on_route(request);
            error_log::log(Level::Warn, format_args!("{plugin}: Redis answers again{route}"));
        }
    }
}
