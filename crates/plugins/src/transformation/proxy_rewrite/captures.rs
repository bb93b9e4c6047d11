//! What `regex_uri` caught.

use std::ops::Range;

/// For `$1` in header values of this and later instances.
#[derive(Clone, Default)]
pub(super) struct Captures {
    pub(super) text: Vec<u8>,
    pub(super) groups: Vec<Option<Range<usize>>>,
}

impl Captures {
    pub(super) fn get(&self, index: usize) -> &[u8] {
        let range = self.groups.get(index).cloned().flatten();
        range.and_then(|range| self.text.get(range)).unwrap_or_default()
    }
}
