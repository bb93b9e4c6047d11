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

/// The client's preface and an empty SETTINGS frame (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A server that says nothing to the preface until then is left to the run.
const PREFACE_ANSWER: Duration = Duration::from_secs(1);

/// Connects, and shakes hands where there is TLS.
pub fn check(plan: &Plan) -> Result<(), Problem> {
    let mut stream = Stream::connect(plan)?;
    let Some(tls) = &plan.tls else {
        return match plan.protocol {
            Protocol::Http2 => speaks_http2(&mut stream, plan),
            _ => Ok(()),
        };
    };
    let failed = |why: String| {
        // What a server without TLS answers to a hello.
        let (why, hint) = match why.to_lowercase().contains("invalidcontenttype") {
            true => ("the server speaks plain HTTP".to_owned(), "use http://"),
            false => (why, "--cacert FILE trusts another authority, --insecure trusts every certificate"),
        };
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

/// Without TLS nothing is agreed on: a server without HTTP/2 shows it by its answer to the preface.
fn speaks_http2(stream: &mut Stream, plan: &Plan) -> Result<(), Problem> {
    let _ = stream.set_read_timeout(PREFACE_ANSWER);
    let mut start = [0; 5];
    let answered = stream.write_all(PREFACE).and_then(|()| stream.read_exact(&mut start));
    let server = plan.origin.host_field();
    let why = match answered {
        Ok(()) if start == *b"HTTP/" => "answers with HTTP/1 to the start of HTTP/2",
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => {
            "closes connections that begin with HTTP/2"
        }
        _ => return Ok(()),
    };
    Err(Problem::unreachable(format!("{server} {why}; leave out --http2 (gRPC needs it)")))
}
