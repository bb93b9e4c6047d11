//! What objects and keys of the configuration do, where they come from, and what is refused of them.

mod apisix_details;
mod changes;
mod claims;
pub(crate) mod closed;
mod config_keys;
mod contested;
mod dead_nodes;
mod discovery;
mod edits;
pub(crate) mod etcd;
mod explain;
mod header_texts;
mod idle_keys;
mod loops;
mod masked;
mod max_conn;
mod never;
mod probes;
mod rebinding;
pub(crate) mod secrets;
mod servlet;
mod star_paths;
mod told;
mod unread;
mod user_schemas;
mod verdicts;
