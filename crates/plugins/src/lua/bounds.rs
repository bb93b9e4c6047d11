//! Time and memory of an interpreter, held where all of its work passes: at its instructions and at its allocations.
//!
//! The hook looks at the clock after so many instructions. One instruction can work on a whole string or table
//! (`a .. b`, `a < b`, `s + 0`), so that number shrinks as the largest block of memory grows: what lies between two looks
//! stays some ten milliseconds at most. The allocator knows that block; it also refuses blocks that are larger than
//! any string or table may be, what would pass the limit on memory, and large blocks once the time is up. Small blocks
//! are never refused: LuaJIT ends the process when it lacks one outside of a protected call, and what instructions
//! can take in small blocks the hook sees in time.
//!
//! This is one of the few files with `unsafe`: neither allocator nor hook can be had from `mlua` (docs/adr/0025).

use std::{
    cell::Cell,
    ffi::{c_int, c_void},
};

use mlua::{
    Lua,
    ffi::{self, lua_Alloc, lua_Debug, lua_State},
};

use super::clock;

/// Instructions between two looks at the clock: about 20 us.
const INSTRUCTIONS_PER_LOOK: c_int = 2_000;

/// Memory of one interpreter.
pub const MAX_BYTES: usize = 256 << 20;
/// A string or the slots of a table; request bodies are up to 64 MiB.
const MAX_BLOCK_BYTES: usize = (64 << 20) + 4096;
/// Blocks below are never refused.
const SMALL_BYTES: usize = 4096;
/// Blocks from here on are work for one instruction.
const LARGE_BYTES: usize = 64 << 10;
/// 64 KiB, 128 KiB, ... 64 MiB and above.
const CLASSES: usize = 11;
/// Bytes taken between two looks at the clock.
const BYTES_PER_LOOK: usize = 1 << 20;

pub struct Meter {
    state: *mut lua_State,
    inner: lua_Alloc,
    inner_data: *mut c_void,
    used: Cell<usize>,
    /// Taken since the last look at the clock.
    unseen: Cell<usize>,
    /// Living large blocks by their size.
    large: [Cell<u32>; CLASSES],
    period: Cell<c_int>,
}

/// Puts a meter between the interpreter and its allocator, and sets the hook. The meter lives as long as the process:
/// an interpreter frees its memory after everything else is gone.
pub fn install(lua: &Lua) -> mlua::Result<&'static Meter> {
    // Makes mlua expect that memory may be refused. The limit that counts is the meter's.
    lua.set_memory_limit(MAX_BYTES * 4)?;
    let used = lua.used_memory();
    let found = Cell::new(None);
    // SAFETY: the state is valid in the closure. The allocator that was there goes on doing the work, with its own
    // data, and the meter is never freed.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            let mut inner_data = std::ptr::null_mut();
            let inner = ffi::lua_getallocf(state, &mut inner_data);
            let meter: &'static Meter = Box::leak(Box::new(Meter {
                state,
                inner,
                inner_data,
                used: Cell::new(used),
                unseen: Cell::new(0),
                large: Default::default(),
                period: Cell::new(INSTRUCTIONS_PER_LOOK),
            }));
            ffi::lua_setallocf(state, allocate, std::ptr::from_ref(meter).cast_mut().cast());
            ffi::lua_sethook(state, Some(look), ffi::LUA_MASKCOUNT, INSTRUCTIONS_PER_LOOK);
            found.set(Some(meter));
        })?;
    }
    found.get().ok_or_else(|| mlua::Error::runtime("the interpreter cannot be limited"))
}

impl Meter {
    /// Bytes that the interpreter holds.
    pub fn used(&self) -> usize {
        self.used.get()
    }

    fn refuses(&self, growth: usize, size: usize) -> bool {
        if size < SMALL_BYTES {
            return false;
        }
        if size > MAX_BLOCK_BYTES || self.used.get() + growth > MAX_BYTES {
            return true;
        }
        let unseen = self.unseen.get() + growth;
        self.unseen.set(unseen);
        size >= LARGE_BYTES && unseen >= BYTES_PER_LOOK && {
            // Once the time is up every large block is refused: the count stays.
            let expired = clock::expired();
            if !expired {
                self.unseen.set(0);
            }
            expired
        }
    }

    fn class(&self, size: usize) -> Option<&Cell<u32>> {
        let above = (size / LARGE_BYTES).checked_ilog2()?;
        self.large.get((above as usize).min(CLASSES - 1))
    }

    fn note(&self, old: usize, new: usize) {
        self.used.set(self.used.get().saturating_sub(old) + new);
        if let Some(class) = self.class(old) {
            class.set(class.get().saturating_sub(1));
        }
        if let Some(class) = self.class(new) {
            class.set(class.get() + 1);
            // Only the hook slackens again: a count that starts anew with each block would never run out.
            let period = self.fitting();
            if period < self.period.get() {
                self.look_every(period);
            }
        }
    }

    /// How many instructions may pass, for the largest block there is.
    fn fitting(&self) -> c_int {
        let largest = self.large.iter().rposition(|class| class.get() > 0);
        largest.map_or(INSTRUCTIONS_PER_LOOK, |class| (INSTRUCTIONS_PER_LOOK >> (class + 1)).max(1))
    }

    fn look_every(&self, period: c_int) {
        self.period.set(period);
        // SAFETY: the state lives while its allocator and hook are called, and LuaJIT lets a hook be set at any time,
        // even by a signal.
        unsafe { ffi::lua_sethook(self.state, Some(look), ffi::LUA_MASKCOUNT, period) };
    }
}

/// The allocator, as `lua_Alloc` is specified: `data` is the meter.
unsafe extern "C" fn allocate(data: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `install` gave a meter that is never freed; its cells are used by this thread only.
    let meter = unsafe { &*data.cast::<Meter>() };
    #[cfg(test)]
    super::depth_tests::note();
    let old_bytes = if block.is_null() { 0 } else { old };
    if new > old_bytes && meter.refuses(new - old_bytes, new) {
        return std::ptr::null_mut();
    }
    // SAFETY: the arguments are passed on as they came, to the allocator that made the block.
    let made = unsafe { (meter.inner)(meter.inner_data, block, old, new) };
    if new == 0 || !made.is_null() {
        meter.note(old_bytes, new);
    }
    made
}

/// The instruction hook: ends what runs too long or holds too much.
unsafe extern "C-unwind" fn look(state: *mut lua_State, _: *mut lua_Debug) {
    let mut data = std::ptr::null_mut();
    // SAFETY: as `install` set it, the allocator's data is the meter.
    let meter = unsafe {
        ffi::lua_getallocf(state, &mut data);
        &*data.cast::<Meter>()
    };
    #[cfg(test)]
    super::depth_tests::note();
    let period = meter.fitting();
    if period > meter.period.get() {
        meter.look_every(period);
    }
    if clock::expired() {
        // SAFETY: a hook may raise errors, and nothing here waits to be dropped.
        unsafe { raise_expired(state) }
    }
    if meter.used.get() > MAX_BYTES {
        // SAFETY: as above.
        unsafe { raise(state, b"memory limit exceeded") }
    }
}

/// Raises the error of a call whose time is up.
///
/// # Safety
/// `state` runs a function or hook, and its frames down to the next protected call hold nothing to be dropped.
pub unsafe fn raise_expired(state: *mut lua_State) -> ! {
    // SAFETY: passed on to the caller. The text is copied, and dropped, before the error leaves.
    unsafe {
        push_expired(state);
        ffi::lua_error(state)
    }
}

unsafe fn push_expired(state: *mut lua_State) {
    let text = clock::message();
    // SAFETY: the text lives until it is copied.
    unsafe { ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len()) };
}

unsafe fn raise(state: *mut lua_State, text: &'static [u8]) -> ! {
    // SAFETY: see `raise_expired`.
    unsafe {
        ffi::lua_pushlstring(state, text.as_ptr().cast(), text.len());
        ffi::lua_error(state)
    }
}
