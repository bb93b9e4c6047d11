//! What several plugins need.

pub mod auth;
pub mod basic_credentials;
pub mod batch_logger;
pub mod clickhouse;
pub mod clock;
pub mod compression;
pub mod conf;
pub mod content_coding;
pub mod decompress;
pub mod deliver;
pub mod form;
pub mod header_edits;
pub mod held_body;
pub mod instance_id;
pub mod instance_state;
pub mod json;
pub mod limit_key;
pub mod log_entry;
pub mod log_format;
pub mod number;
pub mod outage;
pub mod protobuf;
pub mod regexes;
pub mod rfc5424;
pub mod sampled;
pub mod schemas;
pub mod shards;
pub mod skip;
pub mod skywalking;
pub mod spent;
#[cfg(test)]
pub mod test_request;
pub mod token_cache;
pub mod turns;
pub mod uuid;
pub mod variable_text;
