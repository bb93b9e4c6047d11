//! What rules share.

use crate::outcome::Finding;

pub(super) fn finding(name: &str, title: impl Into<String>, evidence: Vec<String>, remedy: &str) -> Finding {
    Finding { name: name.into(), title: title.into(), evidence, remedy: remedy.into(), marks: Vec::new() }
}
