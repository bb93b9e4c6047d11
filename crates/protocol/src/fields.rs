//! Lines and fields of a head, of requests and answers alike.

use memchr::memchr;

use crate::{Head, ParseError};

/// `true` for the characters of a token (RFC 9110 section 5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    TOKEN[usize::from(byte)]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(
                b,
                b'!' | b'#'
                    | b'$'
                    | b'%'
                    | b'&'
                    | b'\''
                    | b'*'
                    | b'+'
                    | b'-'
                    | b'.'
                    | b'^'
                    | b'_'
                    | b'`'
                    | b'|'
                    | b'~'
            );
        byte += 1;
    }
    table
};

/// The position of the CRLF that ends the line starting at `from`.
pub(crate) fn line_end(buffer: &[u8], from: usize) -> Result<Option<usize>, ParseError> {
    let Some(length) = memchr(b'\n', buffer.get(from..).unwrap_or_default()) else { return Ok(None) };
    if length == 0 || buffer[from + length - 1] != b'\r' {
        return Err(ParseError::bad("line ends with a bare LF"));
    }
    Ok(Some(from + length - 1))
}

/// Where the field lines of a head start and end in the buffer.
pub(crate) type Lines = smallvec::SmallVec<[(u32, u32); 32]>;

/// Records the field lines from `from` on; returns the position after the empty line, once it is there.
pub(crate) fn find_head_end(
    buffer: &[u8],
    mut from: usize,
    lines: &mut Lines,
) -> Result<Option<usize>, ParseError> {
    loop {
        match line_end(buffer, from)? {
            None => return Ok(None),
            Some(end) if end == from => return Ok(Some(end + 2)),
            Some(end) => {
                lines.push((from as u32, end as u32));
                from = end + 2;
            }
        }
    }
}

/// Indexes the field lines of a head that was loaded from `loaded_at` of the buffer `lines` refers to.
pub(crate) fn parse_fields(
    head: &mut Head,
    lines: &Lines,
    loaded_at: usize,
    limit: usize,
) -> Result<(), ParseError> {
    if lines.len() > limit {
        return Err(ParseError::with_status(431, "more header fields than the limit"));
    }
    for &(start, end) in lines {
        let at = start as usize - loaded_at;
        let line = head.bytes().get(at..end as usize - loaded_at).unwrap_or_default();
        let (name_len, value_at, value_len) = split_field(line)?;
        head.index(at, name_len, at + value_at, value_len);
    }
    Ok(())
}

/// Name length and the value's offset and length within a field line.
pub(crate) fn split_field(line: &[u8]) -> Result<(usize, usize, usize), ParseError> {
    let colon = line.iter().position(|&byte| !TOKEN[usize::from(byte)]).unwrap_or(line.len());
    if colon == 0 || line.get(colon) != Some(&b':') {
        return Err(match line.first() {
            Some(b' ' | b'\t') => ParseError::bad("folded header line"),
            _ if line.get(colon).is_some_and(|byte| matches!(byte, b' ' | b'\t')) => {
                ParseError::bad("space before the colon of a header field")
            }
            _ => ParseError::bad("invalid header field name"),
        });
    }
    let (mut start, mut end) = (colon + 1, line.len());
    while start < end && matches!(line[start], b' ' | b'\t') {
        start += 1;
    }
    while end > start && matches!(line[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    if has_control(&line[start..end]) {
        return Err(ParseError::bad("control character in a header field value"));
    }
    Ok((colon, start, end - start))
}

/// Whether a value holds a control character other than a tab. Eight bytes at a time: this sees every byte of a head.
pub(crate) fn has_control(value: &[u8]) -> bool {
    let slow = |bytes: &[u8]| bytes.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f);
    let (words, rest) = value.as_chunks::<8>();
    let Some(last) = value.last_chunk::<8>() else { return slow(rest) };
    // The last word overlaps the one before it, which is cheaper than checking the rest byte by byte.
    let suspicious = words.iter().fold(may_have_control(*last), |any, bytes| any | may_have_control(*bytes));
    suspicious && slow(value)
}

/// False alarms are possible: a tab is one.
fn may_have_control(bytes: [u8; 8]) -> bool {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let word = u64::from_le_bytes(bytes);
    let below_blank = word.wrapping_sub(ONES * 0x20) & !word;
    let delete = word ^ (ONES * 0x7f);
    let is_delete = delete.wrapping_sub(ONES) & !delete;
    (below_blank | is_delete) & HIGH != 0
}
