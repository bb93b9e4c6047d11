//! What Lua in configurations may call: nginx-lua's `ngx` and APISIX's `apisix.core`, as far as docs/guide/lua.md lists.
//!
//! Functions that touch the request are here in Rust; what can be said in Lua is in `prelude.lua`, which shapes both
//! into the tables that users know.

mod headers;
mod log;
mod regex;
mod request;
mod text;

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, LuaString, Table, Value, Variadic};

use super::{clock, current, json, strings, vm};
use crate::common::number;

const ENVIRONMENTS: &str = include_str!("environments.lua");
const PRELUDE: &str = include_str!("prelude.lua");

/// Fills the interpreter's globals. Returns what makes a request's `ctx`, `run(function, argument, ctx, environment)`, and
/// what makes an environment.
pub fn install(lua: &Lua) -> mlua::Result<(Function, Function, Function)> {
    let native = lua.create_table()?;
    strings::install(lua, &native)?;
    headers::install(lua, &native)?;
    request::install(lua, &native)?;
    text::install(lua, &native)?;
    regex::install(lua, &native)?;
    log::install(lua, &native)?;
    install_json(lua, &native)?;
    install_control(lua, &native)?;
    let environments = lua.load(ENVIRONMENTS).set_name("=environments").call::<Table>(&native)?;
    lua.load(PRELUDE).set_name("=prelude").call((native, environments))
}

/// A function that Lua may call, unless the call's time is up: what runs long is the last that its call does.
fn native_function<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    function: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, arguments: A| {
        clock::look()?;
        function(lua, arguments)
    })
}

fn install_json(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("null", Value::NULL)?;
    native.set("array_mt", json::array_metatable(lua)?)?;
    native.set(
        "json_encode",
        native_function(lua, |lua, (value, lenient): (Value, Option<bool>)| {
            json::encode(lua, &value, lenient.unwrap_or(false))
        })?,
    )?;
    native.set("json_decode", native_function(lua, |lua, text: LuaString| json::decode(lua, &text))?)
}

/// Of a text that is loaded without a name; Lua shows less of it.
const LONGEST_NAME: usize = 256;

/// Ending a call: `exit`, `print`, the time limit, `load`.
fn install_control(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("exit", native_function(lua, |_, code: Value| exit(&code))?)?;
    native.set("print", native_function(lua, |_, values: Variadic<Value>| print(&values))?)?;
    // After a caught error: whether the call shall end nevertheless.
    native.set(
        "ending",
        lua.create_function(|_, ()| Ok(clock::expired() || current::call(|call| call.exit.get().is_some())))?,
    )?;
    native.set(
        "load",
        native_function(lua, |lua, (source, name, environment): (LuaString, Option<String>, Table)| {
            let source = source.to_string_lossy();
            let name = name.unwrap_or_else(|| source.chars().take(LONGEST_NAME).collect());
            Ok(match vm::Vm::load(lua, &source, &name, &environment) {
                Ok(function) => (Some(function), None),
                Err(reason) => (None, Some(reason)),
            })
        })?,
    )?;
    native.set("phase", native_function(lua, |_, ()| Ok(current::call(|call| call.phase.get().name())))?)
}

/// Ends the call: the error unwinds, the code says what becomes of the request. Texts that are numbers count, and
/// fractions are cut, as in nginx-lua.
fn exit(code: &Value) -> mlua::Result<()> {
    let number = match code {
        Value::Integer(code) => Some(*code as f64),
        Value::Number(code) => Some(*code),
        Value::String(text) => text.to_string_lossy().trim().parse().ok(),
        _ => None,
    };
    let Some(number) = number.filter(|number| number.is_finite()) else {
        return Err(mlua::Error::runtime(format!(
            "bad argument #1 to 'exit' (number expected, got {})",
            code.type_name()
        )));
    };
    current::call(|call| call.exit.set(Some(number as i32)));
    Err(mlua::Error::runtime("exit"))
}

fn print(values: &[Value]) -> mlua::Result<()> {
    current::call(|call| {
        let mut output = call.output.borrow_mut();
        // Known before anything is copied: the memory for it has to be found first.
        let texts = values.iter().filter_map(Value::as_string).map(|text| text.as_bytes().len());
        if texts.fold(output.len(), usize::saturating_add) > current::MAX_OUTPUT_BYTES {
            output.clear();
            return Err(too_much_output());
        }
        for value in values {
            append(value, &mut output, 0).inspect_err(|_| output.clear())?;
        }
        Ok(())
    })
}

/// A value as `ngx.print` writes it; tables are lists of values. What is written has a limit, and lists in lists, which
/// can stand for far more than they hold, are under the clock.
pub fn append(value: &Value, out: &mut Vec<u8>, depth: usize) -> mlua::Result<()> {
    match value {
        Value::Nil => out.extend_from_slice(b"nil"),
        Value::LightUserData(_) => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Number(value) => out.extend_from_slice(number::lua(*value).as_bytes()),
        Value::String(text) => {
            let text = text.as_bytes();
            if out.len() + text.len() > current::MAX_OUTPUT_BYTES {
                return Err(too_much_output());
            }
            out.extend_from_slice(&text);
        }
        Value::Table(items) if depth < 16 => {
            for (count, item) in items.sequence_values::<Value>().enumerate() {
                if count.is_multiple_of(256) {
                    clock::look()?;
                }
                append(&item?, out, depth + 1)?;
            }
        }
        other => {
            return Err(mlua::Error::runtime(format!(
                "bad argument: string, number, boolean, nil, ngx.null, or array table expected, but got {}",
                other.type_name()
            )));
        }
    }
    if out.len() > current::MAX_OUTPUT_BYTES {
        return Err(too_much_output());
    }
    Ok(())
}

fn too_much_output() -> mlua::Error {
    mlua::Error::runtime("too much output")
}

/// The bytes of a text or number; `None` for anything else.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) => Some(number::lua(*value).into_bytes()),
        Value::Boolean(value) => Some(value.to_string().into_bytes()),
        _ => None,
    }
}
