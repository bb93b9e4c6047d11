//! Trust in TLS peers: the one verifier for upstreams, etcd, Redis, Kafka, LDAP, registries, the servers of
//! loggers and of secrets, the clients of our own ports and those of the Admin API.
//!
//! ```text
//! leaf --+-- X.509 v3, not an authority --> webpki builds the path --+--> policy --> name (servers only)
//!        +-- v1, CA:TRUE or itself trusted --> path.rs builds it ----+
//! ```
//!
//! Verdicts follow OpenSSL's (security level 2, as Debian builds it), because that is what APISIX verifies with. Where
//! they differ, `docs/guide/tls.md` says why; `tests/e2e/protocols/trust.rs` compares them. Revocation is not checked.
//!
//! A separate crate because upstreams, etcd and the load generator need it and none of them may use another.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod anchors;
mod any;
mod certificate;
mod client;
mod config;
mod connect;
mod distinguished_name;
mod key_pair;
mod name;
mod path;
mod policy;
mod purpose;
mod refusal;
mod server;
mod signature;

pub use anchors::Anchors;
use any::AnyCertificate;
pub use certificate::{Certificate, Unreadable};
pub use client::ClientVerifier;
pub use config::{Trust, client_config};
pub use connect::{connect, explain, speaks_tls, wants_tls};
pub use distinguished_name::{one_line, rfc2253};
pub use key_pair::{PairError, certified_key, single};
pub use purpose::Purpose;
pub use refusal::{openssl_words, reason};
use server::ServerVerifier;
