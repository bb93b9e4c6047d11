//! Texts that Lua loads, and what it says of those that fail.

use mlua::{Function, Lua, Table};

use super::clock;

/// The source of one chunk: Lua compiles it in one go.
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Loads a text as Lua names it: `[string "first line..."]`. Bytecode is refused.
pub(super) fn load(
    lua: &Lua,
    source: impl AsRef<[u8]>,
    name: &str,
    environment: &Table,
) -> Result<Function, String> {
    clock::check_time().map_err(|error| message(&error))?;
    let source = source.as_ref();
    if source.len() > MAX_SOURCE_BYTES {
        return Err(format!("the source has {} bytes, at most {MAX_SOURCE_BYTES} are read", source.len()));
    }
    lua.load(source)
        .set_name(name)
        .set_mode(mlua::chunk::ChunkMode::Text)
        .set_environment(environment.clone())
        .into_function()
        .map_err(|error| message(&error))
}

/// A call for a request has one argument: here a list of three.
const OF_ONE: &str = "local func = ... return function(list) return func(list[1], list[2], list[3]) end";

/// A function of one argument, that calls a function of three.
pub(super) fn of_one_argument(lua: &Lua, function: &Function) -> mlua::Result<Function> {
    lua.load(OF_ONE).set_name("=exits").call(function)
}

/// The message as Lua prints it, without a stack.
pub(super) fn message(error: &mlua::Error) -> String {
    match error {
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        mlua::Error::RuntimeError(message) => {
            message.split("\nstack traceback:").next().unwrap_or_default().to_owned()
        }
        mlua::Error::CallbackError { cause, .. } => message(cause),
        other => other.to_string(),
    }
}
