//! `gsub` with a text or a table for replacement.

use std::{
    cell::UnsafeCell,
    ffi::{CStr, c_int},
};

use mlua::ffi::{self, lua_State};

use super::{
    search::{first, matcher},
    stack::{push, raise, sound, text},
};
use crate::lua::{
    clock,
    pattern::{Fault, Found, Matcher, Piece},
};

/// What `gsub` makes.
const MAX_RESULT_BYTES: usize = 16 << 20;
/// Bytes of a result between two looks at the clock.
const BYTES_PER_LOOK: usize = 256 << 10;
/// The buffer of results is given back when it has grown past this.
const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// What `gsub` writes into: no frame that an error passes over owns it.
    static RESULT: UnsafeCell<Vec<u8>> = const { UnsafeCell::new(Vec::new()) };
}

/// `gsub` with a text or a plain table for replacement.
pub(super) unsafe extern "C-unwind" fn gsub(state: *mut lua_State) -> c_int {
    // SAFETY: called by Lua. Only this function uses the buffer, and it calls nothing that could call it again.
    unsafe {
        let (subject, pattern) = (text(state, 1), text(state, 2));
        let most = ffi::luaL_optinteger(state, 4, subject.len() as ffi::lua_Integer + 1) as i32;
        if !matches!(ffi::lua_type(state, 3), ffi::LUA_TNUMBER | ffi::LUA_TSTRING | ffi::LUA_TTABLE) {
            ffi::luaL_argerror(state, 3, c"string/function/table expected".as_ptr());
        }
        let out = &mut *RESULT.with(UnsafeCell::get);
        out.clear();
        if out.capacity() > KEPT_BYTES {
            out.shrink_to(KEPT_BYTES);
        }
        let count = replaced(state, subject, pattern, most, out);
        ffi::lua_pushlstring(state, out.as_ptr().cast(), out.len());
        ffi::lua_pushinteger(state, count);
    }
    2
}

unsafe fn replaced(
    state: *mut lua_State,
    subject: &[u8],
    pattern: &[u8],
    most: i32,
    out: &mut Vec<u8>,
) -> ffi::lua_Integer {
    let (mut matcher, anchored) = matcher(subject, pattern);
    let (mut count, mut from, mut looked) = (0, 0, 0);
    // SAFETY: plain values only; the buffer is owned elsewhere.
    unsafe {
        while count < most {
            let Some(found) = sound(state, first(&mut matcher, anchored, from)) else { break };
            count += 1;
            append(state, out, &subject[from..found.start]);
            add_value(state, &matcher, found, out);
            from = found.end;
            if found.end == found.start {
                let Some(byte) = subject.get(from) else { break };
                append(state, out, std::slice::from_ref(byte));
                from += 1;
            }
            if out.len() - looked > BYTES_PER_LOOK {
                looked = out.len();
                if clock::expired() {
                    raise(state, Fault::Expired);
                }
            }
            if anchored {
                break;
            }
        }
        append(state, out, subject.get(from..).unwrap_or_default());
    }
    count as ffi::lua_Integer
}

unsafe fn append(state: *mut lua_State, out: &mut Vec<u8>, text: &[u8]) {
    if out.len() + text.len() > MAX_RESULT_BYTES {
        out.clear();
        // SAFETY: nothing here waits to be dropped.
        unsafe { raise(state, Fault::Pattern("not enough memory")) };
    }
    out.extend_from_slice(text);
}

unsafe fn add_value(state: *mut lua_State, matcher: &Matcher<'_>, found: Found, out: &mut Vec<u8>) {
    // SAFETY: as in `replaced`; what is pushed is popped again.
    unsafe {
        if ffi::lua_type(state, 3) != ffi::LUA_TTABLE {
            return add_text(state, matcher, found, out);
        }
        push(state, sound(state, matcher.piece(0, found)));
        ffi::lua_rawget(state, 3);
        if ffi::lua_toboolean(state, -1) == 0 {
            append(state, out, matcher.whole(found));
        } else if ffi::lua_isstring(state, -1) == 0 {
            let kind = CStr::from_ptr(ffi::luaL_typename(state, -1));
            ffi::luaL_error(state, c"invalid replacement value (a %s)".as_ptr(), kind.as_ptr());
        } else {
            append(state, out, text(state, -1));
        }
        ffi::lua_settop(state, -2);
    }
}

/// The replacement text, with `%0` to `%9`.
unsafe fn add_text(state: *mut lua_State, matcher: &Matcher<'_>, found: Found, out: &mut Vec<u8>) {
    // SAFETY: as in `replaced`.
    unsafe {
        let mut rest = text(state, 3);
        while let Some(at) = memchr::memchr(b'%', rest) {
            append(state, out, &rest[..at]);
            // Behind a last `%` LuaJIT finds the zero that ends its strings.
            let digit = rest.get(at + 1).copied().unwrap_or(0);
            rest = rest.get(at + 2..).unwrap_or_default();
            match digit {
                b'0' => append(state, out, matcher.whole(found)),
                b'1'..=b'9' => match sound(state, matcher.piece(usize::from(digit - b'1'), found)) {
                    Piece::Text(text) => append(state, out, text),
                    Piece::Position(position) => {
                        let mut digits = itoa::Buffer::new();
                        append(state, out, digits.format(position).as_bytes());
                    }
                },
                other => append(state, out, &[other]),
            }
        }
        append(state, out, rest);
    }
}
