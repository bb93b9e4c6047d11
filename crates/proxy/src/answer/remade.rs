//! A body that a plugin rebuilt from the upstream's, on its way through the filters after that plugin.

use bytes::{Buf, Bytes};

/// Passed on at once.
const STEP: usize = 64 << 10;

pub(super) struct Remade {
    pub body: Bytes,
    /// The first filter that has not seen it.
    pub from: usize,
}

impl Remade {
    /// The next piece, no longer than the filters take at once, and whether it is the last.
    pub(super) fn next(&mut self, body_step: usize) -> (Vec<u8>, bool) {
        let length = self.body.len().min(STEP).min(body_step);
        let piece = self.body.get(..length).unwrap_or_default().to_vec();
        self.body.advance(length);
        (piece, self.body.is_empty())
    }
}
