//! The facts of a session's connection.

use std::{net::SocketAddr, rc::Rc};

use tidegate_plugin_api::connection::{ConnectionInfo, ProxyHeader, Rare, TlsFacts};

use crate::worker::Worker;

/// Of a client of this worker.
pub(super) fn facts(
    worker: &Worker,
    peer: SocketAddr,
    local: SocketAddr,
    proxy_header: Option<ProxyHeader>,
    tls: Option<TlsFacts>,
) -> Rc<ConnectionInfo> {
    Rc::new(ConnectionInfo {
        id: worker.connection_id(),
        peer,
        local,
        tls: tls.map(Rc::new),
        requests: Default::default(),
        rare: Rare::announced(proxy_header),
    })
}
