//! What several plugins need.

pub mod auth;
pub mod conf;
pub mod number;
pub mod regexes;
