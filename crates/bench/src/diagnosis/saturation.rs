//! A server that answers no more, however many ask.

mod closed_loop;
mod full;
mod rate;

pub use closed_loop::closed_loop;
pub use rate::open_model;
