//! The gateway's own ports, for conditions on `server_port`.

use tidegate_config::{Listener, Settings};

/// The ports of the gateway that a URL without one means.
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(super) http: u16,
    pub(super) https: u16,
}

impl Ports {
    /// The first of each kind.
    pub(crate) fn of(settings: &Settings) -> Ports {
        let first = |listeners: &[Listener], otherwise: u16| {
            listeners.iter().map(|listener| listener.port).find(|port| *port > 0).unwrap_or(otherwise)
        };
        let tls = &settings.apisix.tls;
        Ports {
            http: first(&settings.apisix.node_listen, 80),
            https: first(if tls.enable { &tls.listen } else { &[] }, 443),
        }
    }
}
