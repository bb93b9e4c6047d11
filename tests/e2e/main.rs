//! Black-box tests: the built binary as a process, raw sockets on both sides. One test binary.
//!
//! The request tables ([`valid`], [`malformed`], [`smuggling`], [`chunks`], [`limits`]) go through
//! [`case::check`]; what needs a conversation is in [`connections`] and [`responses`]. [`tidy`] reads the
//! sources instead of running anything.

mod audit;
mod bench;
mod bench_ahead;
mod bench_diagnosis;
mod caching;
mod case;
mod certs;
mod changes;
mod chunks;
mod compression;
mod connections;
mod differential;
mod discovery;
mod downgrade;
mod downgrade_cases;
mod etcd;
mod explain;
mod first_run;
mod forwarding;
mod fuzz_replay;
mod gathering;
mod grpc;
mod grpc_peer;
mod history;
mod http2;
mod http2_floods;
mod imports;
mod leaving;
mod limits;
mod locations;
mod lost_store;
mod malformed;
mod max_conn;
mod nginx;
mod nginx_files;
mod nginx_rewrites;
mod ocsp;
mod pages;
mod path_escapes;
mod prometheus;
mod proxy_protocol;
mod proxy_protocol_out;
mod proxy_protocol_settings;
mod quota;
mod readings;
mod responses;
mod secrets;
mod secure;
mod servlet;
mod slow_clients;
mod smuggling;
mod stall;
mod static_files;
mod tidy;
mod tls;
mod tls_server;
mod tls_upstream;
mod told;
mod upgrade;
mod user_schemas;
mod valid;
mod websocket;
