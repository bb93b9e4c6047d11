//! What a run does: filled by the command line or by a suite, checked once before the first connection.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    Problem,
    request::{Http1, RequestSpec},
    target::Origin,
};

pub const MAX_PIPELINE: usize = 1024;

#[derive(Clone, Debug)]
pub struct Plan {
    pub origin: Origin,
    /// Connections use them in turn.
    pub addresses: Vec<SocketAddr>,
    /// Sent in turn.
    pub requests: Vec<RequestSpec>,
    pub connections: usize,
    pub threads: usize,
    pub duration: Option<Duration>,
    /// Requests in all; whichever of this and `duration` comes first ends the run.
    pub count: Option<u64>,
    /// Requests per second, sent whether or not earlier ones are answered (open model).
    pub rate: Option<f64>,
    pub protocol: Protocol,
    /// Requests on the way at once on one connection.
    pub pipeline: usize,
    /// A request or a connect that takes longer has failed.
    pub timeout: Duration,
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Statuses that count as success beside 2xx and 3xx.
    pub accepted_statuses: Vec<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1(Http1),
    Http2,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1(Http1 { version_10: true, .. }) => "HTTP/1.0",
            Protocol::Http1(_) => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
    }

    pub fn keep_alive(self) -> bool {
        match self {
            Protocol::Http1(form) => form.keep_alive,
            Protocol::Http2 => true,
        }
    }
}

impl Plan {
    /// Refuses what cannot be done; the engine relies on it.
    pub fn check(&self) -> Result<(), Problem> {
        let refuse = |text: String| Err(Problem::usage(text));
        if self.connections == 0 || self.threads == 0 {
            return refuse("-c and -t must be at least 1".into());
        }
        if self.threads > self.connections {
            return refuse(format!(
                "-t {} is more threads than connections; give -c {} or more",
                self.threads, self.threads
            ));
        }
        if self.requests.is_empty() {
            return refuse("nothing to ask for; give a URL or a file of URLs".into());
        }
        if self.duration.is_none() && self.count.is_none() {
            return refuse("a run needs an end; give -d or -n".into());
        }
        if self.count == Some(0) || self.duration.is_some_and(|duration| duration.is_zero()) {
            return refuse("-n and -d must be more than 0".into());
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
            return refuse("-R must be a number of requests per second above 0".into());
        }
        if self.pipeline == 0 || self.pipeline > MAX_PIPELINE {
            return refuse(format!("--pipeline must be from 1 to {MAX_PIPELINE}"));
        }
        if self.pipeline > 1 && !self.protocol.keep_alive() {
            return refuse("--pipeline needs connections that are kept; leave out --no-keepalive".into());
        }
        if self.pipeline > 1 && self.rate.is_some() && self.protocol != Protocol::Http2 {
            return refuse(
                "--pipeline and -R exclude each other: a queue on a connection would be measured".into(),
            );
        }
        if self.origin.tls != self.tls.is_some() {
            return refuse("an https:// target needs TLS settings, and only that".into());
        }
        Ok(())
    }

    pub fn has_bodies(&self) -> bool {
        self.requests.iter().any(|request| request.body.is_some())
    }

    pub fn accepts(&self, status: u16) -> bool {
        (200..400).contains(&status) || self.accepted_statuses.contains(&status)
    }
}
