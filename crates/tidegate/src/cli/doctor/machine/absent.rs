//! The checks of the machine are in crate `bench`, which this program was built without.

#![allow(missing_docs, reason = "documented where the feature is on")]

use tidegate_model::catalog::built_without;

use super::check::Check;

pub(super) fn checks() -> Vec<Check> {
    vec![Check::unknown("machine", "not looked at", built_without("bench"))]
}
