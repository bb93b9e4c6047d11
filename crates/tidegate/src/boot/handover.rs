//! One process takes over from another: sockets, pid file and store change hands, and no request is lost.
//!
//! ```text
//! old                                          new
//!  | starts it, stdin is the channel            |
//!  |-- Sockets (descriptors, pid file) -------->| reads config.yaml, compiles plugins
//!  |<------------------------------- Store -----|
//!  | closes the database; writes answer 503     |
//!  |-- StoreReleased -------------------------->| loads, compiles, opens what is new
//!  |<---------------------------- Prepared -----|
//!  |-- Serve ---------------------------------->| accepts; both do for a moment
//!  |<----------------------------- Serving -----|
//!  | stops accepting, closes its APIs           |
//!  |-- Alone ---------------------------------->| opens its APIs
//!  | drains                                     |
//! ```
//!
//! Up to `Serving` the new process can fail, which it says with `Failed` or by ending, and the old one takes the store
//! back and continues. When the old one ends instead, the new one continues as if started alone.

pub(crate) mod channel;
pub(crate) mod predecessor;
pub(crate) mod successor;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Set for a process that is to take over; its stdin is the channel.
pub(crate) const VARIABLE: &str = "TIDEGATE_HANDOVER";

/// Raised when an older or newer program could no longer understand the other.
pub(crate) const PROTOCOL: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub(crate) enum Message {
    /// With the pid file, in the first one, and listening sockets. `more`: another one follows.
    Sockets {
        protocol: u32,
        more: bool,
    },
    Store,
    /// With the document of the API-driven mode, if there is one.
    StoreReleased,
    /// `left`: addresses whose sockets the new process has no use for. `objects`: how many it has, if it says so.
    Prepared {
        version: String,
        left: Vec<SocketAddr>,
        #[serde(default)]
        objects: Option<usize>,
    },
    Serve,
    Serving,
    /// The old process accepts nothing any more: what is written from now on is met by every new connection.
    Alone,
    Failed {
        reason: String,
    },
}
