//! What is to be said of a key.

/// A key, and what is to be said of its value.
pub(crate) type Said = (String, String);
