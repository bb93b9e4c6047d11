//! The part of WASI preview 1 that programs need although they touch no system: output, clocks, random numbers. They have no
//! arguments, environment variables, files or sockets.

use tidegate_model::random::fill_secret;
use tidegate_telemetry::error_log::Level;
use wasmtime::Linker;

use super::{
    abi::{Exit, Fail, Host, Outcome},
    log, memory,
};
use crate::runtime::state::State;

pub(super) const SPACE: &str = "wasi_snapshot_preview1";
/// As older compilers name it.
pub(super) const OLD_SPACE: &str = "wasi_unstable";

const SUCCESS: u32 = 0;
const BAD_DESCRIPTOR: u32 = 8;
const FAULT: u32 = 21;
const INVALID: u32 = 28;
const NOT_SUPPORTED: u32 = 58;

/// Random bytes that are had at once.
const MAX_RANDOM: u32 = 64 << 10;
/// Parts of one output, and what a line may have.
const MAX_PARTS: u32 = 1024;
const MAX_LINE: usize = 8 << 10;

fn errno(outcome: Outcome) -> wasmtime::Result<u32> {
    match outcome {
        Ok(()) => Ok(SUCCESS),
        Err(Fail::Status(_)) => Ok(FAULT),
        Err(Fail::Trap(error)) => Err(error),
    }
}

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    [SPACE, OLD_SPACE].into_iter().try_for_each(|space| install_as(linker, space))
}

fn install_as(linker: &mut Linker<State>, space: &str) -> wasmtime::Result<()> {
    linker.func_wrap(space, "fd_write", |mut host: Host<'_>, fd: u32, parts: u32, count: u32, to: u32| {
        match fd {
            1 => errno(write(&mut host, Level::Info, parts, count, to)),
            2 => errno(write(&mut host, Level::Error, parts, count, to)),
            _ => Ok(BAD_DESCRIPTOR),
        }
    })?;
    linker.func_wrap(space, "clock_time_get", |mut host: Host<'_>, clock: u32, _: u64, to: u32| {
        let now = match clock {
            0 => log::unix_nanoseconds(),
            1 => u64::try_from(host.data().started.elapsed().as_nanos()).unwrap_or(u64::MAX) + 1,
            _ => return Ok(NOT_SUPPORTED),
        };
        errno(memory::write(&mut host, to, &now.to_le_bytes()))
    })?;
    linker.func_wrap(space, "clock_res_get", |mut host: Host<'_>, _: u32, to: u32| {
        errno(memory::write(&mut host, to, &1_u64.to_le_bytes()))
    })?;
    linker.func_wrap(space, "random_get", |mut host: Host<'_>, at: u32, length: u32| {
        if length > MAX_RANDOM {
            return Ok(INVALID);
        }
        let mut bytes = vec![0; length as usize];
        fill_secret(&mut bytes).map_err(wasmtime::Error::new)?;
        errno(memory::write(&mut host, at, &bytes))
    })?;
    // Neither variables nor arguments: the counts and sizes are 0.
    for (sizes, get) in [("environ_sizes_get", "environ_get"), ("args_sizes_get", "args_get")] {
        linker.func_wrap(space, sizes, |mut host: Host<'_>, count: u32, bytes: u32| {
            errno(
                memory::write_number(&mut host, count, 0)
                    .and_then(|()| memory::write_number(&mut host, bytes, 0)),
            )
        })?;
        linker.func_wrap(space, get, |_: Host<'_>, _: u32, _: u32| SUCCESS)?;
    }
    linker.func_wrap(space, "proc_exit", |_: Host<'_>, code: u32| -> wasmtime::Result<()> {
        Err(wasmtime::Error::new(Exit(code)))
    })?;
    linker.func_wrap(space, "sched_yield", |_: Host<'_>| SUCCESS)?;
    linker.func_wrap(
        space,
        "poll_oneoff",
        |mut host: Host<'_>, from: u32, events: u32, count: u32, to: u32| {
            errno(poll(&mut host, from, events, count, to))
        },
    )?;
    // Standard output and error are there, and nothing else: a program that looks for open folders finds their end.
    linker.func_wrap(space, "fd_fdstat_get", |mut host: Host<'_>, fd: u32, to: u32| match fd {
        0..=2 => {
            const CHARACTER_DEVICE: u8 = 2;
            let mut status = [0; 24];
            status[0] = CHARACTER_DEVICE;
            errno(memory::write(&mut host, to, &status))
        }
        _ => Ok(BAD_DESCRIPTOR),
    })?;
    linker.func_wrap(space, "fd_prestat_get", |_: Host<'_>, _: u32, _: u32| BAD_DESCRIPTOR)?;
    linker.func_wrap(space, "fd_close", |_: Host<'_>, _: u32| BAD_DESCRIPTOR)?;
    Ok(())
}

/// What is written is a line of the error log.
fn write(host: &mut Host<'_>, level: Level, parts: u32, count: u32, to: u32) -> Outcome {
    let mut line = Vec::new();
    let mut written: u32 = 0;
    for part in 0..count.min(MAX_PARTS) {
        let place = parts.saturating_add(part * 8);
        let (at, length) = (memory::number(host, place)?, memory::number(host, place.saturating_add(4))?);
        let bytes = memory::read(host, at, length)?;
        let room = MAX_LINE.saturating_sub(line.len());
        line.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        written = written.saturating_add(length);
    }
    if !line.trim_ascii().is_empty() {
        log::write_line(host, level, &line);
    }
    memory::write_number(host, to, written)
}

/// A program that would sleep goes on at once: a worker does not wait for it.
fn poll(host: &mut Host<'_>, from: u32, events: u32, count: u32, to: u32) -> Outcome {
    const SUBSCRIPTION_BYTES: u32 = 48;
    const EVENT_BYTES: u32 = 32;
    for number in 0..count.min(MAX_PARTS) {
        let place = from.saturating_add(number * SUBSCRIPTION_BYTES);
        let mut event = [0; EVENT_BYTES as usize];
        let subscription = memory::read(host, place, 9)?;
        // What the program knows it by, no error, and its kind.
        event[..8].copy_from_slice(&subscription[..8]);
        event[10] = subscription[8];
        memory::write(host, events.saturating_add(number * EVENT_BYTES), &event)?;
    }
    memory::write_number(host, to, count.min(MAX_PARTS))
}
