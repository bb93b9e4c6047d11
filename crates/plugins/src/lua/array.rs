//! The metatable that marks arrays: cjson writes an empty table as `{}` unless it has it.

use mlua::{Lua, Table};

const METATABLE: &str = "array_mt";

/// Puts the metatable into the registry.
pub(super) fn install(lua: &Lua) -> mlua::Result<()> {
    lua.set_named_registry_value(METATABLE, lua.create_table()?)
}

pub(super) fn metatable(lua: &Lua) -> mlua::Result<Table> {
    lua.named_registry_value(METATABLE)
}
