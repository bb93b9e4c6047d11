//! `ngx.log` and `core.log` write to the error log.

use mlua::{Lua, Table, Value, Variadic};
use tidegate_telemetry::error_log::{self, Level};

use super::native::native_function;
use crate::{common::number, lua::chunk};

/// The log cuts its lines; no more than that is put together.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// nginx's numbers: 1 is the gravest.
fn level(number: i64) -> Level {
    match number {
        ..=1 => Level::Emergency,
        2 => Level::Alert,
        3 => Level::Critical,
        4 => Level::Error,
        5 => Level::Warn,
        6 => Level::Notice,
        7 => Level::Info,
        _ => Level::Debug,
    }
}

pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native
        .set("log_enabled", native_function(lua, |_, number: i64| Ok(error_log::enabled(level(number))))?)?;
    native.set(
        "log",
        native_function(lua, |lua, (number, values): (i64, Variadic<Value>)| {
            let level = level(number);
            if !error_log::enabled(level) {
                return Ok(());
            }
            let mut message = String::new();
            for value in values.iter() {
                message.push_str(&text(value));
                if message.len() > MAX_MESSAGE_BYTES {
                    break;
                }
            }
            let place = lua.inspect_stack(1, |debug| {
                let source = debug.source().short_src.map(|source| source.into_owned()).unwrap_or_default();
                format!("{source}:{}", debug.current_line().unwrap_or(0))
            });
            let place = place.unwrap_or_default();
            error_log::log(level, format_args!("[lua] {place}: {message}"));
            Ok(())
        })?,
    )
}

/// As Lua's `tostring`; the prelude has called `__tostring` where there is one.
fn text(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Number(value) => number::lua(*value),
        Value::String(text) => {
            let bytes = text.as_bytes();
            String::from_utf8_lossy(bytes.get(..MAX_MESSAGE_BYTES).unwrap_or(&bytes)).into_owned()
        }
        Value::LightUserData(_) => "null".to_owned(),
        Value::Error(error) => chunk::message(error),
        other => format!("{}: {:p}", other.type_name(), other.to_pointer()),
    }
}
