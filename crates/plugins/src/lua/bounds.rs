//! Time and memory of an interpreter, held where all of its work passes: at its instructions and at its allocations.
//!
//! The hook looks at the clock after so many instructions. One instruction can work on a whole string or table
//! (`a .. b`, `a < b`, `s + 0`), so that number shrinks as the largest block of memory grows, and what one instruction can
//! take is kept back from the call's time. The allocator knows that block; it also refuses blocks that are larger than
//! any string or table may be, what would pass the limit on memory, and large blocks once the time is up. Small blocks
//! are never refused: LuaJIT ends the process when it lacks one outside of a protected call, and what instructions
//! can take in small blocks the hook sees in time.
//!
//! The collector can free any number of blocks in one step, and the kernel takes its time for large ones: these are given
//! back by another thread.
//!
//! This is one of the few files with `unsafe`: neither allocator nor hook can be had from `mlua` (docs/adr/0025).

use std::{
    alloc::{self, Layout},
    cell::Cell,
    ffi::{c_int, c_void},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use mlua::{
    Lua,
    ffi::{self, lua_Alloc, lua_Debug, lua_State},
};

use super::clock;

/// Instructions between two looks at the clock: about 20 us.
const INSTRUCTIONS_PER_LOOK: c_int = 2_000;
/// The same while there is a block of 64 KiB; half of it for each doubling.
const INSTRUCTIONS_WITH_LARGE: c_int = 250;

/// Memory of one interpreter.
pub(super) const MAX_BYTES: usize = 256 << 20;
/// Blocks of one interpreter (strings, tables, functions): the tables that find them are rebuilt in one go.
pub(super) const MAX_OBJECTS: usize = 1 << 20;
/// A string or the slots of a table.
const MAX_BLOCK_BYTES: usize = 16 << 20;
/// What a block has beside the text in it.
const BLOCK_EXTRA_BYTES: usize = 4096;
/// A body that the gateway gives to a function.
const MAX_GIVEN_BYTES: usize = 64 << 20;
/// Blocks below are never refused.
const SMALL_BYTES: usize = 4096;
/// Blocks from here on are work for one instruction.
const LARGE_BYTES: usize = 64 << 10;
/// 64 KiB, 128 KiB, ... 64 MiB and above.
const CLASSES: usize = 11;
/// Blocks from here on do not come from the interpreter's own allocator: another thread frees them.
const OWN_BYTES: usize = 1 << 20;
const OWN_ALIGN: usize = 16;
/// Blocks that wait for that thread, over all workers.
const MAX_WAITING_BYTES: usize = 256 << 20;
static WAITING_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Bytes taken between two looks at the clock.
const BYTES_PER_LOOK: usize = 1 << 20;

pub(crate) struct Meter {
    state: *mut lua_State,
    inner: lua_Alloc,
    inner_data: *mut c_void,
    used: Cell<usize>,
    objects: Cell<usize>,
    /// Taken since the last look at the clock.
    unseen: Cell<usize>,
    /// Living large blocks by their size.
    large: [Cell<u32>; CLASSES],
    period: Cell<c_int>,
}

thread_local! {
    /// The largest block that may be had right now.
    static LARGEST: Cell<usize> = const { Cell::new(MAX_BLOCK_BYTES + BLOCK_EXTRA_BYTES) };
    /// Of the interpreter that was made last.
    static NEWEST: Cell<Option<&'static Meter>> = const { Cell::new(None) };
}

/// Makes texts of what a client or an upstream sent: these may be larger than what functions make.
pub(super) fn given<R>(make: impl FnOnce() -> R) -> R {
    let before = LARGEST.replace(MAX_GIVEN_BYTES + BLOCK_EXTRA_BYTES);
    let made = make();
    LARGEST.set(before);
    made
}

/// An error when this thread's interpreter holds more than it may.
pub(super) fn room() -> mlua::Result<()> {
    match NEWEST.get() {
        Some(meter) if meter.is_full(1, 1) => Err(mlua::Error::runtime("memory limit exceeded")),
        _ => Ok(()),
    }
}

/// Puts a meter between the interpreter and its allocator, and sets the hook. The meter lives as long as the process:
/// an interpreter frees its memory after everything else is gone.
pub(super) fn install(lua: &Lua) -> mlua::Result<&'static Meter> {
    // Makes mlua expect that memory may be refused. The limit that counts is the meter's, and not all blocks are mlua's.
    lua.set_memory_limit(isize::MAX as usize)?;
    let used = lua.used_memory();
    let found = Cell::new(None);
    // SAFETY: the state is valid in the closure. The original allocator keeps doing the work, with its own data,
    // and the meter is never freed.
    unsafe {
        lua.exec_raw::<()>((), |state| {
            let mut inner_data = std::ptr::null_mut();
            let inner = ffi::lua_getallocf(state, &mut inner_data);
            let meter: &'static Meter = Box::leak(Box::new(Meter {
                state,
                inner,
                inner_data,
                used: Cell::new(used),
                objects: Cell::new(0),
                unseen: Cell::new(0),
                large: Default::default(),
                period: Cell::new(INSTRUCTIONS_PER_LOOK),
            }));
            ffi::lua_setallocf(state, allocate, std::ptr::from_ref(meter).cast_mut().cast());
            ffi::lua_sethook(state, Some(check_limits), ffi::LUA_MASKCOUNT, INSTRUCTIONS_PER_LOOK);
            found.set(Some(meter));
        })?;
    }
    NEWEST.set(found.get());
    found.get().ok_or_else(|| mlua::Error::runtime("the interpreter cannot be limited"))
}

impl Meter {
    /// Bytes that the interpreter holds.
    pub(super) fn used(&self) -> usize {
        self.used.get()
    }

    /// Blocks of memory.
    pub(super) fn objects(&self) -> usize {
        self.objects.get()
    }

    /// Whether the interpreter holds more than it may, in parts of the limits.
    pub(super) fn is_full(&self, parts: usize, of: usize) -> bool {
        self.used.get() > MAX_BYTES / of * parts || self.objects.get() > MAX_OBJECTS / of * parts
    }

    fn refuses(&self, growth: usize, size: usize) -> bool {
        if size < SMALL_BYTES {
            return false;
        }
        if size > LARGEST.get() || self.used.get() + growth > MAX_BYTES {
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

    fn count(&self, old: usize, new: usize) {
        self.used.set(self.used.get().saturating_sub(old) + new);
        let objects = self.objects.get() + usize::from(old == 0);
        self.objects.set(objects.saturating_sub(usize::from(new == 0)));
        if let Some(class) = self.class(old) {
            class.set(class.get().saturating_sub(1));
        }
        if let Some(class) = self.class(new) {
            class.set(class.get() + 1);
            // Only the hook slackens again: a count that starts over with each block would never run out.
            let period = self.fitting();
            if period < self.period.get() {
                self.look_every(period);
            }
        }
    }

    /// How many instructions may pass, for the largest block there is; what one of them can take is kept back.
    fn fitting(&self) -> c_int {
        let largest = self.large.iter().rposition(|class| class.get() > 0);
        // A millisecond for each MiB.
        clock::reserve(largest.map_or(0, |class| (LARGE_BYTES << class >> 20) as u64));
        largest.map_or(INSTRUCTIONS_PER_LOOK, |class| (INSTRUCTIONS_WITH_LARGE >> class).max(1))
    }

    /// As `lua_Alloc`, where the block is a large one, or becomes one.
    ///
    /// # Safety
    /// `block` is null, or has `old` bytes and came from here or from the inner allocator, by its size.
    unsafe fn allocate_own(&self, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
        // SAFETY: sizes decide which of the two allocators a block came from, and goes back to.
        unsafe {
            let made = match new {
                0 => return Own { block, bytes: old }.free_elsewhere(),
                OWN_BYTES.. => Own::of(new).block,
                _ => (self.inner)(self.inner_data, std::ptr::null_mut(), 0, new),
            };
            if !block.is_null() && !made.is_null() {
                std::ptr::copy_nonoverlapping(block.cast::<u8>(), made.cast(), old.min(new));
                if old >= OWN_BYTES {
                    Own { block, bytes: old }.free_elsewhere();
                } else {
                    (self.inner)(self.inner_data, block, old, 0);
                }
            }
            made
        }
    }

    fn look_every(&self, period: c_int) {
        self.period.set(period);
        // SAFETY: the state lives while its allocator and hook are called, and LuaJIT lets a hook be set at any time,
        // even by a signal.
        unsafe { ffi::lua_sethook(self.state, Some(check_limits), ffi::LUA_MASKCOUNT, period) };
    }
}

/// A large block.
struct Own {
    block: *mut c_void,
    bytes: usize,
}

// SAFETY: nothing else refers to a block that is to be freed.
unsafe impl Send for Own {}

impl Own {
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes, OWN_ALIGN).ok()
    }

    fn of(bytes: usize) -> Own {
        // SAFETY: the size is not zero.
        let block = Own::layout(bytes).map_or(std::ptr::null_mut(), |layout| unsafe { alloc::alloc(layout) });
        Own { block: block.cast(), bytes }
    }

    /// Some milliseconds for the kernel. When too much waits already, it is freed here.
    fn free_elsewhere(self) -> *mut c_void {
        let waiting = WAITING_BYTES.fetch_add(self.bytes, Relaxed);
        match tidegate_plugin_api::host() {
            Some(host) if waiting < MAX_WAITING_BYTES => {
                host.background.spawn_blocking(move || self.free());
            }
            _ => self.free(),
        }
        std::ptr::null_mut()
    }

    fn free(self) {
        WAITING_BYTES.fetch_sub(self.bytes, Relaxed);
        if let Some(layout) = Own::layout(self.bytes) {
            // SAFETY: `of` made the block with this layout.
            unsafe { alloc::dealloc(self.block.cast(), layout) }
        }
    }
}

/// The allocator, as `lua_Alloc` is specified: `data` is the meter.
unsafe extern "C" fn allocate(data: *mut c_void, block: *mut c_void, old: usize, new: usize) -> *mut c_void {
    // SAFETY: `install` gave a meter that is never freed; its cells are used by this thread only.
    let meter = unsafe { &*data.cast::<Meter>() };
    #[cfg(test)]
    super::depth_tests::record_depth();
    let old_bytes = if block.is_null() { 0 } else { old };
    if new > old_bytes && meter.refuses(new - old_bytes, new) {
        return std::ptr::null_mut();
    }
    let made = if old_bytes.max(new) < OWN_BYTES {
        // SAFETY: the arguments are passed on as they came, to the allocator that made the block.
        unsafe { (meter.inner)(meter.inner_data, block, old, new) }
    } else {
        // SAFETY: the block is as large as was asked for.
        unsafe { meter.allocate_own(block, old_bytes, new) }
    };
    if new == 0 || !made.is_null() {
        meter.count(old_bytes, new);
    }
    made
}

/// The instruction hook: ends what runs too long or holds too much.
unsafe extern "C-unwind" fn check_limits(state: *mut lua_State, _: *mut lua_Debug) {
    let mut data = std::ptr::null_mut();
    // SAFETY: as `install` set it, the allocator's data is the meter.
    let meter = unsafe {
        ffi::lua_getallocf(state, &mut data);
        &*data.cast::<Meter>()
    };
    #[cfg(test)]
    super::depth_tests::record_depth();
    let period = meter.fitting();
    if period > meter.period.get() {
        meter.look_every(period);
    }
    if clock::expired() {
        // SAFETY: a hook may raise errors, and nothing here waits to be dropped.
        unsafe { raise_expired(state) }
    }
    if meter.is_full(1, 1) {
        // SAFETY: as above.
        unsafe { raise(state, b"memory limit exceeded") }
    }
}

/// Raises the error of a call whose time is up.
///
/// # Safety
/// `state` runs a function or hook, and its frames down to the next protected call hold nothing to be dropped.
pub(crate) unsafe fn raise_expired(state: *mut lua_State) -> ! {
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
