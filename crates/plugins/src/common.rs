//! What several plugins need.

pub mod auth;
pub mod clock;
pub mod conf;
pub mod limit_key;
pub mod number;
pub mod redis_client;
pub mod shards;
pub mod skip;
