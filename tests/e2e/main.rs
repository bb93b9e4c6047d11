//! Black-box tests: the built binary as a process, raw sockets on both sides. One test binary.
//!
//! The request tables ([`valid`], [`malformed`], [`smuggling`], [`chunks`], [`limits`]) go through
//! [`case::check`]; what needs a conversation is in [`connections`] and [`responses`]. [`tidy`] reads the
//! sources instead of running anything.

mod bench;
mod bench_diagnosis;
mod case;
mod certs;
mod changes;
mod chunks;
mod compression;
mod connections;
mod differential;
mod etcd;
mod explain;
mod first_run;
mod fuzz_replay;
mod grpc;
mod grpc_peer;
mod history;
mod http2;
mod http2_floods;
mod imports;
mod limits;
mod malformed;
mod nginx;
mod ocsp;
mod pages;
mod prometheus;
mod proxy_protocol;
mod quota;
mod readings;
mod responses;
mod secrets;
mod secure;
mod slow_clients;
mod smuggling;
mod tidy;
mod tls;
mod tls_server;
mod tls_upstream;
mod valid;
mod websocket;
