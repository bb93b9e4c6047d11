//! How much of answers may arrive before clients have taken any.

/// Upper limit of streams on a connection, even if the node allows more.
pub(super) const MOST_STREAMS: usize = 128;

const FULL_WINDOW_BYTES: u32 = 64 * 1024;

const SMALL_WINDOW_BYTES: u32 = 8 * 1024;

/// How much of an answer may arrive before the client has taken any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Full,
    /// For clients that have left much of other answers untaken.
    Small,
}

impl Window {
    pub(crate) fn bytes(self) -> u32 {
        match self {
            Window::Full => FULL_WINDOW_BYTES,
            Window::Small => SMALL_WINDOW_BYTES,
        }
    }
}
