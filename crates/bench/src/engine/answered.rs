//! One answer.

/// A whole answer and the times of its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub now: u64,
    pub sent: u64,
    pub due: u64,
    /// 0: when the last byte came.
    pub first_byte: u64,
    pub status: u16,
    /// Which of the plan's requests it was.
    pub request: u32,
}
