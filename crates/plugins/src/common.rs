//! What several plugins need.

pub mod auth;
pub mod conf;
pub mod header_edits;
pub mod held_body;
pub mod instance_state;
pub mod number;
pub mod regexes;
