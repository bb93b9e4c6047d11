//! HTTP/1, HTTP/2, gRPC, WebSocket, TLS and the PROXY protocol, with clients and with upstreams.
//!
//! The request tables ([`valid`], [`malformed`], [`smuggling`], [`chunks`], [`limits`]) go through [`case::check`]; what needs a
//! conversation is in [`connections`] and [`responses`].

mod case;
pub(crate) mod certs;
mod chunks;
mod connections;
mod crowded;
mod differential;
mod downgrade;
mod downgrade_cases;
mod early_answers;
mod even_workers;
mod final_status;
mod forwarding;
mod gathering;
mod grpc;
pub(crate) mod grpc_peer;
mod half_handshakes;
mod hash_flood;
mod http2;
mod http2_floods;
mod http2_storms;
mod http2_trailers;
mod interim_answers;
mod kong_client_certificate;
mod leaving;
mod limits;
mod lingering;
mod malformed;
mod mtls;
mod ocsp;
mod proxy_protocol;
mod proxy_protocol_out;
mod proxy_protocol_settings;
mod readings;
mod refused;
mod responses;
mod robustness;
pub(crate) mod secure;
mod silence;
mod slow_clients;
mod slow_readers;
mod smuggling;
mod stream;
mod tls;
mod tls_server;
mod tls_upstream;
mod trust;
mod turns;
mod untaken;
mod upstream_windows;
mod valid;
mod websocket;
