//! `Range` of bytes (RFC 9110 section 14): which parts are wanted, and `multipart/byteranges` around several.

use bytes::Bytes;
use tidegate_model::random::random_u64;
use tidegate_plugin_api::file_body::Part;

/// Bytes `start` to `end`, both sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub start: u64,
    pub end: u64,
}

impl Span {
    pub(super) fn length(self) -> u64 {
        self.end - self.start + 1
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ranges {
    /// No range, none that can be read, or one that costs more than the file: send all of it.
    Whole,
    Parts(Vec<Span>),
    /// Nothing of what is asked for is there: 416.
    Unsatisfiable,
}

/// Reads the value of a `Range` field for a file of `length` bytes; at most `most` parts.
///
/// Parts that together are longer than the file are the way to make a server send it many times over (CVE-2011-3192):
/// the whole file is the answer to them.
pub(super) fn parse(value: &[u8], length: u64, most: usize) -> Ranges {
    let Some(set) =
        value.trim_ascii().split_at_checked(6).filter(|(unit, _)| unit.eq_ignore_ascii_case(b"bytes="))
    else {
        return Ranges::Whole;
    };
    let mut parts = Vec::new();
    let mut asked = 0;
    for item in set.1.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty()) {
        asked += 1;
        if asked > most {
            return Ranges::Whole;
        }
        match span(item, length) {
            Ok(Some(span)) => parts.push(span),
            Ok(None) => {}
            Err(()) => return Ranges::Whole,
        }
    }
    let total = parts.iter().fold(0u64, |total, span| total.saturating_add(span.length()));
    if asked == 0 || (parts.len() > 1 && total > length) {
        Ranges::Whole
    } else if parts.is_empty() {
        Ranges::Unsatisfiable
    } else {
        Ranges::Parts(parts)
    }
}

/// `Ok(None)`: well said, but not there.
fn span(item: &[u8], length: u64) -> Result<Option<Span>, ()> {
    let dash = item.iter().position(|&byte| byte == b'-').ok_or(())?;
    let (first, last) = (item.get(..dash).unwrap_or_default(), item.get(dash + 1..).unwrap_or_default());
    if first.is_empty() {
        let suffix = number(last)?.min(length);
        return Ok((suffix > 0).then(|| Span { start: length - suffix, end: length - 1 }));
    }
    let start = number(first)?;
    let end = if last.is_empty() { u64::MAX } else { number(last)? };
    if end < start {
        return Err(());
    }
    Ok((start < length).then(|| Span { start, end: end.min(length - 1) }))
}

/// Digits only; more than fits is a very large number.
fn number(text: &[u8]) -> Result<u64, ()> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return Err(());
    }
    Ok(text
        .iter()
        .fold(0u64, |value, digit| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'))))
}

/// The parts of a multipart body, and its boundary.
pub(super) fn multipart(spans: &[Span], length: u64, content_type: &str) -> (Vec<Part>, String) {
    let boundary = format!("{:020}", random_u64());
    let mut parts = Vec::with_capacity(spans.len() * 2 + 1);
    for (index, span) in spans.iter().enumerate() {
        let line_break = if index == 0 { "" } else { "\r\n" };
        let head = format!(
            "{line_break}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: bytes {}-{}/{length}\r\n\r\n",
            span.start, span.end
        );
        parts.push(Part::Bytes(head.into()));
        parts.push(Part::File { offset: span.start, length: span.length() });
    }
    parts.push(Part::Bytes(Bytes::from(format!("\r\n--{boundary}--\r\n"))));
    (parts, boundary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_hundred_bytes() {
        let check = |value: &str, expected: Ranges| {
            assert_eq!(parse(value.as_bytes(), 100, 4), expected, "{value}");
        };
        let parts = |spans: &[(u64, u64)]| {
            Ranges::Parts(spans.iter().map(|&(start, end)| Span { start, end }).collect())
        };
        check("bytes=0-9", parts(&[(0, 9)]));
        check("Bytes=0-0", parts(&[(0, 0)]));
        check("bytes=90-", parts(&[(90, 99)]));
        check("bytes=-10", parts(&[(90, 99)]));
        check("bytes=-1000", parts(&[(0, 99)]));
        check("bytes=0-99999999999999999999999", parts(&[(0, 99)]));
        check("bytes=0-1, 5-6 ,,-2", parts(&[(0, 1), (5, 6), (98, 99)]));
        check("bytes=0-1,200-300", parts(&[(0, 1)]));
        check("bytes=100-", Ranges::Unsatisfiable);
        check("bytes=-0", Ranges::Unsatisfiable);
        check("bytes=200-300,400-", Ranges::Unsatisfiable);
        check("bytes=5-2", Ranges::Whole);
        check("bytes=a-b", Ranges::Whole);
        check("bytes=+1-2", Ranges::Whole);
        check("bytes=", Ranges::Whole);
        check("bytes", Ranges::Whole);
        check("lines=0-9", Ranges::Whole);
        check("bytes=0-,0-,0-", Ranges::Whole);
        check("bytes=0-0,1-1,2-2,3-3,4-4", Ranges::Whole);
        assert_eq!(parse(b"bytes=0-", 0, 4), Ranges::Unsatisfiable);
    }
}
