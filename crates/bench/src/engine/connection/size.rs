//! How much is sent ahead of answers.

/// Answers up to this size are small: they fit the buffer several times over.
pub(super) const SMALL: u64 = 8 * 1024;

/// What is asked for; the system doubles it. The difference is some kilobytes of window, more than its granularity
/// of 1 KB at most with usual limits.
pub(super) const NARROW: usize = 32 * 1024;

pub(super) const WIDE: usize = 36 * 1024;

/// For a connection whose answers turn out to be large. The system gives at most `net.core.rmem_max`.
pub(super) const LARGE: usize = 4 * 1024 * 1024;

/// How large the answers of a connection are, in bytes on the wire.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// Of the one under way, so far.
    pub current: u64,
    /// Of the one before; 0: none yet.
    pub(super) last: u64,
    pub(super) buffer: Buffer,
    /// Whether it is among the undecided.
    pub(super) is_undecided: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Buffer {
    /// As the system sizes it.
    #[default]
    Automatic,
    Narrow,
    Large,
}

impl Size {
    /// An answer is whole.
    pub(super) fn learn(&mut self) {
        self.last = std::mem::take(&mut self.current);
    }
}
