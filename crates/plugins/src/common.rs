//! What several plugins need.

pub mod auth;
pub(crate) mod basic_credentials;
pub(crate) mod batch_logger;
pub mod clock;
pub mod compression;
pub mod conf;
pub(crate) mod content_coding;
pub(crate) mod decompress;
pub mod form;
pub(crate) mod header_edits;
pub(crate) mod held_body;
pub(crate) mod instance_id;
pub(crate) mod instance_state;
pub mod json;
pub(crate) mod limit_key;
pub(crate) mod log_entry;
pub mod log_format;
pub mod number;
pub(crate) mod outage;
pub mod regexes;
pub mod schemas;
pub mod shards;
pub mod skip;
pub mod spent;
#[cfg(test)]
pub(crate) mod test_request;
pub mod token_cache;
pub mod uuid;
