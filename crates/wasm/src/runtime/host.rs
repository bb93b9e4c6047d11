//! The functions that a module may call. Each answers a status of the interface, and ends the callback only where the module
//! cannot go on.

mod buffers;
mod fields;
mod http;
mod log;
mod memory;
mod property;
mod shared;
mod stream;
mod wasi;

use std::{fmt, time::Duration};

use wasmtime::{Caller, ExternType, Linker, Module, Store, Val};

use super::{room::Room, state::State};

pub(super) use fields::count_of_call;

/// A module that calls.
pub(super) type Host<'a> = Caller<'a, State>;

/// `proxy_status_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    NotFound = 1,
    BadArgument = 2,
    ParseFailure = 4,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    InternalFailure = 10,
    Unimplemented = 12,
}

const OK: u32 = 0;

/// Why a function does not answer OK.
pub(super) enum Fail {
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

pub(super) type Outcome<T = ()> = Result<T, Fail>;

/// What the module gets.
fn code(outcome: Outcome) -> wasmtime::Result<u32> {
    match outcome {
        Ok(()) => Ok(OK),
        Err(Fail::Status(status)) => Ok(status as u32),
        Err(Fail::Trap(error)) => Err(error),
    }
}

/// `proc_exit`, with its code.
#[derive(Debug)]
pub(super) struct Exit(pub u32);

impl fmt::Display for Exit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the module has ended itself with exit code {}", self.0)
    }
}

impl std::error::Error for Exit {}

/// The name of the interface's functions as a module imports them.
const ENV: &str = "env";

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    log::install(linker)?;
    fields::install(linker)?;
    buffers::install(linker)?;
    stream::install(linker)?;
    http::install(linker)?;
    property::install(linker)?;
    shared::install(linker)?;
    wasi::install(linker)
}

/// `ENOSYS` of WASI.
const NOT_SUPPORTED: i32 = 52;

/// Functions of the interface and of WASI that are not offered answer so. Others are an error.
pub(super) fn install_absent(linker: &mut Linker<State>, module: &Module) -> Result<(), String> {
    let mut unknown = Vec::new();
    let mut store = Store::new(module.engine(), State::new("", Room::new(0, 0), Duration::ZERO));
    for import in module.imports() {
        let (space, name) = (import.module(), import.name());
        if linker.get_by_import(&mut store, &import).is_some() {
            continue;
        }
        let answer = match space {
            wasi::SPACE | wasi::OLD_SPACE => NOT_SUPPORTED,
            ENV if name.starts_with("proxy_") => Status::Unimplemented as i32,
            _ => {
                unknown.push(format!("{space}.{name}"));
                continue;
            }
        };
        let ExternType::Func(kind) = import.ty() else {
            unknown.push(format!("{space}.{name}"));
            continue;
        };
        let defined = linker.func_new(space, name, kind, move |_, _, results| {
            results.iter_mut().for_each(|result| *result = Val::I32(answer));
            Ok(())
        });
        defined.map_err(|error| format!("{error:#}"))?;
    }
    match unknown.is_empty() {
        true => Ok(()),
        false => Err(format!("it imports what is not offered: {}", unknown.join(", "))),
    }
}
