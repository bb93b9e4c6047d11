//! Lines of the error log, and the clock.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_telemetry::error_log::{self, Level};
use wasmtime::Linker;

use super::{
    abi::{ENV, Host, Outcome, Status, code},
    memory,
};
use crate::runtime::state::State;

/// `proxy_log_level_t`
const LEVELS: [Level; 6] =
    [Level::Debug, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Critical];

pub(super) fn install(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.func_wrap(ENV, "proxy_log", |host: Host<'_>, level: u32, at: u32, length: u32| {
        code(log(&host, level, at, length))
    })?;
    linker.func_wrap(ENV, "proxy_get_log_level", |mut host: Host<'_>, to: u32| {
        let lowest = (0_u32..).zip(LEVELS).skip(1).find(|(_, level)| error_log::enabled(*level));
        code(memory::write_number(&mut host, to, lowest.map_or(5, |(number, _)| number)))
    })?;
    linker.func_wrap(ENV, "proxy_get_current_time_nanoseconds", |mut host: Host<'_>, to: u32| {
        code(memory::write(&mut host, to, &unix_nanoseconds().to_le_bytes()))
    })?;
    Ok(())
}

fn log(host: &Host<'_>, level: u32, at: u32, length: u32) -> Outcome {
    let level = *LEVELS.get(level as usize).ok_or(Status::BadArgument)?;
    write_line(host, level, memory::read(host, at, length)?);
    Ok(())
}

/// A line of a plugin.
pub(super) fn write_line(host: &Host<'_>, level: Level, text: &[u8]) {
    if error_log::enabled(level) {
        let text = String::from_utf8_lossy(text);
        error_log::log(level, format_args!("wasm plugin {}: {}", host.data().plugin, text.trim_end()));
    }
}

pub(super) fn unix_nanoseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
