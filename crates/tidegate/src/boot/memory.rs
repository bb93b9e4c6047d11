//! Memory that goes back to the system, and what the allocator says of the rest.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr::null_mut,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use anyhow::Context;
use serde_json::{Value, json};
use tidegate_telemetry::background::{begin_turn, give_way, lower_priority};

/// The kernel takes some 60 us to take so much back: 300 for a megabyte, and 600 where its own free lists are full.
const GIVEN_AT_ONCE: usize = 128 << 10;

/// How often memory that nothing uses goes back.
const EVERY: Duration = Duration::from_secs(1);

/// `mi_option_purge_delay`: milliseconds until the next thread that frees a page gives back all that is free. The bindings do not name it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Longer than it takes until [`GivingBack`] does it, or a worker that has fallen idle.
const AN_HOUR_MS: std::ffi::c_long = 3_600_000;

/// A thread that gives memory back to the system, so that no worker does it in the middle of a request.
pub(super) struct GivingBack {
    /// Dropped, it ends the thread.
    _end: Sender<()>,
}

impl GivingBack {
    pub(super) fn start() -> anyhow::Result<GivingBack> {
        let (end, ended) = mpsc::channel::<()>();
        let give_back = move || {
            lower_priority();
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                begin_turn();
                release_memory();
            }
        };
        thread::Builder::new()
            .name("memory".to_owned())
            .spawn(give_back)
            .context("cannot start the thread that gives memory back")?;
        // SAFETY: sets a number, at any time.
        unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, AN_HOUR_MS) };
        Ok(GivingBack { _end: end })
    }
}

/// In place of the C library's function of this name, for the allocator, which gives tens of megabytes back in one call: the kernel keeps the core until it is through
/// (madvise(2); kernels of servers do not preempt themselves). Between pieces, threads that are not workers let those run.
///
/// # Safety
///
/// As of madvise(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(start: *mut c_void, length: usize, advice: c_int) -> c_int {
    let at_once = if advice == libc::MADV_DONTNEED { GIVEN_AT_ONCE } else { usize::MAX };
    let mut done = 0;
    loop {
        let piece = at_once.min(length - done);
        // SAFETY: a part of what the caller has named, with what it asked for; a piece is at least as large as a page.
        let result = unsafe { libc::syscall(libc::SYS_madvise, start.byte_add(done), piece, advice) };
        done += piece;
        if result != 0 || done == length {
            return if result == 0 { 0 } else { -1 };
        }
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

    /// One test, in this order: options of the allocator are of the whole process, and stay.
    #[test]
    fn large_buffers_are_given_back_at_once_and_later_by_a_thread() {
        large_buffers_are_given_back();
        a_thread_gives_back_what_others_have_freed();
    }

    fn large_buffers_are_given_back() {
        let resident = || statistics().get("resident_bytes").and_then(Value::as_u64).unwrap_or_default();
        let before = resident();
        drop(vec![1u8; 256 << 20]);
        release_memory();
        assert!(resident() < before + (128 << 20), "{before} and then {}", resident());
    }

    fn a_thread_gives_back_what_others_have_freed() {
        let purged =
            || statistics().pointer("/mimalloc/purge_calls").and_then(Value::as_u64).unwrap_or_default();
        let giving = GivingBack::start().expect("a thread");
        // SAFETY: reads a number.
        assert_eq!(unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }, AN_HOUR_MS);
        let before = purged();
        drop(vec![1u8; 64 << 20]);
        let begun = std::time::Instant::now();
        while purged() == before {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing was given back");
            thread::yield_now();
        }
        drop(giving);
    }

    #[test]
    fn all_pieces_are_given_back() {
        let mut buffer = vec![1u8; (3 << 20) + 5 * 4096];
        let unaligned = buffer.as_ptr().align_offset(4096);
        let pages = &mut buffer[unaligned..];
        let length = pages.len() / 4096 * 4096;
        // SAFETY: whole pages of a buffer of numbers.
        assert_eq!(unsafe { madvise(pages.as_mut_ptr().cast(), length, libc::MADV_DONTNEED) }, 0);
        assert!(pages[..length].iter().all(|byte| *byte == 0));
        let unaligned = pages.as_mut_ptr().wrapping_add(1);
        // SAFETY: refused, for no page begins there.
        assert_eq!(unsafe { madvise(unaligned.cast(), length, libc::MADV_DONTNEED) }, -1);
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
