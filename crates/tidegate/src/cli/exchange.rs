//! One request over HTTP by a verb, to a gateway or to nginx, on a new connection.

use std::{io, net::ToSocketAddrs, time::Duration};

use tidegate_clients::verbatim::{Connection, Excess, Limits, VerbatimResponse};
use tokio::{net::TcpStream, time::timeout};

/// What may be waited for at each step, and what is kept of the answer's body.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub wait: Duration,
    pub body_bytes: usize,
    pub excess: Excess,
}

/// Bytes of a request that a server takes in a second at least.
const LEAST_WRITE_RATE: usize = 64 << 10;

/// Sends `request`, which is a whole message that asks for the end of the connection.
pub(super) fn exchange(
    to: impl ToSocketAddrs,
    method: &str,
    request: &[u8],
    bounds: Bounds,
) -> io::Result<VerbatimResponse> {
    let Bounds { wait, body_bytes, excess } = bounds;
    let address = to.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let stream =
            timeout(wait, TcpStream::connect(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let write = wait + Duration::from_secs((request.len() / LEAST_WRITE_RATE) as u64);
        Connection::new(stream, Limits { write, wait }).exchange(method, request, body_bytes, excess).await
    })
}

/// Where a listener is reached from this machine.
pub(super) fn reachable(ip: &str) -> &str {
    match ip {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        ip => ip,
    }
}
