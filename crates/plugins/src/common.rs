//! What several plugins need.

pub mod auth;
pub mod basic_credentials;
pub mod conf;
pub mod http_client;
pub mod jws;
pub mod nginx_base64;
pub mod number;
