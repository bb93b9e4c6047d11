//! The chunked transfer coding (RFC 9112 section 7.1), decoded incrementally and strictly.

use memchr::memchr;

use crate::{
    Head, ParseError,
    fields::{is_token_byte, split_field},
    trailers::{MOST_BYTES, MOST_FIELDS},
};

/// Longest chunk-size line including extensions; extensions are dropped, not forwarded.
const MAX_SIZE_LINE: usize = 256;
/// All extensions of one body together: an endless stream of them would carry no data.
const MAX_EXTENSION_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
}

/// Where in a chunked body (RFC 9112 section 7.1) the next byte is. Keeps no bytes.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    extension_bytes: usize,
}

/// The event at the start of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Input ends inside framing; `skip` bytes of it are used up.
    NeedMore {
        /// Bytes of it that are used up.
        skip: usize,
    },
    /// `length` bytes of data follow after `skip` bytes of framing.
    Data {
        /// Bytes of framing before it.
        skip: usize,
        /// Bytes of data, as far as the input has them.
        length: usize,
    },
    /// The body ended after `skip` bytes.
    End {
        /// Bytes up to its end.
        skip: usize,
    },
}

impl Default for ChunkedDecoder {
    fn default() -> ChunkedDecoder {
        ChunkedDecoder { state: State::Size, extension_bytes: 0 }
    }
}

impl ChunkedDecoder {
    /// Whether the last chunk and the trailers have been read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Looks at `input`; trailers are collected into `trailers`.
    pub fn next(&mut self, input: &[u8], trailers: &mut Head) -> Result<Event, ParseError> {
        let mut skip = 0;
        loop {
            let rest = input.get(skip..).unwrap_or_default();
            match self.state {
                State::Size => match self.size_line(rest)? {
                    None => return Ok(Event::NeedMore { skip }),
                    Some((0, used)) => {
                        self.state = State::Trailers;
                        skip += used;
                    }
                    Some((size, used)) => {
                        self.state = State::Data(size);
                        skip += used;
                    }
                },
                State::Data(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if length == 0 {
                        return Ok(Event::NeedMore { skip });
                    }
                    let left = left - length as u64;
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                    return Ok(Event::Data { skip, length });
                }
                State::DataEnd => match rest {
                    [b'\r', b'\n', ..] => {
                        self.state = State::Size;
                        skip += 2;
                    }
                    [] | [b'\r'] => return Ok(Event::NeedMore { skip }),
                    _ => return Err(ParseError::bad("chunk data does not end with CRLF")),
                },
                State::Trailers => match trailer_section(rest, trailers)? {
                    None => return Ok(Event::NeedMore { skip }),
                    Some(used) => {
                        self.state = State::Done;
                        return Ok(Event::End { skip: skip + used });
                    }
                },
                State::Done => return Ok(Event::End { skip }),
            }
        }
    }

    /// Size and line length: 1 to 16 hex digits, then CRLF or `;extension`.
    fn size_line(&mut self, rest: &[u8]) -> Result<Option<(u64, usize)>, ParseError> {
        const BAD: ParseError = ParseError::bad("invalid chunk size");
        let Some(end) = memchr(b'\n', rest) else {
            if rest.len() > MAX_SIZE_LINE {
                return Err(ParseError::bad("chunk size line longer than the limit"));
            }
            // Bytes that cannot become a valid size are refused before the line ends.
            return match rest.first() {
                Some(byte) if !byte.is_ascii_hexdigit() => Err(BAD),
                _ => Ok(None),
            };
        };
        if end == 0 || rest[end - 1] != b'\r' || end > MAX_SIZE_LINE {
            return Err(BAD);
        }
        let line = &rest[..end - 1];
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 0 || digits > 15 {
            return Err(BAD);
        }
        let extension = &line[digits..];
        if !extension.is_empty() {
            if !are_extensions(extension) {
                return Err(ParseError::bad("invalid chunk extension"));
            }
            self.extension_bytes += extension.len();
            if self.extension_bytes > MAX_EXTENSION_BYTES {
                return Err(ParseError::bad("more chunk extensions than the limit"));
            }
        }
        let size = line[..digits].iter().fold(0u64, |size, &digit| size * 16 + u64::from(hex_value(digit)));
        Ok(Some((size, end + 1)))
    }
}

/// `*( BWS ";" BWS name [ BWS "=" BWS value ] )`, where a value is a token or a quoted string (RFC 9112 section 7.1.1).
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(named) = without_blanks(rest).strip_prefix(b";").map(without_blanks).and_then(after_token)
        else {
            return false;
        };
        rest = named;
        if let Some(value) = without_blanks(named).strip_prefix(b"=").map(without_blanks) {
            match after_token(value).or_else(|| after_quoted(value)) {
                Some(after) => rest = after,
                None => return false,
            }
        }
    }
    true
}

fn without_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    text.get(blanks..).unwrap_or_default()
}

fn after_token(text: &[u8]) -> Option<&[u8]> {
    let length = text.iter().take_while(|&&byte| is_token_byte(byte)).count();
    text.get(length..).filter(|_| length > 0)
}

/// The rest after a quoted string (RFC 9110 section 5.6.4).
fn after_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"\"")?;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = match byte {
            b'"' => return Some(after),
            b'\\' => {
                let (&escaped, after) = after.split_first()?;
                is_text(escaped).then_some(after)?
            }
            _ => is_text(byte).then_some(after)?,
        };
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a').wrapping_add(10),
    }
}

/// Parses the whole trailer section at once; it waits until its empty line is there. Which of the fields count is
/// decided in [`crate::trailers`].
fn trailer_section(rest: &[u8], trailers: &mut Head) -> Result<Option<usize>, ParseError> {
    let mut at = 0;
    let mut lines: Vec<(usize, usize)> = Vec::new();
    loop {
        let Some(length) = memchr(b'\n', rest.get(at..).unwrap_or_default()) else {
            return if rest.len() > MOST_BYTES {
                Err(ParseError::with_status(431, "trailers larger than the limit"))
            } else {
                Ok(None)
            };
        };
        if length == 0 || rest[at + length - 1] != b'\r' {
            return Err(ParseError::bad("trailer line ends with a bare LF"));
        }
        let end = at + length - 1;
        if end == at {
            break;
        }
        lines.push((at, end));
        at = end + 2;
        if lines.len() > MOST_FIELDS || at > MOST_BYTES {
            return Err(ParseError::with_status(431, "trailers larger than the limit"));
        }
    }
    for (start, end) in lines {
        let line = &rest[start..end];
        let (name_len, value_at, value_len) = split_field(line)?;
        trailers.add(&line[..name_len], &line[value_at..value_at + value_len]);
    }
    Ok(Some(at + 2))
}

/// Appends `data` as one chunk.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    write_size(out, data.len());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends a chunk-size line.
pub(crate) fn write_size(out: &mut Vec<u8>, size: usize) {
    let mut digits = [0u8; 16];
    let mut at = digits.len();
    let mut left = size;
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdef"[left & 15];
        left >>= 4;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk with its trailers.
pub fn write_end(out: &mut Vec<u8>, trailers: &Head) {
    out.extend_from_slice(b"0\r\n");
    trailers.write_fields(out, |_| true);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes feeding `step` bytes at a time.
    fn decode(text: &str, step: usize) -> Result<(String, String), &'static str> {
        let (mut decoder, mut trailers, mut data) = (ChunkedDecoder::default(), Head::new(), Vec::new());
        let (mut buffer, mut fed) = (Vec::new(), 0);
        loop {
            match decoder.next(&buffer, &mut trailers).map_err(|error| error.reason)? {
                Event::NeedMore { skip } => {
                    buffer.drain(..skip);
                    if fed == text.len() {
                        return Err("incomplete");
                    }
                    let next = (fed + step).min(text.len());
                    buffer.extend_from_slice(&text.as_bytes()[fed..next]);
                    fed = next;
                }
                Event::Data { skip, length } => {
                    data.extend_from_slice(&buffer[skip..skip + length]);
                    buffer.drain(..skip + length);
                }
                Event::End { .. } => break,
            }
        }
        let mut fields = Vec::new();
        trailers.write_fields(&mut fields, |_| true);
        Ok((String::from_utf8(data).unwrap(), String::from_utf8(fields).unwrap()))
    }

    #[test]
    fn bodies_at_any_cut() {
        let text = "5\r\nhello\r\n6 ; ext = \"v;\\\"\" ;b=c\r\n world\r\n000\r\nX-Sum: 1\r\n\r\n";
        for step in 1..=text.len() {
            assert_eq!(decode(text, step), Ok(("hello world".into(), "X-Sum: 1\r\n".into())), "step {step}");
        }
    }

    #[test]
    fn refused() {
        for bad in [
            "5\nhello\r\n0\r\n\r\n",
            "-1\r\n",
            "0x5\r\nhello\r\n0\r\n\r\n",
            "5 \r\nhello\r\n0\r\n\r\n",
            " 5\r\nhello\r\n",
            "5\r\nhelloX\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
            "ffffffffffffffffff\r\n",
            "5_0\r\n",
            "g\r\n",
            "\r\n",
            "5;a\rb\r\nhello\r\n0\r\n\r\n",
            "5;\r\nhello\r\n0\r\n\r\n",
            "5;a;\r\nhello\r\n0\r\n\r\n",
            "5;a=\r\nhello\r\n0\r\n\r\n",
            "5;a b\r\nhello\r\n0\r\n\r\n",
            "5;a \r\nhello\r\n0\r\n\r\n",
            "5;@=1\r\nhello\r\n0\r\n\r\n",
            "5;a=\"b\r\nhello\r\n0\r\n\r\n",
            "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n",
            "0\r\nA b\r\n\r\n",
            "0\r\nA: b\n\r\n",
            "0\r\n folded\r\n\r\n",
        ] {
            assert!(decode(bad, 1).is_err_and(|reason| reason != "incomplete"), "{bad:?}");
            assert!(decode(bad, bad.len()).is_err_and(|reason| reason != "incomplete"), "{bad:?}");
        }
    }
}
