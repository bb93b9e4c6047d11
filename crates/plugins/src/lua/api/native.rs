//! Functions that Lua may call.

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua};

use crate::lua::clock;

/// A function that Lua may call, unless the call's time is up: what runs long is the last that its call does.
pub(super) fn native_function<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    function: impl Fn(&Lua, A) -> mlua::Result<R> + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, arguments: A| {
        clock::check_time()?;
        function(lua, arguments)
    })
}
