//! Memory that goes back to the system, and what the allocator says of the rest.

use std::{
    ffi::{CStr, c_char},
    ptr::null_mut,
};

use serde_json::{Value, json};
use tidegate_telemetry::background::give_way;

/// The kernel takes some 60 us to take so much back: 300 for a megabyte, and 600 where its own free lists are full.
const GIVEN_AT_ONCE: usize = 128 << 10;

/// Smaller buffers are not worth it.
const LARGE: usize = 4 << 20;

/// Of memory; no page of a system that this runs on is larger.
const PAGE: usize = 64 * 1024;

/// Frees a buffer that may be large, giving way between pieces: the allocator gives tens of megabytes back in a few calls of the kernel, each of which
/// keeps the core.
pub(super) fn free_in_turns(mut buffer: Vec<u8>) {
    if buffer.capacity() < LARGE {
        return;
    }
    buffer.clear();
    let spare = buffer.spare_capacity_mut();
    let unaligned = spare.as_ptr().align_offset(PAGE);
    for piece in spare.get_mut(unaligned..).unwrap_or_default().chunks_mut(GIVEN_AT_ONCE) {
        let whole = piece.len() / PAGE * PAGE;
        // SAFETY: whole pages of this buffer, which holds nothing: what the kernel takes away reads as zeros later.
        unsafe { libc::madvise(piece.as_mut_ptr().cast(), whole, libc::MADV_DONTNEED) };
        give_way();
    }
}

pub(super) fn release_memory() {
    // SAFETY: takes no pointers and may be called at any time by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

/// What the system and the allocator count. A release build of mimalloc counts what it maps and gives back, not single allocations, and none knows
/// callers.
pub(super) fn statistics() -> Value {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    json!({
        "allocator": "mimalloc",
        "resident_bytes": bytes_of(&status, "VmRSS:"),
        "peak_resident_bytes": bytes_of(&status, "VmHWM:"),
        "mimalloc": of_mimalloc(),
    })
}

/// A line such as `VmRSS:       12345 kB`.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
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
    fn large_buffers_are_given_back() {
        let resident = || statistics().get("resident_bytes").and_then(Value::as_u64).unwrap_or_default();
        let before = resident();
        free_in_turns(vec![1u8; 256 << 20]);
        assert!(resident() < before + (128 << 20), "{before} and then {}", resident());
        free_in_turns(vec![1u8; 10]);
        free_in_turns(Vec::new());
    }

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
