//! The way out of an answer.

pub(crate) mod head;
pub(crate) mod outgoing;
pub(crate) mod remade;
