//! What several plugins need.

pub mod auth;
pub(crate) mod basic_credentials;
pub(crate) mod batch_logger;
pub(crate) mod clickhouse;
pub mod clock;
pub mod compression;
pub mod conf;
pub(crate) mod content_coding;
pub(crate) mod decompress;
pub(crate) mod deliver;
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
pub(crate) mod protobuf;
pub mod regexes;
pub(crate) mod rfc5424;
pub(crate) mod sampled;
pub mod schemas;
pub mod shards;
pub mod skip;
pub(crate) mod skywalking;
pub mod spent;
#[cfg(test)]
pub(crate) mod test_request;
pub mod token_cache;
pub(crate) mod turns;
pub mod uuid;
pub(crate) mod variable_text;
