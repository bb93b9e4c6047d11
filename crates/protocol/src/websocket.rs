//! Frames of WebSockets (RFC 6455), as servers read and write them.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, engine::general_purpose::STANDARD};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The first byte of a frame that is a whole message.
pub const FIN: u8 = 0x80;
/// A further part of a message.
pub const CONTINUATION: u8 = 0;
/// A message of text.
pub const TEXT: u8 = 1;
/// A message of bytes.
pub const BINARY: u8 = 2;
/// The end; its payload may begin with a code.
pub const CLOSE: u8 = 8;
/// Asks for a pong with the same payload.
pub const PING: u8 = 9;
/// Answers a ping.
pub const PONG: u8 = 10;

const OPCODE: u8 = 0x0f;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;

/// Section 7.4.1: a frame that is not allowed.
pub const PROTOCOL_ERROR: u16 = 1002;
/// Section 7.4.1: more than is read.
pub const TOO_BIG: u16 = 1009;

/// `Sec-WebSocket-Accept` for a key of a client.
pub fn accept(key: &[u8]) -> String {
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat()))
}

/// A frame of a client, without its mask.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// FIN and the opcode.
    pub first: u8,
    /// What it carries.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The first frame of what was received, if it is whole; the code to close with, if it is not allowed or longer than `most`.
    pub fn take(received: &mut Vec<u8>, most: usize) -> Option<Result<Frame, u16>> {
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
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= most) else {
            return Some(Err(TOO_BIG));
        };
        let end = head + 4 + length;
        let mask = received.get(head..head + 4)?.to_vec();
        let masked = received.get(head + 4..end)?;
        let payload = masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
        received.drain(..end);
        Some(Ok(Frame { first, payload }))
    }

    /// What kind of frame it is.
    pub fn opcode(&self) -> u8 {
        self.first & OPCODE
    }

    /// Whether no further part of its message follows.
    pub fn is_last(&self) -> bool {
        self.first & FIN != 0
    }
}

/// Appends the head of a frame as servers send it: without a mask.
pub fn write_head(first: u8, length: usize, out: &mut Vec<u8>) {
    out.push(first);
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
}

/// A frame as servers send it.
pub fn written(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + 10);
    write_head(first, payload.len(), &mut out);
    out.extend_from_slice(payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 1 << 20;

    /// Section 1.3 of the RFC.
    #[test]
    fn the_key_is_answered_as_in_the_standard() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn frames_are_taken_whole_and_unmasked() {
        // Section 5.7: a masked "Hello".
        let hello = [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58];
        for end in 0..hello.len() {
            assert_eq!(Frame::take(&mut hello[..end].to_vec(), MOST), None, "{end}");
        }
        let frame = Frame::take(&mut hello.to_vec(), MOST).and_then(Result::ok).expect("whole");
        assert_eq!((frame.opcode(), frame.is_last(), &*frame.payload), (TEXT, true, &b"Hello"[..]));
        for (frame, code) in [
            (&[0x81, 0x05][..], PROTOCOL_ERROR),
            (&[0xc1, 0x80, 0, 0, 0, 0], PROTOCOL_ERROR),
            (&[0x82, 0xff, 0, 0, 0, 0, 1, 0, 0, 0], TOO_BIG),
        ] {
            assert_eq!(Frame::take(&mut frame.to_vec(), MOST), Some(Err(code)), "{frame:?}");
        }
        assert_eq!(Frame::take(&mut hello.to_vec(), 4), Some(Err(TOO_BIG)));
        assert_eq!(written(0x82, &[0; 126])[..4], [0x82, 126, 0, 126]);
        assert_eq!(written(0x82, &[0; 70_000])[..4], [0x82, 127, 0, 0]);
    }
}
