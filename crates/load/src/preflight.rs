//! One connection before a run, so that a target that cannot be reached is an error at once and not a report of zeros.

mod stream;

use std::{
    io::{ErrorKind, Read, Write},
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConnection, StreamOwned};

use self::stream::Stream;
use crate::{Plan, Problem, Protocol, engine::failure::plain, tls::server_name};

/// Connects, and shakes hands where there is TLS.
pub fn check(plan: &Plan) -> Result<(), Problem> {
    let stream = Stream::connect(plan)?;
    let Some(tls) = &plan.tls else { return Ok(()) };
    let failed = |why: String| {
        let hint = "--cacert FILE trusts another authority, --insecure trusts every certificate";
        Problem::unreachable(format!("TLS with {}: {why}; {hint}", plan.origin.host_field()))
    };
    let session = ClientConnection::new(Arc::clone(tls), server_name(&plan.origin)?)
        .map_err(|error| failed(error.to_string()))?;
    let mut stream = StreamOwned::new(session, stream);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| failed(plain(&error)))?;
    }
    if plan.protocol == Protocol::Http2 && stream.conn.alpn_protocol() != Some(b"h2".as_slice()) {
        return Err(Problem::unreachable(format!(
            "{} does not offer HTTP/2 (h2 in ALPN); leave out --http2",
            plan.origin.host_field()
        )));
    }
    // A server that asks for a client certificate says no only after the handshake of TLS 1.3.
    let _ = stream.sock.set_read_timeout(Duration::from_millis(20));
    let _ = stream.flush();
    match stream.read(&mut [0]) {
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(failed(plain(&error))),
        _ => Ok(()),
    }
}
