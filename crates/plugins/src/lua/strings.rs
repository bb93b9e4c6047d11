//! `find`, `match`, `gmatch` and `gsub` of the library `string`, on [`super::pattern`].
//!
//! They are C functions, because calling one made by `mlua` costs more than a short search does. None of
//! them calls Lua back: a `gsub` whose replacement is a function is a loop in the prelude on [`seek`], so that
//! nothing an operator writes can nest on the C stack.
//!
//! Errors of Lua leave these functions without dropping anything: no frame of them holds a value that needs it.

use std::ffi::c_int;

use mlua::{
    Lua, Table,
    ffi::{self, lua_State},
};

mod gsub;
mod search;
mod stack;

use search::{first, matcher};
use stack::{push, raise, sound, text};

use super::pattern::{self, Fault, Found, Matcher};

/// Puts the functions into `string`; the prelude gets what it builds upon.
pub(super) fn install(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let string: Table = lua.globals().get("string")?;
    // SAFETY: the functions keep to what `lua_CFunction` is specified for.
    unsafe {
        string.raw_set("find", lua.create_c_function(find)?)?;
        string.raw_set("match", lua.create_c_function(first_match)?)?;
        string.raw_set("gmatch", lua.create_c_function(gmatch)?)?;
        native.raw_set("gsub", lua.create_c_function(gsub::gsub)?)?;
        native.raw_set("seek", lua.create_c_function(seek)?)?;
    }
    string.raw_remove("gfind")
}

/// Pushes the first `count` values of a match.
unsafe fn push_captures(state: *mut lua_State, matcher: &Matcher<'_>, found: Found, count: usize) -> c_int {
    // SAFETY: there is room for all captures.
    unsafe {
        ffi::luaL_checkstack(state, pattern::MAX_CAPTURES as c_int, c"too many captures".as_ptr());
        for index in 0..count {
            push(state, sound(state, matcher.piece(index, found)));
        }
    }
    count as c_int
}

/// Where a search begins; `None` behind the subject's end.
unsafe fn start(state: *mut lua_State, length: usize) -> Option<usize> {
    // SAFETY: reads an argument.
    let init = unsafe { ffi::luaL_optinteger(state, 3, 1) } as i64;
    // As LuaJIT, which keeps 32 bits and takes what does not fit for the least number.
    let init = i64::from(i32::try_from(init).unwrap_or(i32::MIN));
    let from = if init < 0 { init + length as i64 } else { init - 1 }.max(0) as usize;
    (from <= length).then_some(from)
}

unsafe extern "C-unwind" fn find(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe { search(state, true) }
}

unsafe extern "C-unwind" fn first_match(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua.
    unsafe { search(state, false) }
}

unsafe fn search(state: *mut lua_State, find: bool) -> c_int {
    // SAFETY: the arguments stay on the stack; plain values only.
    unsafe {
        let (subject, pattern) = (text(state, 1), text(state, 2));
        let Some(from) = start(state, subject.len()) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        if find && (ffi::lua_toboolean(state, 4) != 0 || !pattern::is_pattern(pattern)) {
            return match plain(&subject[from..], pattern) {
                Some(at) => {
                    ffi::lua_pushinteger(state, (from + at + 1) as ffi::lua_Integer);
                    ffi::lua_pushinteger(state, (from + at + pattern.len()) as ffi::lua_Integer);
                    2
                }
                None => {
                    ffi::lua_pushnil(state);
                    1
                }
            };
        }
        let (mut matcher, anchored) = matcher(subject, pattern);
        let Some(found) = sound(state, first(&mut matcher, anchored, from)) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        let matcher = &matcher;
        if !find {
            return push_captures(state, matcher, found, matcher.count());
        }
        ffi::lua_pushinteger(state, (found.start + 1) as ffi::lua_Integer);
        ffi::lua_pushinteger(state, found.end as ffi::lua_Integer);
        2 + push_captures(state, matcher, found, matcher.captured())
    }
}

/// A fixed text in another, in time that grows with their lengths only.
fn plain(subject: &[u8], wanted: &[u8]) -> Option<usize> {
    match wanted {
        [] => Some(0),
        [byte] => memchr::memchr(*byte, subject),
        _ => memchr::memmem::find(subject, wanted),
    }
}

/// `gmatch(subject, pattern)`: the function has both as upvalues, and where to continue.
unsafe extern "C-unwind" fn gmatch(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua; there is room for an argument more.
    unsafe {
        text(state, 1);
        text(state, 2);
        ffi::lua_settop(state, 2);
        ffi::lua_pushinteger(state, 0);
        ffi::lua_pushcclosure(state, gmatch_next, 3);
    }
    1
}

unsafe extern "C-unwind" fn gmatch_next(state: *mut lua_State) -> c_int {
    // SAFETY: the upvalues are as `gmatch` set them; texts stay while the closure does.
    unsafe {
        let upvalue = |index: c_int| ffi::lua_upvalueindex(index);
        let (subject, pattern) = (text(state, upvalue(1)), text(state, upvalue(2)));
        let from = ffi::lua_tointeger(state, upvalue(3)) as usize;
        let mut matcher = Matcher::new(subject, pattern);
        let Some(found) = sound(state, matcher.search(from)) else { return 0 };
        let next = if found.end == found.start { found.end + 1 } else { found.end };
        ffi::lua_pushinteger(state, next as ffi::lua_Integer);
        ffi::lua_replace(state, upvalue(3));
        push_captures(state, &matcher, found, matcher.count())
    }
}

/// `seek(subject, pattern, from, one)`: first, last and captures of a match, or the first of them; nothing without a match;
/// `false` and a message.
unsafe extern "C-unwind" fn seek(state: *mut lua_State) -> c_int {
    // SAFETY: called by the prelude with two texts and a number from 1 on.
    unsafe {
        let (subject, pattern) = (text(state, 1), text(state, 2));
        let from = (ffi::lua_tointeger(state, 3) as usize).saturating_sub(1);
        let (mut matcher, anchored) = matcher(subject, pattern);
        let one = ffi::lua_toboolean(state, 4) != 0;
        let failed = match first(&mut matcher, anchored, from) {
            Ok(None) => return 0,
            Ok(Some(found)) => match faulty(&matcher, found, one) {
                None => {
                    ffi::lua_pushinteger(state, (found.start + 1) as ffi::lua_Integer);
                    ffi::lua_pushinteger(state, found.end as ffi::lua_Integer);
                    return 2 + push_captures(state, &matcher, found, if one { 1 } else { matcher.count() });
                }
                Some(fault) => fault,
            },
            Err(fault) => fault,
        };
        let Fault::Pattern(message) = failed else { raise(state, failed) };
        ffi::lua_pushboolean(state, 0);
        ffi::lua_pushlstring(state, message.as_ptr().cast(), message.len());
        2
    }
}

fn faulty(matcher: &Matcher<'_>, found: Found, one: bool) -> Option<Fault> {
    let count = if one { 1 } else { matcher.count() };
    (0..count).find_map(|at| matcher.piece(at, found).err())
}
