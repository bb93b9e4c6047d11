//! `ngx.log` and `core.log` write to the error log.

use mlua::{Lua, LuaString, Table, Value, Variadic};
use telemetry::error_log::{self, Level};

use crate::common::number;

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

pub fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native
        .set("log_enabled", lua.create_function(|_, number: i64| Ok(error_log::enabled(level(number))))?)?;
    native.set(
        "log",
        lua.create_function(|lua, (number, values): (i64, Variadic<Value>)| {
            let level = level(number);
            if !error_log::enabled(level) {
                return Ok(());
            }
            let mut message = String::new();
            for value in values.iter() {
                message.push_str(&text(value)?);
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

/// As Lua's `tostring`, with its metamethod.
fn text(value: &Value) -> mlua::Result<String> {
    match value {
        Value::Nil => Ok("nil".to_owned()),
        Value::Boolean(value) => Ok(value.to_string()),
        Value::Integer(value) => Ok(value.to_string()),
        Value::Number(value) => Ok(number::lua(*value)),
        Value::String(text) => Ok(text.to_string_lossy()),
        Value::LightUserData(_) => Ok("null".to_owned()),
        Value::Table(table) => match table.metatable().map(|meta| meta.raw_get::<Value>("__tostring")) {
            Some(Ok(Value::Function(function))) => {
                function.call::<LuaString>(table).map(|text| text.to_string_lossy())
            }
            _ => Ok(format!("table: {:p}", table.to_pointer())),
        },
        other => Ok(format!("{}: {:p}", other.type_name(), other.to_pointer())),
    }
}
