//! A server whose throughput does not grow with more clients.

mod closed_loop;
mod full;
mod rate;

pub(crate) use closed_loop::closed_loop;
pub(crate) use rate::open_model;
