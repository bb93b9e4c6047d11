//! The facts of a session's connection.

use std::{net::SocketAddr, rc::Rc};

use tidegate_plugin_api::connection::{ConnectionInfo, ProxyHeader, TlsFacts};

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
        inner_client: None,
        tls: tls.map(Rc::new),
        proxy_header: proxy_header.map(Box::new),
        requests: Default::default(),
        at_end: Default::default(),
    })
}
