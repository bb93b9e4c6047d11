//! The ways in which a request gets no answer.

use rustix::io::Errno;

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused or reset.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The TLS handshake failed.
    Tls,
    /// Closed or reset before the whole answer was there.
    Closed,
    /// No response in time.
    Timeout,
    /// The response is not valid.
    Malformed,
    /// Sending failed.
    Write,
    /// Calls with another `grpc-status` than 0; reported by their codes.
    Grpc,
    /// They do not end.
    Redirects,
}

impl Failure {
    pub(crate) const COUNT: usize = 9;
    pub(crate) const ALL: [Failure; Failure::COUNT] = [
        Failure::Connect,
        Failure::ConnectTimeout,
        Failure::Tls,
        Failure::Closed,
        Failure::Timeout,
        Failure::Malformed,
        Failure::Write,
        Failure::Grpc,
        Failure::Redirects,
    ];

    /// For reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::Connect => "connect",
            Failure::ConnectTimeout => "connect timeout",
            Failure::Tls => "tls",
            Failure::Closed => "closed early",
            Failure::Timeout => "timeout",
            Failure::Malformed => "malformed",
            Failure::Write => "write",
            Failure::Grpc => "grpc-status",
            Failure::Redirects => "redirects",
        }
    }
}

/// A failure of one connection with its words.
#[derive(Debug)]
pub struct Broken {
    pub(crate) failure: Failure,
    /// What happened, in the words of the system or the protocol.
    pub message: String,
}

impl Broken {
    /// A failure and its text.
    pub fn new(failure: Failure, message: impl Into<String>) -> Broken {
        Broken { failure, message: message.into() }
    }

    /// A failure with the system's error.
    pub fn system(failure: Failure, error: Errno) -> Broken {
        let error = std::io::Error::from(error);
        Broken::new(failure, format!("{}: {}", failure.name(), plain(&error)))
    }
}

/// The system's words without Rust's ` (os error 111)`.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

pub(crate) fn malformed(why: &str) -> Broken {
    Broken::new(Failure::Malformed, format!("malformed: {why}"))
}
