//! WebSockets (RFC 6455): each frame goes back as it came.

use std::io;

use tidegate_protocol::{
    RequestHead,
    websocket::{self, CLOSE, FIN, Frame, PING, PONG, written},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::patience::in_time;

const MAX_FRAME: usize = 1 << 20;
const PIECE: u64 = 16 * 1024;

/// The key of a request that asks for a WebSocket.
pub(crate) fn key(head: &RequestHead) -> Option<&[u8]> {
    let asks = head.headers.get("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    head.headers.get("sec-websocket-key").filter(|_| asks && head.connection.upgrade)
}

pub(crate) fn accepted(key: &[u8]) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        websocket::accept(key)
    )
}

pub(crate) async fn echo<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut received: Vec<u8>,
) -> io::Result<()> {
    loop {
        while let Some(frame) = Frame::take(&mut received, MAX_FRAME) {
            let (reply, is_last) = match frame {
                Ok(frame) => reply(&frame),
                Err(code) => (written(FIN | CLOSE, &code.to_be_bytes()), true),
            };
            in_time(stream.write_all(&reply)).await?;
            if is_last {
                return in_time(stream.shutdown()).await;
            }
        }
        // A WebSocket may be silent for as long as its client likes.
        if (&mut stream).take(PIECE).read_buf(&mut received).await? == 0 {
            return Ok(());
        }
    }
}

/// What to send, and whether it is the last.
fn reply(frame: &Frame) -> (Vec<u8>, bool) {
    match frame.opcode() {
        CLOSE => (written(frame.first, &frame.payload), true),
        PING => (written(FIN | PONG, &frame.payload), false),
        PONG => (Vec::new(), false),
        _ => (written(frame.first, &frame.payload), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_goes_back() {
        let ping = Frame { first: 0x89, payload: b"p".to_vec() };
        assert_eq!(reply(&ping), (b"\x8a\x01p".to_vec(), false));
        let hello = Frame { first: 0x81, payload: b"Hello".to_vec() };
        assert_eq!(reply(&hello), (b"\x81\x05Hello".to_vec(), false));
        assert!(accepted(b"dGhlIHNhbXBsZSBub25jZQ==").contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }
}
