//! HTTP/2 frames by hand, for clients that misbehave. Fields are sent as literals that no table remembers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::PATIENCE;

/// A frame type.
pub const DATA: u8 = 0;
/// A frame type.
pub const HEADERS: u8 = 1;
/// A frame type.
pub const PRIORITY: u8 = 2;
/// A frame type.
pub const RST_STREAM: u8 = 3;
/// A frame type.
pub const SETTINGS: u8 = 4;
/// A frame type.
pub const PING: u8 = 6;
/// A frame type.
pub const GOAWAY: u8 = 7;
/// A frame type.
pub const WINDOW_UPDATE: u8 = 8;
/// A frame type.
pub const CONTINUATION: u8 = 9;

/// A flag of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
/// A flag of SETTINGS and PING.
pub const ACK: u8 = 1;
/// A flag of HEADERS and CONTINUATION.
pub const END_HEADERS: u8 = 4;

/// An error code.
pub const REFUSED_STREAM: u32 = 7;
/// An error code.
pub const CANCEL: u32 = 8;
/// An error code.
pub const ENHANCE_YOUR_CALM: u32 = 11;

/// A frame as it is sent (RFC 9113 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// A frame type, such as [`DATA`].
    pub kind: u8,
    /// Such as [`END_STREAM`].
    pub flags: u8,
    /// 0: the connection.
    pub stream: u32,
    /// Without the head of nine bytes.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The error code of RST_STREAM and GOAWAY.
    pub fn code(&self) -> Option<u32> {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        let bytes = self.payload.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?))
    }
}

/// A connection without TLS that has sent its preface.
#[derive(Debug)]
pub struct Http2Client {
    stream: TcpStream,
}

impl Http2Client {
    /// `settings`: identifiers and values.
    pub fn connect(address: SocketAddr, settings: &[(u16, u32)]) -> io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&address, PATIENCE)?, settings)
    }

    /// As [`Http2Client::connect`], from an address of this machine.
    pub fn connect_from(from: SocketAddr, to: SocketAddr, settings: &[(u16, u32)]) -> io::Result<Self> {
        Self::over(crate::client::socket_from(from, to)?, settings)
    }

    fn over(mut stream: TcpStream, settings: &[(u16, u32)]) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")?;
        let mut client = Http2Client { stream };
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat())
            .collect();
        client.send(SETTINGS, 0, 0, &payload)?;
        Ok(client)
    }

    /// Any frame, valid or not.
    pub fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        self.stream.write_all(&frame(kind, flags, stream, payload))
    }

    /// Raw bytes, such as many frames at once.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// A whole GET.
    pub fn get(&mut self, stream: u32, path: &str) -> io::Result<()> {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path, &[]))
    }

    /// The next frame; an error at the end.
    pub fn read(&mut self) -> io::Result<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, a, b, c, d] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(Frame { kind, flags, stream: u32::from_be_bytes([a, b, c, d]), payload })
    }

    /// Reads until a frame of that kind comes; an error when the connection ends before.
    pub fn wait_for(&mut self, kind: u8) -> io::Result<Frame> {
        loop {
            let frame = self.read()?;
            if frame.kind == kind {
                return Ok(frame);
            }
        }
    }

    /// The next frame that is not of these kinds.
    pub fn read_other_than(&mut self, kinds: &[u8]) -> io::Result<Frame> {
        loop {
            let frame = self.read()?;
            if !kinds.contains(&frame.kind) {
                return Ok(frame);
            }
        }
    }

    /// The second handle on the connection, to read while another thread writes.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Http2Client { stream: self.stream.try_clone()? })
    }
}

/// The bytes of a frame, its head included.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The header block of a request to host `h`.
pub fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", "h"), (":path", path)];
    pseudo.iter().chain(fields).flat_map(|(name, value)| field(name, value)).collect()
}

/// A literal field that is not to be indexed (RFC 7541 section 6.2.2).
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        integer(text.len(), &mut bytes);
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// The status that a block of an answer begins with; only for the first block of a connection, whose table is empty.
pub fn status(headers: &Frame) -> Option<u16> {
    // Padding and priorities are not sent by servers; a change of the table's size may stand first.
    let mut block = headers.payload.as_slice();
    while let Some((first, rest)) = block.split_first().filter(|(first, _)| **first & 0xe0 == 0x20) {
        let longer = first & 0x1f == 0x1f;
        let end = if longer { rest.iter().position(|byte| byte & 0x80 == 0)? + 1 } else { 0 };
        block = rest.get(end..)?;
    }
    let (&first, rest) = block.split_first()?;
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    if let 0x88..=0x8e = first {
        return INDEXED.get(usize::from(first - 0x88)).copied();
    }
    // A literal whose name is the table's eighth, kept or not.
    if !matches!(first, 0x48 | 0x08 | 0x18) {
        return None;
    }
    let (&length, rest) = rest.split_first()?;
    let text = rest.get(..usize::from(length & 0x7f))?;
    let digits = if length & 0x80 == 0 { text.to_vec() } else { unpacked_digits(text) };
    String::from_utf8(digits).ok()?.parse().ok()
}

/// Digits in Huffman's code (RFC 7541 appendix B): 0 to 2 in five bits, the others in six.
fn unpacked_digits(packed: &[u8]) -> Vec<u8> {
    let bits: Vec<u8> = packed.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)).collect();
    let (mut digits, mut rest) = (Vec::new(), bits.as_slice());
    let number = |bits: &[u8]| bits.iter().fold(0_u8, |number, bit| number << 1 | bit);
    loop {
        match (rest.get(..5).map(number), rest.get(..6).map(number)) {
            (Some(short @ 0..=2), _) => {
                digits.push(b'0' + short);
                rest = &rest[5..];
            }
            (_, Some(long @ 0x19..=0x1f)) => {
                digits.push(b'3' + long - 0x19);
                rest = &rest[6..];
            }
            // Padding, or something else.
            _ => return digits,
        }
    }
}

/// With a prefix of seven bits.
fn integer(mut value: usize, bytes: &mut Vec<u8>) {
    if value < 127 {
        bytes.push(value as u8);
        return;
    }
    bytes.push(127);
    value -= 127;
    while value >= 128 {
        bytes.push((value % 128) as u8 | 128);
        value /= 128;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes() {
        assert_eq!(frame(PING, ACK, 0, &[7; 8]), b"\0\0\x08\x06\x01\0\0\0\0\x07\x07\x07\x07\x07\x07\x07\x07");
        assert_eq!(field("a", "bc"), b"\0\x01a\x02bc");
        let mut long = Vec::new();
        integer(1337, &mut long);
        assert_eq!(long, [127, 0x80 | (1210 % 128) as u8, 9]);
        for (payload, expected) in [
            (&b"\x88"[..], Some(200)),
            (b"\x20\x8c", Some(400)),
            (b"\x3f\xe1\x1f\x8d", Some(404)),
            (b"\x48\x03405", Some(405)),
            (b"\x48\x82\x64\x02", Some(302)),
            (b"\x08\x03501", Some(501)),
            (b"\x0f", None),
            (b"", None),
        ] {
            let headers = Frame { kind: HEADERS, flags: 0, stream: 1, payload: payload.to_vec() };
            assert_eq!(status(&headers), expected, "{payload:?}");
        }
        let reset = Frame { kind: RST_STREAM, flags: 0, stream: 1, payload: vec![0, 0, 0, 7] };
        assert_eq!(reset.code(), Some(REFUSED_STREAM));
    }
}
