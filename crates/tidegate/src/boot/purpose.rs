//! What everything is prepared for.

use std::sync::{Arc, atomic::AtomicUsize};

use super::handover::predecessor::Predecessor;

/// What the preparation is for.
pub(super) enum Purpose<'a> {
    /// To serve, perhaps in place of a process that does.
    Serve(Option<&'a Predecessor>),
    /// To know whether serving would work: ports are bound and released, and nothing is written.
    Trial(&'a Trial),
}

/// What a trial has to know, and what it finds.
#[derive(Default)]
pub(super) struct Trial {
    /// The gateway of this prefix, if it runs: its store is its own.
    pub running: Option<i32>,
    /// Objects that would be left out.
    pub problems: Arc<AtomicUsize>,
    /// Objects that there are.
    pub objects: AtomicUsize,
}
