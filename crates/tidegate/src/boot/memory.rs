//! Memory that goes back to the system, and what the allocator says of the rest.

use std::{
    ffi::{CStr, c_char},
    ptr::null_mut,
};

use serde_json::{Value, json};

pub(super) fn release_memory() {
    // SAFETY: takes no pointers and may be called at any time by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// What the allocator counts: all of it in a build with its statistics, what it maps and gives back in others. It samples no callers.
pub(super) fn statistics() -> Value {
    let mut process = [0usize; 8];
    let [elapsed, user, system, resident, peak_resident, committed, peak_committed, faults] = &mut process;
    // SAFETY: the pointers are to these locals.
    unsafe {
        libmimalloc_sys::mi_process_info(
            elapsed,
            user,
            system,
            resident,
            peak_resident,
            committed,
            peak_committed,
            faults,
        );
    }
    let [_, _, _, resident, peak_resident, committed, peak_committed, faults] = process;
    json!({
        "allocator": "mimalloc",
        "resident_bytes": resident,
        "peak_resident_bytes": peak_resident,
        "committed_bytes": committed,
        "peak_committed_bytes": peak_committed,
        "page_faults": faults,
        "mimalloc": of_mimalloc(),
    })
}

fn of_mimalloc() -> Value {
    // SAFETY: without a buffer the text is made by the allocator, ends with a zero, and is freed below.
    let text: *mut c_char = unsafe { libmimalloc_sys::mi_stats_get_json(0, null_mut()) };
    if text.is_null() {
        return Value::Null;
    }
    // SAFETY: as above.
    let value = serde_json::from_slice(unsafe { CStr::from_ptr(text) }.to_bytes()).unwrap_or(Value::Null);
    // SAFETY: made by the same allocator, freed once.
    unsafe { libmimalloc_sys::mi_free(text.cast()) };
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_says_what_it_has() {
        let kept = vec![1u8; 8 << 20];
        let shown = statistics();
        let bytes = |name: &str| shown.get(name).and_then(Value::as_u64).unwrap_or_default();
        assert!(bytes("resident_bytes") >= kept.len() as u64, "{shown}");
        assert!(bytes("peak_resident_bytes") >= bytes("resident_bytes"), "{shown}");
        assert!(shown["mimalloc"].is_object(), "{shown}");
    }
}
