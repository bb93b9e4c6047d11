//! Methods as bits.

/// A set of the methods a route may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Methods(u16);

impl Methods {
    /// None. A route without `methods` has all.
    pub const EMPTY: Methods = Methods(0);
    const NAMES: [&str; 10] =
        ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];

    /// The set of one; empty for a method that routes cannot name.
    pub fn of(name: &str) -> Self {
        let position = Self::NAMES.iter().position(|known| *known == name);
        position.map_or(Self::EMPTY, |position| Self(1 << position))
    }

    /// Both sets together.
    pub fn with(self, other: Methods) -> Self {
        Self(self.0 | other.0)
    }

    /// True when `other` is not empty and all of it is in this set.
    pub fn contains(self, other: Methods) -> bool {
        other.0 != 0 && self.0 & other.0 == other.0
    }

    /// Whether no method is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl<'a> FromIterator<&'a str> for Methods {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        names.into_iter().fold(Self::EMPTY, |set, name| set.with(Self::of(name)))
    }
}
