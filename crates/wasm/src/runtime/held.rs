//! A response on its way through a plugin.

use bytes::Bytes;
use tidegate_plugin_api::memory::Lease;

/// What a response has come to.
#[derive(Default)]
pub(super) struct Held {
    /// The callbacks of body and trailers run.
    pub has_bodies: bool,
    /// The last callback paused.
    pub is_paused: bool,
    /// The head waits for the body.
    pub holds_head: bool,
    /// Takes the body's place.
    pub local: Option<Bytes>,
    pub bytes: Vec<u8>,
    pub lease: Option<Lease>,
    /// A callback failed: nothing more runs.
    pub is_refused: bool,
}

impl Held {
    /// Whether the body does not simply pass.
    pub(super) fn takes_body(&self) -> bool {
        self.has_bodies || self.is_paused || self.local.is_some() || self.is_refused
    }
}
