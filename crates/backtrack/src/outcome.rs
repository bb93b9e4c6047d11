//! What a search comes to.

use std::ops::Range;

/// Where each group of a match stands; group 0 is the whole of it.
pub type Groups = Vec<Option<Range<usize>>>;

/// A search hit its limit: whether the expression matches is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;
