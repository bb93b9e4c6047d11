//! The ways in which a request gets no answer.

use rustix::io::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    Connect,
    ConnectTimeout,
    Tls,
    /// Closed or reset before the whole answer was there.
    Closed,
    Timeout,
    Malformed,
    Write,
    /// Calls with another `grpc-status` than 0; reported by their codes.
    Grpc,
    /// They do not end.
    Redirects,
}

impl Failure {
    pub const COUNT: usize = 9;
    pub const ALL: [Failure; Failure::COUNT] = [
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

    pub fn name(self) -> &'static str {
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
    pub failure: Failure,
    pub message: String,
}

impl Broken {
    pub fn new(failure: Failure, message: impl Into<String>) -> Broken {
        Broken { failure, message: message.into() }
    }

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

pub fn malformed(why: &str) -> Broken {
    Broken::new(Failure::Malformed, format!("malformed: {why}"))
}
