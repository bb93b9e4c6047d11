//! Futures on the heap that are never copied.

use std::pin::Pin;

/// As `Box::pin`, but the future is built where it stays. `Box::pin` builds it on the stack and copies it, all of its
/// kilobytes: should the allocation fail, it would have to be dropped.
#[inline(always)]
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
