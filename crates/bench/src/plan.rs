//! What a run does: filled by the command line or by a suite, checked once before the first connection.

pub mod options;
pub mod stages;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    Problem,
    request::{Http1, RequestSpec},
    target::Origin,
};

pub(crate) use options::Acknowledgements;
pub use options::{Arrivals, Options};

pub(crate) const MAX_PIPELINE: usize = 1024;

/// What a run does; see [`Plan::check`] for what excludes what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub origin: Origin,
    /// Connections use them in turn.
    pub addresses: Vec<SocketAddr>,
    /// Sent in turn.
    pub requests: Vec<RequestSpec>,
    /// Open at a time, at least 1.
    pub connections: usize,
    /// At most as many as connections.
    pub threads: usize,
    /// `None`: until all requests are answered.
    pub duration: Option<Duration>,
    /// Requests in all; whichever of this and `duration` comes first ends the run.
    pub count: Option<u64>,
    /// Requests per second, sent whether or not earlier ones are answered (open model).
    pub rate: Option<f64>,
    /// HTTP/1 or HTTP/2.
    pub protocol: Protocol,
    /// Requests on the way at once on one connection.
    pub pipeline: usize,
    /// A request or a connect that takes longer has failed.
    pub timeout: Duration,
    /// For https, and only then.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Statuses that count as success beside 2xx and 3xx.
    pub accepted_statuses: Vec<u16>,
    /// What most runs leave at its default.
    pub options: Options,
}

/// What is spoken to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 or HTTP/1.1.
    Http1(Http1),
    /// HTTP/2, with prior knowledge where there is no TLS.
    Http2,
}

impl Protocol {
    /// For reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1(Http1 { version_10: true, .. }) => "HTTP/1.0",
            Protocol::Http1(_) => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
    }

    /// Whether connections are used again.
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
        if self.timeout.is_zero() {
            return refuse("--timeout must be more than 0".into());
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
        if self.options.arrivals != Arrivals::Uniform && self.rate.is_none() {
            return refuse("--arrivals says when requests of a rate are due; give -R or --stages".into());
        }
        if self.options.echo.is_some() && self.protocol == Protocol::Http2 {
            return refuse(
                "--websocket speaks HTTP/1.1 only: over HTTP/2 it needs extended CONNECT (RFC 8441); leave out --http2"
                    .into(),
            );
        }
        if let Some(path) = &self.options.unix {
            let speaks_tls = self.protocol != Protocol::Http2 && !self.options.lasting();
            if self.origin.tls && !speaks_tls {
                return refuse(
                    "--http2, --grpc, --sse, --websocket, --follow and --cookies over --unix are without TLS; give an http:// URL"
                        .into(),
                );
            }
            if let Err(error) = rustix::net::SocketAddrUnix::new(path.as_path()) {
                let error = std::io::Error::from(error);
                return refuse(format!("--unix {}: {error}; it is not a valid socket path", path.display()));
            }
        }
        if self.origin.tls != self.tls.is_some() {
            return refuse("an https:// target needs TLS settings, and only that".into());
        }
        Ok(())
    }

    pub(crate) fn protocol_name(&self) -> &'static str {
        match &self.options {
            Options { grpc: Some(_), .. } => "gRPC over HTTP/2",
            Options { echo: Some(_), .. } => "WebSocket",
            _ => self.protocol.name(),
        }
    }

    /// The request in this place of the endless order.
    pub(crate) fn request_at(&self, place: usize) -> usize {
        options::request_at(&self.options.order, place, self.requests.len())
    }

    /// The open model in words, where it is more than a rate.
    pub fn schedule(&self) -> Option<String> {
        let poisson = self.options.arrivals == Arrivals::Poisson;
        let rate = match (self.options.stages.as_slice(), self.rate) {
            ([], Some(rate)) if poisson => format!("{rate} requests/s"),
            ([], _) => return None,
            (stages, _) => {
                let each: Vec<String> =
                    stages.iter().map(|stage| format!("{:?}:{}", stage.length, stage.rate)).collect();
                format!("stages {}", each.join(","))
            }
        };
        Some(format!("{rate}{}", if poisson { ", Poisson arrivals" } else { "" }))
    }

    /// Whether connections are opened and used once before the clock starts.
    pub(crate) fn warms_up(&self) -> bool {
        self.options.warm_up && self.rate.is_some() && self.protocol.keep_alive() && !self.options.lasting()
    }

    pub(crate) fn has_bodies(&self) -> bool {
        self.requests.iter().any(|request| request.body.is_some())
    }

    pub(crate) fn accepts(&self, status: u16) -> bool {
        let switched = status == 101 && self.options.echo.is_some();
        switched || (200..400).contains(&status) || self.accepted_statuses.contains(&status)
    }
}
