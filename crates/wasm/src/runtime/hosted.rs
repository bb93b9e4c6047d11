//! An instance that a worker has.

use std::cell::{Cell, RefCell};

use super::instance::Instance;

/// An instance in use by this worker.
pub(super) struct Hosted {
    pub instance: RefCell<Instance>,
    /// It has served a request since the last sweep.
    pub was_used: Cell<bool>,
}
