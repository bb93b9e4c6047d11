//! The PROXY protocol in front of a client's first byte.
//!
//! Only on ports that are opened for it: there a connection without a header is closed, so that nobody can slip past
//! the balancer. What the header says becomes the client's address only where configuration believes the peer.

use std::io;

use tokio::{io::AsyncReadExt, net::TcpStream};
use wire::proxy_protocol::{Announced, Decoder};

/// Bytes looked at together; most headers are shorter.
const LOOK: usize = 256;

/// Takes the header off the stream and not a byte more, so that TLS finds its first one: what has come is looked at
/// before it is taken. `None`: the balancer speaks for itself, or knows no address.
///
/// Without a time limit of its own: the caller has one.
pub async fn read(stream: &mut TcpStream) -> io::Result<Option<Announced>> {
    let mut decoder = Decoder::default();
    let mut room = [0; LOOK];
    loop {
        let count = stream.peek(&mut room).await?;
        let seen = room.get(..count).unwrap_or_default();
        if seen.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let progress = decoder.push(seen).map_err(malformed)?;
        // At once: it is there.
        stream.read_exact(room.get_mut(..progress.used).unwrap_or_default()).await?;
        if let Some(announced) = progress.header {
            return Ok(announced);
        }
    }
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}
