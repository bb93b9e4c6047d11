//! Arguments and results of functions that Lua calls as C. What [`super`] says of errors holds here too.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};

use crate::lua::{
    bounds,
    pattern::{Fault, Piece},
};

/// An argument as text; numbers become their text in place.
///
/// # Safety
/// The text is the interpreter's: it stays while the argument is on the stack.
pub(super) unsafe fn text<'a>(state: *mut lua_State, argument: c_int) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: Lua gives a pointer to that many bytes, or raises an error.
    unsafe {
        let start = ffi::luaL_checklstring(state, argument, &mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

pub(super) unsafe fn push(state: *mut lua_State, piece: Piece<'_>) {
    // SAFETY: the text is alive, Lua copies it.
    unsafe {
        match piece {
            Piece::Text(text) => {
                ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len());
            }
            Piece::Position(position) => ffi::lua_pushinteger(state, position as ffi::lua_Integer),
        }
    }
}

/// Raises the fault as LuaJIT does, with the place of the call.
pub(super) unsafe fn raise(state: *mut lua_State, fault: Fault) -> ! {
    // SAFETY: the caller's frames hold nothing to be dropped.
    unsafe {
        match fault {
            Fault::Expired => bounds::raise_expired(state),
            Fault::Pattern(message) => {
                ffi::luaL_where(state, 1);
                ffi::lua_pushlstring(state, message.as_ptr().cast(), message.len());
                ffi::lua_concat(state, 2);
                ffi::lua_error(state)
            }
        }
    }
}

/// The value, or the fault as an error of Lua.
pub(super) unsafe fn sound<T: Copy>(state: *mut lua_State, result: Result<T, Fault>) -> T {
    match result {
        Ok(value) => value,
        // SAFETY: as `raise` asks; `T` and `Fault` are plain values.
        Err(fault) => unsafe { raise(state, fault) },
    }
}
