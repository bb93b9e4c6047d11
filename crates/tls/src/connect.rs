//! The handshake with a server, and the explanation of its failure.

use std::{
    future::{Future, poll_fn},
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{io::ReadBuf, net::TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::reason;

/// Enough to recognise HTTP.
const FIRST_BYTES: usize = 5;

/// Connects as a TLS client. The error is worded for the log. The caller sets the time limit.
pub async fn connect(
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let address = stream.peer_addr();
    let mut first = [0; FIRST_BYTES];
    let mut seen = 0;
    let mut handshake = pin!(TlsConnector::from(config).connect(name, stream));
    let done = poll_fn(|context| {
        if seen == 0
            && let Some(stream) = handshake.get_ref()
        {
            seen = peek(stream, context, &mut first);
        }
        handshake.as_mut().poll(context)
    })
    .await;
    done.map_err(|error| {
        let server = address.map_or_else(|_| "the server".to_owned(), |it| format!("the server at {it}"));
        explain(&error, &server, first.get(..seen).unwrap_or_default())
    })
}

/// The first bytes of an answer, without consuming them: the library does not show what it failed to parse.
fn peek(stream: &TcpStream, context: &mut Context<'_>, first: &mut [u8]) -> usize {
    let mut buffer = ReadBuf::new(first);
    match stream.poll_peek(context, &mut buffer) {
        Poll::Ready(Ok(length)) => length,
        _ => 0,
    }
}

/// The message for an error of a handshake; `first`: the first bytes of the server's answer.
pub fn explain(error: &io::Error, server: &str, first: &[u8]) -> io::Error {
    let text = match first {
        [b'H', b'T', b'T', b'P', b'/'] => format!("{server} speaks plain HTTP, not TLS"),
        [] | [20..=24, 3, ..] => reason(error),
        _ => format!("{server} does not speak TLS: {}", reason(error)),
    };
    io::Error::new(error.kind(), text)
}

/// Whether an answer that should be HTTP is a TLS record: an alert or the like, RFC 8446 section 5.1.
pub fn speaks_tls(answer: &[u8]) -> bool {
    matches!(answer, [20..=23, 3, 0..=4, ..])
}

/// Whether an answer of status 400 to plain HTTP shows that its server wants TLS: nginx, Apache, Go.
pub fn wants_tls(body: &[u8]) -> bool {
    let says = |words: &[u8]| body.windows(words.len()).any(|window| window == words);
    says(b"plain HTTP request was sent to HTTPS port")
        || says(b"speaking plain HTTP to an SSL-enabled server port")
        || says(b"sent an HTTP request to an HTTPS server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_speaks_is_told_by_its_first_bytes() {
        let error = || io::Error::from(io::ErrorKind::InvalidData);
        let text = |first: &[u8]| explain(&error(), "the server at 192.0.2.1:80", first).to_string();
        assert_eq!(text(b"HTTP/"), "the server at 192.0.2.1:80 speaks plain HTTP, not TLS");
        assert!(text(b"SSH-2").starts_with("the server at 192.0.2.1:80 does not speak TLS"));
        assert_eq!(text(&[21, 3, 3, 0, 2]), "invalid data");
        assert!(speaks_tls(&[21, 3, 3, 0, 2, 2, 70]));
        assert!(!speaks_tls(b"HTTP/1.1 200 OK"));
        assert!(wants_tls(b"Client sent an HTTP request to an HTTPS server.\n"));
        assert!(!wants_tls(b"bad request"));
    }
}
