//! The way out of an answer.

pub(crate) mod head;
