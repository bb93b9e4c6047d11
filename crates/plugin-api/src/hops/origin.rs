//! What is known of the way of a request.

use std::sync::OnceLock;

use crate::Request;

/// Where this process listens, and how often a request may come back (`apisix.max_own_hops`).
#[derive(Debug)]
pub(super) struct Own {
    pub(super) ports: Box<[u16]>,
    pub(super) limit: u32,
}

pub(super) static OWN: OnceLock<Own> = OnceLock::new();

/// What is known of the way of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// How often the gateway has sent it to itself.
    pub(super) hops: u32,
    /// How many of these were side requests: made by a plugin, not the client's own request on its way.
    pub(super) side: u32,
    /// A batch of a logger or of a tracer, or made because of one.
    pub(super) of_delivery: bool,
    /// By a ticket: no client has written it.
    pub(super) is_proved: bool,
}

impl Origin {
    /// Whether log entries about it would cause a loop: a delivery of logs that is itself logged never ends.
    pub fn is_of_delivery(self) -> bool {
        self.of_delivery
    }
}

/// Whether one of our sockets has this port.
pub(super) fn is_own_port(port: u16) -> bool {
    OWN.get().is_some_and(|own| own.ports.contains(&port))
}

/// As the request came: the field that a first attempt wrote must not count for the second.
pub fn origin(request: &Request) -> Origin {
    request.extensions.get::<Origin>().copied().unwrap_or_default()
}
