//! What several plugins need.

pub mod auth;
pub mod basic_credentials;
pub mod conf;
pub mod http_client;
pub mod jws;
pub mod nginx_base64;
pub mod compression;
pub mod conf;
pub mod content_coding;
pub mod form;
pub mod header_edits;
pub mod held_body;
pub mod instance_state;
pub mod json;
pub mod number;
pub mod regexes;
pub mod clock;
pub mod conf;
pub mod limit_key;
pub mod number;
pub mod redis_client;
pub mod shards;
pub mod skip;
pub mod hex;
pub mod number;
#[cfg(test)]
pub mod test_request;
