//! What Lua in configurations may call: nginx-lua's `ngx` and APISIX's `apisix.core`, as far as docs/guide/lua.md lists.
//!
//! Functions that touch the request are here in Rust; what can be said in Lua is in `prelude.lua`, which shapes both
//! into the tables that users know.

mod digests;
mod headers;
mod log;
mod native;
mod plugins;
mod regex;
mod request;
mod text;
mod values;

use mlua::{Function, Lua, LuaString, Table, Value, Variadic};

pub(super) use headers::response_fields;
pub(super) use values::append;

use native::native_function;
use values::too_much_output;

use super::{array, chunk, clock, current, json, strings};

const ENVIRONMENTS: &str = include_str!("environments.lua");
const PRELUDE: &str = include_str!("prelude.lua");
const MODULES: &str = include_str!("modules.lua");

/// What the prelude makes.
pub(super) struct Installed {
    /// Makes a request's `ctx`.
    pub new_context: Function,
    /// `run(function, argument, ctx, environment)`.
    pub run: Function,
    /// Makes an environment.
    pub new_environment: Function,
    /// What is known of plugins in files.
    pub plugins: Table,
}

/// Fills the interpreter's globals.
pub(super) fn install(lua: &Lua) -> mlua::Result<Installed> {
    let native = lua.create_table()?;
    strings::install(lua, &native)?;
    headers::install(lua, &native)?;
    request::install(lua, &native)?;
    text::install(lua, &native)?;
    regex::install(lua, &native)?;
    log::install(lua, &native)?;
    digests::install(lua, &native)?;
    plugins::install(lua, &native)?;
    install_json(lua, &native)?;
    install_control(lua, &native)?;
    native.set("more", lua.load(MODULES).set_name("=modules").into_function()?)?;
    let environments = lua.load(ENVIRONMENTS).set_name("=environments").call::<Table>(&native)?;
    let (new_context, run, new_environment, plugins) =
        lua.load(PRELUDE).set_name("=prelude").call((native, environments))?;
    Ok(Installed { new_context, run, new_environment, plugins })
}

fn install_json(lua: &Lua, native: &Table) -> mlua::Result<()> {
    native.set("null", Value::NULL)?;
    native.set("array_mt", array::metatable(lua)?)?;
    native.set(
        "json_encode",
        native_function(lua, |lua, (value, lenient): (Value, Option<bool>)| {
            json::encode(lua, &value, lenient.unwrap_or(false))
        })?,
    )?;
    native.set("json_decode", native_function(lua, |lua, text: LuaString| json::decode(lua, &text))?)?;
    native.set("yaml_decode", native_function(lua, |lua, text: LuaString| json::decode_yaml(lua, &text))?)
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
            let name = name.unwrap_or_else(|| source.to_string_lossy().chars().take(LONGEST_NAME).collect());
            Ok(match chunk::load(lua, source.as_bytes(), &name, &environment) {
                Ok(function) => (Some(function), None),
                Err(reason) => (None, Some(reason)),
            })
        })?,
    )?;
    native.set("may_wait", lua.create_function(|_, ()| Ok(current::call(|call| call.may_wait.get())))?)?;
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
