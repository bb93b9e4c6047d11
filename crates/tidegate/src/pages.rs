//! The size of memory pages: ADR 43.

/// Turns transparent huge pages off for this process and those it starts. Call it before the process has threads.
///
/// The allocator's build asks for none (feature `no_thp`); this covers kernels that hand them out unasked
/// (`/sys/kernel/mm/transparent_hugepage/enabled` is `always`), also for stacks. A kernel that cannot do it
/// (before Linux 3.15) costs memory and nothing else, so an error is not reported.
pub(crate) fn use_small_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
