//! Why a document is not read.

use std::fmt;

/// A document exceeds its memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLarge {
    /// More than one document may take.
    Limit(usize),
    /// More than is left for all.
    Spent,
    /// It takes too long, see [`Allowance::until`].
    Late,
}

impl TooLarge {
    /// What a client gets whose body it is.
    pub fn status(self) -> u16 {
        match self {
            TooLarge::Limit(_) => 413,
            TooLarge::Spent | TooLarge::Late => 503,
        }
    }
}

impl fmt::Display for TooLarge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooLarge::Limit(limit) => {
                write!(formatter, "the body takes more than {limit} bytes of memory when parsed")
            }
            TooLarge::Late => formatter.write_str("there is no time left to read the body"),
            TooLarge::Spent => formatter.write_str("there is no memory left for request bodies"),
        }
    }
}

/// Why a text is not a document.
#[derive(Debug)]
pub enum Unread {
    /// Not JSON (RFC 8259), or nested too deep.
    Syntax(serde_json::Error),
    /// Reading stopped before the end.
    TooLarge(TooLarge),
}

impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Syntax(error) => error.fmt(formatter),
            Unread::TooLarge(error) => error.fmt(formatter),
        }
    }
}

impl From<TooLarge> for Unread {
    fn from(error: TooLarge) -> Unread {
        Unread::TooLarge(error)
    }
}
