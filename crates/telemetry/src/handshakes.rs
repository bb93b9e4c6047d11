//! Refused TLS handshakes in the error log.

use std::{fmt, io};

use crate::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// Ten lines in ten seconds, so that a port scan cannot fill the disk.
static LIMITER: Limiter = Limiter::new(10, 10_000);

/// Where a handshake was refused, as far as it got.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refused<'a> {
    /// Address and port.
    pub client: &'a str,
    /// The requested server name, or empty.
    pub server_name: &'a str,
    /// Which certificate was chosen: the id of an `ssl` object, or empty.
    pub ssl: &'a str,
    /// Whose port it was, when not that of the proxy.
    pub port: &'a str,
}

impl Refused<'_> {
    /// A client that just left is logged at level info; anything else is a warning with its reason.
    pub fn log(&self, error: &io::Error, reason: &str) {
        let gone = matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::TimedOut
        );
        if gone {
            return error_log::log(Level::Info, format_args!("TLS handshake failed: {reason}{self}"));
        }
        if !error_log::enabled(Level::Warn) {
            return;
        }
        match LIMITER.pass() {
            None => {}
            Some(0) => error_log::log(Level::Warn, format_args!("TLS handshake failed: {reason}{self}")),
            Some(more) => error_log::log(
                Level::Warn,
                format_args!("TLS handshake failed: {reason}{self} ({more} more were not logged)"),
            ),
        }
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("port", self.port),
            ("client", self.client),
            ("server name", self.server_name),
            ("ssl", self.ssl),
        ];
        parts
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .try_for_each(|(name, value)| write!(formatter, ", {name}: {value}"))
    }
}
