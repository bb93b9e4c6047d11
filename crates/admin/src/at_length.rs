//! Work that takes long, among tasks that share its thread.

/// Works through what may be fifty thousand objects, without holding up the tasks that share this thread.
pub(crate) fn at_length<T>(work: impl FnOnce() -> T) -> T {
    let shared = tokio::runtime::Handle::try_current()
        .is_ok_and(|handle| handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread);
    if shared { tokio::task::block_in_place(work) } else { work() }
}
