//! What several plugins need.

pub mod auth;
pub mod basic_credentials;
pub mod batch;
pub mod batch_logger;
pub mod conf;
pub mod decompress;
pub mod hex;
pub mod http_client;
pub mod log_entry;
pub mod log_format;
pub mod nginx_base64;
pub mod number;
pub mod socket_sink;
#[cfg(test)]
pub mod test_request;
