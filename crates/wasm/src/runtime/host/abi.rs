//! What functions of the interface have in common: who calls, and what is answered.

use std::fmt;

use wasmtime::Caller;

use crate::runtime::state::State;

/// A module that calls.
pub(in crate::runtime) type Host<'a> = Caller<'a, State>;

/// `proxy_status_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Status {
    NotFound = 1,
    BadArgument = 2,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

const OK: u32 = 0;

/// Why a function does not answer OK.
pub(in crate::runtime) enum Fail {
    Status(Status),
    /// The callback ends.
    Trap(wasmtime::Error),
}

impl From<Status> for Fail {
    fn from(status: Status) -> Fail {
        Fail::Status(status)
    }
}

impl From<wasmtime::Error> for Fail {
    fn from(error: wasmtime::Error) -> Fail {
        Fail::Trap(error)
    }
}

pub(in crate::runtime) type Outcome<T = ()> = Result<T, Fail>;

/// What the module gets.
pub(super) fn code(outcome: Outcome) -> wasmtime::Result<u32> {
    match outcome {
        Ok(()) => Ok(OK),
        Err(Fail::Status(status)) => Ok(status as u32),
        Err(Fail::Trap(error)) => Err(error),
    }
}

/// `proc_exit`, with its code.
#[derive(Debug)]
pub(in crate::runtime) struct Exit(pub u32);

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the module has ended itself with exit code {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// The name of the interface's functions as a module imports them.
pub(super) const ENV: &str = "env";
