//! What several plugins need.

pub mod auth;
pub mod conf;
pub mod hex;
pub mod number;
#[cfg(test)]
pub mod test_request;
