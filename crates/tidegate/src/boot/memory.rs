//! Memory that goes back to the system.

pub(super) fn release_memory() {
    // SAFETY: takes no pointers and may be called at any time by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
