//! What plugins change of the request that goes upstream.

use std::sync::Arc;

use smallvec::SmallVec;
use tidegate_protocol::{HeaderId, Method};

use crate::upstream::{Timeouts, UpstreamHandle};

/// Changes of plugins to the request upstream. Unset: as the client asked.
#[derive(Default)]
pub struct UpstreamEdits {
    /// Raw target (path and query) to send.
    pub target: Option<Vec<u8>>,
    /// `Host` of the request to the node, in place of `pass_host`.
    pub host: Option<Vec<u8>>,
    /// In place of the client's.
    pub method: Option<Method>,
    /// Used instead of the route's upstream.
    pub upstream: Option<Arc<UpstreamHandle>>,
    /// In place of the route's and the upstream's.
    pub timeouts: Option<Timeouts>,
    /// `X-Forwarded-*` fields that a plugin removed: the gateway does not add them.
    pub without: SmallVec<[HeaderId; 0]>,
    /// `proxy-control`: the body goes to the node as it comes, from its first byte.
    pub unbuffered_body: bool,
    /// `proxy-buffering`: no plugin keeps back what it has of the answer to make more of it.
    pub unbuffered_answer: bool,
}

/// The headers that plugins have set with [`crate::Request::assert_header`].
#[derive(Default)]
pub struct Asserted {
    pub(crate) names: SmallVec<[Box<[u8]>; 0]>,
    /// No trailer of the client goes upstream, whatever its name.
    pub(crate) all_trailers: bool,
    pub(crate) others_dropped: usize,
}

impl Asserted {
    /// Whether the name is one of them, to an upstream that folds signs.
    pub fn contains(&self, name: &[u8]) -> bool {
        self.all_trailers || self.names.iter().any(|known| tidegate_protocol::claims::same_name(known, name))
    }

    /// Fields of the client that were dropped although they were spelled otherwise.
    pub fn others_dropped(&self) -> usize {
        self.others_dropped
    }
}
