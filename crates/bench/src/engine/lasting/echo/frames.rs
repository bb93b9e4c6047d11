//! Frames (RFC 6455 section 5): those of a client are masked, those of a server are not.

pub(super) const TEXT: u8 = 1;
pub(super) const CLOSE: u8 = 8;
pub(super) const PONG: u8 = 10;
/// Of a frame that a client sends.
pub(crate) const MAX_HEAD: usize = 14;

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const PING: u8 = 9;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MAX_CONTROL_BYTES: usize = 125;
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// What a server says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Message(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    /// The code and the reason, in words.
    Close(String),
}

/// Puts messages together.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// What came of the message under way.
    message: Vec<u8>,
    is_inside: bool,
}

impl Reader {
    /// Takes a frame from `input`, if a whole one is there: how many bytes are used up, and what was said.
    ///
    /// A frame that is not the last of its message is used up in silence, and the next one is looked at.
    pub(super) fn next(&mut self, input: &[u8]) -> Result<(usize, Option<Incoming>), &'static str> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            let Some((head, opcode, length)) = head(rest)? else { return Ok((used, None)) };
            if self.message.len() + length > MAX_MESSAGE_BYTES {
                return Err("a message of more than 64 MiB");
            }
            let Some(payload) = rest.get(head..head + length) else { return Ok((used, None)) };
            used += head + length;
            let is_last = rest.first().is_some_and(|byte| byte & FIN != 0);
            if let Some(incoming) = self.take(opcode, is_last, payload)? {
                return Ok((used, Some(incoming)));
            }
        }
    }

    fn take(&mut self, opcode: u8, is_last: bool, payload: &[u8]) -> Result<Option<Incoming>, &'static str> {
        match opcode {
            CLOSE | PING | PONG if !is_last || payload.len() > MAX_CONTROL_BYTES => {
                Err("a control frame that is too long or in parts")
            }
            CLOSE => Ok(Some(Incoming::Close(words(payload)))),
            PING => Ok(Some(Incoming::Ping(payload.to_vec()))),
            PONG => Ok(Some(Incoming::Pong)),
            TEXT | BINARY if self.is_inside => Err("a message within another"),
            CONTINUATION if !self.is_inside => Err("the continuation of no message"),
            CONTINUATION | TEXT | BINARY => {
                self.message.extend_from_slice(payload);
                self.is_inside = !is_last;
                Ok(is_last.then(|| Incoming::Message(std::mem::take(&mut self.message))))
            }
            _ => Err("a frame with an unknown opcode"),
        }
    }
}

/// (length of the head, opcode, length of the payload).
fn head(input: &[u8]) -> Result<Option<(usize, u8, usize)>, &'static str> {
    let &[first, second, ref rest @ ..] = input else { return Ok(None) };
    if first & RESERVED != 0 {
        return Err("a frame with reserved bits, although no extension was asked for");
    }
    if second & MASKED != 0 {
        return Err("a masked frame from a server");
    }
    let (head, length) = match (second, rest) {
        (126, &[a, b, ..]) => (4, u64::from(u16::from_be_bytes([a, b]))),
        (127, &[a, b, c, d, e, f, g, h, ..]) => (10, u64::from_be_bytes([a, b, c, d, e, f, g, h])),
        (126 | 127, _) => return Ok(None),
        (short, _) => (2, u64::from(short)),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_MESSAGE_BYTES);
    Ok(Some((head, first & 0x0f, length.ok_or("a frame of more than 64 MiB")?)))
}

fn words(payload: &[u8]) -> String {
    let &[a, b, ref reason @ ..] = payload else { return "the server closed the WebSocket".into() };
    let reason = String::from_utf8_lossy(reason);
    let code = u16::from_be_bytes([a, b]);
    format!("the server closed the WebSocket: {code} {reason}").trim_end().to_owned()
}

/// Appends one frame of a client.
pub(super) fn write(out: &mut Vec<u8>, opcode: u8, payload: &[u8], mask: [u8; 4]) {
    out.push(FIN | opcode);
    match payload.len() {
        short @ 0..=125 => out.push(MASKED | short as u8),
        middle @ 126..=65_535 => {
            out.push(MASKED | 126);
            out.extend((middle as u16).to_be_bytes());
        }
        long => {
            out.push(MASKED | 127);
            out.extend((long as u64).to_be_bytes());
        }
    }
    out.extend(mask);
    out.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &[u8], size: usize) -> Result<Vec<Incoming>, &'static str> {
        let (mut reader, mut kept, mut all) = (Reader::default(), Vec::new(), Vec::new());
        for part in stream.chunks(size) {
            kept.extend_from_slice(part);
            loop {
                let (used, incoming) = reader.next(&kept)?;
                kept.drain(..used);
                match incoming {
                    Some(incoming) => all.push(incoming),
                    None => break,
                }
            }
        }
        Ok(all)
    }

    #[test]
    fn messages_are_put_together_however_they_are_cut() {
        let long = [&[0x82, 126, 1, 0][..], &[b'x'; 256]].concat();
        let stream =
            [&[0x01, 2][..], b"he", &[0x89, 1, b'p'], &[0x80, 1], b"y", &long, &[0x88, 4, 3, 0xe8], b"ok"];
        let stream = stream.concat();
        for size in 1..=stream.len() {
            let all = read(&stream, size).expect("good");
            let expected = [
                Incoming::Ping(b"p".to_vec()),
                Incoming::Message(b"hey".to_vec()),
                Incoming::Message(vec![b'x'; 256]),
                Incoming::Close("the server closed the WebSocket: 1000 ok".into()),
            ];
            assert_eq!(all, expected, "{size}");
        }
    }

    #[test]
    fn what_no_server_may_send_is_refused() {
        let bad: [&[u8]; 7] = [
            &[0xc1, 0],
            &[0x81, 0x80, 0, 0, 0, 0],
            &[0x80, 0],
            &[0x01, 0, 0x81, 0],
            &[0x83, 0],
            &[0x09, 0],
            &[0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0],
        ];
        for stream in bad {
            assert!(read(stream, 64).is_err(), "{stream:?}");
        }
    }
}
