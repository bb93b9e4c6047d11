//! Why Redis gave no answer, with nginx's messages for the usual failures, which users know from their logs.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use thiserror::Error;

/// The failure of a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// The server, or the network before it, is silent.
    #[error("timeout")]
    TimedOut,
    /// Nothing listens there.
    #[error("connection refused")]
    NotListening,
    /// The server refused, or the connection broke: the message of the server or of the system.
    #[error("{0}")]
    Refused(String),
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Error {
        if error.is_timeout() {
            Error::TimedOut
        } else if error.is_connection_refusal() {
            Error::NotListening
        } else {
            Error::Refused(error.to_string())
        }
    }
}

/// An error, with its server.
#[derive(Clone, Debug, Error)]
#[error("{server}: {error}")]
pub struct Failure {
    /// The server as configured, without credentials.
    pub server: String,
    /// The failure of the command.
    pub error: Error,
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.to_string()
    }
}

/// After these another connection is worth a try; a demoted master answers READONLY.
pub(super) fn breaks_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.is_connection_dropped()
        || error.is_timeout()
        || matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}
