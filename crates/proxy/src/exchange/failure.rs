//! Why an attempt failed, and how that is reported to the client and to the operator.

use std::{io, net::SocketAddr};

use tidegate_plugin_api::{BodyError, outcome::Attempt};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

const SPEAKS_TLS: &str = "speaks TLS, not plain HTTP; set the upstream's scheme to https or grpcs";

const SPEAKS_PLAIN: &str = "speaks plain HTTP, not TLS";

/// Why an attempt failed.
pub(crate) struct Failure {
    pub kind: FailureKind,
    /// Bytes of the request have gone out.
    pub(crate) request_sent: bool,
    /// Body bytes are gone: they cannot be sent again.
    pub(crate) body_consumed: bool,
}

pub(crate) enum FailureKind {
    Unresolved,
    Connect(io::Error),
    ConnectTimeout,
    /// Other requests hold all permitted connections.
    NoStream,
    Send(io::Error),
    SendTimeout,
    Read(io::Error),
    ReadTimeout,
    /// Closed without an answer.
    Closed,
    Malformed(&'static str),
    /// The answer to plain HTTP was a TLS record.
    SpeaksTls(SocketAddr),
    Client(BodyError),
}

impl FailureKind {
    /// Once the answer has begun, a failure to send the request counts only where it is the client's fault: the upstream may
    /// answer without having read all.
    pub(crate) fn refuses(sent: Result<(), FailureKind>) -> Result<(), BodyError> {
        match sent {
            Err(FailureKind::Client(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// For `$upstream_status`.
    pub(crate) fn attempt_status(&self) -> u16 {
        match self {
            FailureKind::ConnectTimeout
            | FailureKind::NoStream
            | FailureKind::SendTimeout
            | FailureKind::ReadTimeout => 504,
            FailureKind::Client(BodyError::Closed) => Attempt::ABANDONED,
            _ => 502,
        }
    }
}

impl Failure {
    pub(crate) fn is_client(&self) -> bool {
        matches!(self.kind, FailureKind::Client(_))
    }

    pub(crate) fn timed_out(&self) -> bool {
        matches!(self.kind, FailureKind::ConnectTimeout | FailureKind::SendTimeout | FailureKind::ReadTimeout)
    }

    pub(crate) fn status(&self) -> u16 {
        match &self.kind {
            FailureKind::Client(error) => error.status(),
            _ if self.timed_out() || matches!(self.kind, FailureKind::NoStream) => 504,
            // No node was tried: none is available.
            FailureKind::Unresolved => 503,
            _ => 502,
        }
    }

    pub(crate) fn reason(&self) -> String {
        match &self.kind {
            FailureKind::Unresolved => "upstream host could not be resolved".to_owned(),
            FailureKind::Connect(error) => {
                format!("connect to upstream failed: {error}{}", remedy(error))
            }
            FailureKind::ConnectTimeout => "upstream timed out while connecting".to_owned(),
            FailureKind::NoStream => "no HTTP/2 stream to the upstream became free".to_owned(),
            FailureKind::Send(error) => format!("sending to upstream failed: {error}"),
            FailureKind::SendTimeout => "upstream timed out while sending".to_owned(),
            FailureKind::Read(error) => format!("reading from upstream failed: {error}"),
            FailureKind::ReadTimeout => "upstream timed out while reading response header".to_owned(),
            FailureKind::Closed => {
                "upstream prematurely closed connection while reading response header".to_owned()
            }
            FailureKind::Malformed(reason) => (*reason).to_owned(),
            FailureKind::SpeaksTls(server) => format!("the server at {server} {SPEAKS_TLS}"),
            FailureKind::Client(_) => "client failed to send its body".to_owned(),
        }
    }

    /// An idle connection that the upstream closed in the same moment: worth a fresh one.
    pub(crate) fn was_stale(&self) -> bool {
        match &self.kind {
            FailureKind::Send(_) | FailureKind::Closed => true,
            FailureKind::Read(error) => error.kind() == io::ErrorKind::ConnectionReset,
            _ => false,
        }
    }
}

/// The end of a message about a connection that could not be made.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "; nothing listens there: start the server, or correct the port in the upstream's nodes"
        }
        // As crate `tls` explains it.
        _ if error.to_string().ends_with(SPEAKS_PLAIN) => "; set the upstream's scheme to http or grpc",
        _ => "",
    }
}

/// The client reads the server's message; this one is for the operator.
pub(crate) fn warn_of_tls(server: SocketAddr) {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    if LIMITER.pass().is_some() {
        error_log::log(Level::Warn, format_args!("the server at {server} {SPEAKS_TLS}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_with_what_to_do() {
        let reason = |error| {
            Failure { kind: FailureKind::Connect(error), request_sent: false, body_consumed: false }.reason()
        };
        assert!(reason(io::ErrorKind::ConnectionRefused.into()).contains("start the server"));
        let other = io::Error::other("handshake failed");
        let plain = tidegate_tls::explain(&other, "the server at 192.0.2.1:80", b"HTTP/");
        assert!(reason(plain).ends_with("set the upstream's scheme to http or grpc"));
        assert_eq!(reason(other), "connect to upstream failed: handshake failed");
    }
}
