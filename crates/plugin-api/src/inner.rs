//! Requests that the gateway sends to itself for a client (`batch-requests`).
//!
//! They arrive over a pair of sockets that no peer can reach, with the facts of the outer connection: its peer, its
//! TLS facts, and the address of its client. These never come from a header or a setting.

use std::{cell::OnceCell, io, net::SocketAddr};

use tokio::net::UnixStream;

use crate::{
    Request,
    connection::{ConnectionInfo, Rare},
};

/// Serves a connection on this worker.
pub type Serve = Box<dyn Fn(std::os::unix::net::UnixStream, ConnectionInfo) -> io::Result<()>>;

thread_local! {
    static SERVE: OnceCell<Serve> = const { OnceCell::new() };
}

/// Called by each worker as it starts.
pub fn serve_with(serve: Serve) {
    SERVE.with(|place| drop(place.set(serve)));
}

/// A connection to this worker, whose requests are those of the client of `outer`.
pub fn connect(outer: &Request) -> io::Result<UnixStream> {
    let (near, far) = std::os::unix::net::UnixStream::pair()?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    let client = SocketAddr::new(outer.remote_addr, outer.remote_port);
    let facts = ConnectionInfo {
        id: outer.connection.id,
        peer: outer.connection.peer,
        local: outer.connection.local,
        tls: outer.connection.tls.clone(),
        requests: Default::default(),
        rare: Rare::inner(client, outer.connection.proxy_header().copied()),
    };
    SERVE.with(|serve| match serve.get() {
        Some(serve) => serve(far, facts),
        None => Err(io::Error::other("there is no worker here")),
    })?;
    UnixStream::from_std(near)
}
