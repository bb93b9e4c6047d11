//! WebSockets (RFC 6455): each frame goes back as it came.

use std::io;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, engine::general_purpose::STANDARD};
use tidegate_protocol::RequestHead;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::patience::in_time;

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const MAX_FRAME: u64 = 1 << 20;
const PIECE: u64 = 16 * 1024;

const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const OPCODE: u8 = 0x0f;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Codes of section 7.4.1.
const PROTOCOL_ERROR: u16 = 1002;
const TOO_BIG: u16 = 1009;

/// The key of a request that asks for a WebSocket.
pub(crate) fn key(head: &RequestHead) -> Option<&[u8]> {
    let asks = head.headers.get("upgrade").is_some_and(|value| value.eq_ignore_ascii_case(b"websocket"));
    head.headers.get("sec-websocket-key").filter(|_| asks && head.connection.upgrade)
}

pub(crate) fn accepted(key: &[u8]) -> String {
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat()));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

pub(crate) async fn echo<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    mut received: Vec<u8>,
) -> io::Result<()> {
    loop {
        while let Some(frame) = Frame::take(&mut received) {
            let (reply, is_last) = match frame {
                Ok(frame) => frame.reply(),
                Err(code) => (written(0x80 | CLOSE, &code.to_be_bytes()), true),
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

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    /// FIN and the opcode.
    first: u8,
    payload: Vec<u8>,
}

impl Frame {
    /// The first frame of what was received, if it is whole; the code to close with, if it is not allowed.
    fn take(received: &mut Vec<u8>) -> Option<Result<Frame, u16>> {
        let &[first, second, ref rest @ ..] = received.as_slice() else { return None };
        if first & RESERVED != 0 || second & MASKED == 0 {
            return Some(Err(PROTOCOL_ERROR));
        }
        let (head, length) = match (second & !MASKED, rest) {
            (126, &[a, b, ..]) => (4, u64::from(u16::from_be_bytes([a, b]))),
            (127, &[a, b, c, d, e, f, g, h, ..]) => (10, u64::from_be_bytes([a, b, c, d, e, f, g, h])),
            (126 | 127, _) => return None,
            (short, _) => (2, u64::from(short)),
        };
        if length > MAX_FRAME {
            return Some(Err(TOO_BIG));
        }
        let end = head + 4 + usize::try_from(length).ok()?;
        let mask = received.get(head..head + 4)?.to_vec();
        let masked = received.get(head + 4..end)?;
        let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        received.drain(..end);
        Some(Ok(Frame { first, payload }))
    }

    /// What to send, and whether it is the last.
    fn reply(self) -> (Vec<u8>, bool) {
        match self.first & OPCODE {
            CLOSE => (written(self.first, &self.payload), true),
            PING => (written(0x80 | PONG, &self.payload), false),
            PONG => (Vec::new(), false),
            _ => (written(self.first, &self.payload), false),
        }
    }
}

/// As servers send them: without a mask.
fn written(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len();
    let mut out = vec![first];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.push(short),
        (_, Ok(middle)) => {
            out.push(126);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1.3 of the RFC.
    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        assert!(accepted(b"dGhlIHNhbXBsZSBub25jZQ==").contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn frames_are_taken_whole_and_unmasked() {
        // Section 5.7: a masked "Hello".
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        for end in 0..hello.len() {
            assert_eq!(Frame::take(&mut hello[..end].to_vec()), None, "{end}");
        }
        let frame = Frame::take(&mut hello.to_vec()).and_then(Result::ok).expect("whole");
        assert_eq!(frame.payload, b"Hello");
        assert_eq!(frame.reply(), (b"\x81\x05Hello".to_vec(), false));
        for (frame, code) in [
            (&[0x81, 0x05][..], PROTOCOL_ERROR),
            (&[0xc1, 0x80, 0, 0, 0, 0], PROTOCOL_ERROR),
            (&[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0], TOO_BIG),
        ] {
            assert_eq!(Frame::take(&mut frame.to_vec()), Some(Err(code)), "{frame:?}");
        }
        let ping = Frame { first: 0x89, payload: b"p".to_vec() };
        assert_eq!(ping.reply(), (b"\x8a\x01p".to_vec(), false));
        assert_eq!(written(0x82, &[0; 126])[..4], [0x82, 126, 0, 126]);
        assert_eq!(written(0x82, &[0; 70_000])[..4], [0x82, 127, 0, 0]);
    }
}
