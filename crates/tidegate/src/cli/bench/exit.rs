//! Exit statuses.

/// Some requests failed: the figures are of the others.
pub(super) const PARTLY_FAILED: u8 = 3;

/// What a `--fail-if` says is so.
pub(super) const CONDITION_MET: u8 = 4;

pub(super) const INTERRUPTED: u8 = 130;
