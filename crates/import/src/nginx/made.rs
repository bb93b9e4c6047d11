//! What converting a part comes to.

/// Why a block is not converted as it stands.
#[derive(Debug, PartialEq)]
pub enum Stop {
    /// It answers 501.
    Closed(String),
    /// It has to be converted once for each value of this map.
    Split(String),
}

impl Stop {
    pub fn closed(why: impl Into<String>) -> Stop {
        Stop::Closed(why.into())
    }
}

pub type Made<T> = Result<T, Stop>;
