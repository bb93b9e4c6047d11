//! What converting a part comes to.

/// Why a block is not converted as it stands.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    /// It answers 501.
    Closed(String),
    /// It has to be converted once for each value of this map.
    Split(String),
}

impl Stop {
    pub(crate) fn closed(why: impl Into<String>) -> Stop {
        Stop::Closed(why.into())
    }
}

pub(super) type Made<T> = Result<T, Stop>;
