//! Lines and fields of a head, of requests and answers alike.

use memchr::memchr;

use crate::{
    Head, HeaderId, ParseError,
    names::{self, Signs},
    scan,
};

pub use crate::names::is_token_byte;

pub(crate) const TOO_MANY_FIELDS: ParseError =
    ParseError::with_status(431, "more header fields than the limit");

/// The position of the CRLF that ends the line starting at `from`.
pub(crate) fn line_end(buffer: &[u8], from: usize) -> Result<Option<usize>, ParseError> {
    let Some(length) = memchr(b'\n', buffer.get(from..).unwrap_or_default()) else { return Ok(None) };
    if length == 0 || buffer[from + length - 1] != b'\r' {
        return Err(ParseError::bad("line ends with a bare LF"));
    }
    Ok(Some(from + length - 1))
}

/// Indexes and loads the fields of a whole head, at most `most`, whose lines all have a common form. Returns where the head ends. `None`,
/// and no fields: a line has another form, valid or not, or the end is missing; [`find_head_end`] and [`parse_fields`] say which.
#[inline]
pub(crate) fn take_common(head: &mut Head, buffer: &[u8], from: usize, most: usize) -> Option<usize> {
    head.clear();
    let end = index_common(head, buffer, from, most);
    match end {
        Some(end) => head.load(buffer.get(from..end).unwrap_or_default()),
        None => head.clear(),
    }
    end
}

fn index_common(head: &mut Head, buffer: &[u8], from: usize, most: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = buffer.get(at..)?;
        if rest.starts_with(b"\r\n") {
            return Some(at + 2);
        }
        let line = scan::line(rest)?;
        let name = rest.get(..line.name_len)?;
        let id = HeaderId::of(name);
        // A known name is a token, and a plain one.
        let signs = if line.is_plain || id != HeaderId::Other { Signs::Dashes } else { names::signs(name)? };
        if head.len() == most {
            return None;
        }
        let canonical = line.value_at == line.name_len + 2
            && line.value_end == line.end
            && rest.get(line.name_len + 1) == Some(&b' ');
        head.index((name, id, signs), at - from, line.value_at, line.value_end - line.value_at, canonical);
        at += line.end + 2;
    }
}

/// The position after the empty line, once it is there, and the number of lines before it.
pub(crate) fn find_head_end(buffer: &[u8], mut from: usize) -> Result<Option<(usize, usize)>, ParseError> {
    let mut lines = 0;
    loop {
        match line_end(buffer, from)? {
            None => return Ok(None),
            Some(end) if end == from => return Ok(Some((end + 2, lines))),
            Some(end) => {
                lines += 1;
                from = end + 2;
            }
        }
    }
}

/// Loads and indexes the field lines of a head, which begins after its start line.
#[cold]
pub(crate) fn parse_fields(head: &mut Head, fields: &[u8], names: NameForm) -> Result<(), ParseError> {
    head.clear();
    head.load(fields);
    let mut at = 0;
    while let Some(end) = line_end(fields, at)?.filter(|end| *end > at) {
        let line = fields.get(at..end).unwrap_or_default();
        let (name_len, value_at, value_len) = split_by(line, names)?;
        let name = line.get(..name_len).unwrap_or_default();
        if !name.iter().all(|&byte| is_token_byte(byte)) && is_framing_in_doubt(name) {
            return Err(ParseError::bad("invalid header field name"));
        }
        let canonical = value_at == name_len + 2
            && value_at + value_len == line.len()
            && line.get(name_len + 1) == Some(&b' ');
        let signs = if names::has_other_sign(name) { Signs::Others } else { Signs::Dashes };
        head.index((name, HeaderId::of(name), signs), at, value_at, value_len, canonical);
        at = end + 2;
    }
    Ok(())
}

/// What field names may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameForm {
    /// RFC 9110 section 5.1.
    Tokens,
    /// Anything without a blank, a control character or a colon. nginx leaves such fields out of requests
    /// (`ignore_invalid_headers`), and so does [`crate::RequestHead`]: no sign but `-` and `_` gets past it.
    Printable,
}

/// Whether another server may take a name that is not a token for one that says where the request ends or whom it is for.
fn is_framing_in_doubt(name: &[u8]) -> bool {
    let letters: Vec<u8> =
        name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
    matches!(letters.as_slice(), b"contentlength" | b"transferencoding" | b"connection" | b"host")
}

/// Name length and the value's offset and length within a field line.
pub(crate) fn split_field(line: &[u8]) -> Result<(usize, usize, usize), ParseError> {
    split_by(line, NameForm::Tokens)
}

fn split_by(line: &[u8], names: NameForm) -> Result<(usize, usize, usize), ParseError> {
    let ends_name = |&byte: &u8| match names {
        NameForm::Tokens => !is_token_byte(byte),
        NameForm::Printable => byte <= b' ' || matches!(byte, 0x7f | b':'),
    };
    let colon = line.iter().position(ends_name).unwrap_or(line.len());
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lines and parts of lines, common ones and others.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let text = |text: &'static str| Just(text.as_bytes().to_vec());
        prop_oneof![
            4 => "(Host|accept|X_Y|Sec-Fetch-Mode|x-forwarded-for|[a-z0-9!.-]{1,40}): ?[ -~]{0,40}\r\n".prop_map(String::into_bytes),
            1 => prop_oneof![text("\r\n"), text("a:\r\n"), text("b: \t\r\n"), text("c:  d \r\n"), text("e: f\tg\r\n"), text(": h\r\n")],
            1 => prop_oneof![text("\n"), text("\r"), text(" i: j\r\n"), text("k : l\r\n"), text("m"), text("n: \x7f\r\n"), text("o\0: p\r\n")],
            1 => prop::collection::vec(any::<u8>(), 1..9),
            1 => Just(b"q: \xff~\xff\x80 \xff\r\n".to_vec()),
        ]
    }

    fn described(head: &Head) -> Vec<String> {
        let one = |field| format!("{:?} {:?} {field:?}", head.name(field), head.value(field));
        head.fields().iter().map(one).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn common_lines_are_read_as_others(pieces in prop::collection::vec(piece(), 0..6), whole in any::<bool>(), from in 0usize..9) {
            let mut buffer = vec![b'x'; from];
            buffer.extend(pieces.concat());
            if whole {
                buffer.extend(b"\r\n");
            }
            let (mut common, mut other) = (Head::new(), Head::new());
            let taken = take_common(&mut common, &buffer, from, 4);
            let Some(end) = taken else {
                prop_assert!(common.is_empty() && common.bytes().is_empty());
                return Ok(());
            };
            prop_assert_eq!(find_head_end(&buffer, from), Ok(Some((end, common.len()))));
            prop_assert_eq!(parse_fields(&mut other, &buffer[from..end], NameForm::Tokens), Ok(()));
            prop_assert_eq!(described(&common), described(&other));
            prop_assert_eq!(common.bytes(), other.bytes());
            prop_assert_eq!(format!("{common:?}"), format!("{other:?}"));
        }
    }

    #[test]
    fn most_heads_have_common_lines() {
        for fields in ["\r\n", "Host: a\r\n\r\n", "A:b\r\nC:  d\te \r\nF_g:\r\nH.i: é\r\n\r\n"] {
            assert_eq!(
                take_common(&mut Head::new(), fields.as_bytes(), 0, 4),
                Some(fields.len()),
                "{fields:?}"
            );
        }
        for fields in
            ["", "\r", "Host: a\r\n", "Host: a\r\n\r", "A: b\n\r\n", "A b\r\n\r\n", "A: \x01\r\n\r\n"]
        {
            assert_eq!(take_common(&mut Head::new(), fields.as_bytes(), 0, 4), None, "{fields:?}");
        }
        assert_eq!(take_common(&mut Head::new(), "a: b\r\n".repeat(5).as_bytes(), 0, 4), None);
    }
}
