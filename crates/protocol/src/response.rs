//! Response heads of upstreams (RFC 9112 section 4).

use crate::{
    Head, ParseError, Version,
    fields::{NameForm, TOO_MANY_FIELDS, find_head_end, line_end, parse_fields, take_common},
};

/// Status line and fields of an answer (RFC 9112 section 4).
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// Of the status line.
    pub version: Version,
    /// 100 to 999.
    pub status: u16,
    /// Without the space before it; may be empty.
    pub reason: Vec<u8>,
    /// As received.
    pub headers: Head,
}

impl Default for ResponseHead {
    fn default() -> ResponseHead {
        ResponseHead { version: Version::Http11, status: 0, reason: Vec::new(), headers: Head::new() }
    }
}

impl ResponseHead {
    /// Back to no answer; the memory stays for the connection's next one.
    pub fn clear(&mut self) {
        self.status = 0;
        self.reason.clear();
        self.headers.clear();
    }

    /// Parses one head from the start of `buffer`: bytes consumed, or `None` when more are needed.
    ///
    /// Upstreams get the same strictness as clients: an ambiguous head is a bad gateway, not a guess.
    pub fn parse(
        &mut self,
        buffer: &[u8],
        max_bytes: usize,
        max_fields: usize,
    ) -> Result<Option<usize>, ParseError> {
        let bad_gateway = |error: ParseError| ParseError::with_status(502, error.reason);
        let Some(status_end) = line_end(buffer, 0).map_err(bad_gateway)? else {
            return partial(buffer, max_bytes);
        };
        if status_end == 0 {
            return Err(ParseError::with_status(502, "upstream sent no status line"));
        }
        let fields_at = status_end + 2;
        let common = take_common(&mut self.headers, buffer, fields_at, max_fields);
        let (end, count) = match common {
            Some(end) => (end, self.headers.len()),
            None => match find_head_end(buffer, 0).map_err(bad_gateway)? {
                Some((end, lines)) => (end, lines.saturating_sub(1)),
                None => return partial(buffer, max_bytes),
            },
        };
        self.parse_status_line(buffer.get(..status_end).unwrap_or_default())?;
        if count > max_fields {
            return Err(bad_gateway(TOO_MANY_FIELDS));
        }
        if common.is_none() {
            parse_fields(&mut self.headers, buffer.get(fields_at..end).unwrap_or_default(), NameForm::Tokens)
                .map_err(bad_gateway)?;
        }
        Ok(Some(end))
    }

    fn parse_status_line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        const BAD: ParseError = ParseError::with_status(502, "upstream sent a malformed status line");
        self.version = match line.get(..9) {
            Some(b"HTTP/1.1 ") => Version::Http11,
            Some(b"HTTP/1.0 ") => Version::Http10,
            _ => return Err(BAD),
        };
        let digits = line.get(9..12).ok_or(BAD)?;
        if !digits.iter().all(u8::is_ascii_digit) || !matches!(line.get(12), None | Some(b' ')) {
            return Err(BAD);
        }
        self.status = digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0'));
        if self.status < 100 {
            return Err(BAD);
        }
        self.reason.clear();
        let reason = line.get(13..).unwrap_or_default();
        if reason.iter().any(|&byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
            return Err(BAD);
        }
        self.reason.extend_from_slice(reason);
        Ok(())
    }
}

/// What a head that is not whole yet amounts to.
fn partial(buffer: &[u8], max_bytes: usize) -> Result<Option<usize>, ParseError> {
    match buffer.len() >= max_bytes {
        true => Err(ParseError::with_status(502, "upstream sent a head larger than the limit")),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(ResponseHead, usize)>, ParseError> {
        let mut head = ResponseHead::default();
        Ok(head.parse(text.as_bytes(), 65536, 200)?.map(|consumed| (head, consumed)))
    }

    #[test]
    fn status_lines() {
        let (head, consumed) = parse("HTTP/1.1 204 No Content\r\nA: b\r\n\r\nx").unwrap().unwrap();
        assert_eq!((head.status, head.reason.as_slice(), consumed), (204, &b"No Content"[..], 33));
        assert_eq!(head.headers.get("a"), Some(&b"b"[..]));
        let (head, _) = parse("HTTP/1.0 200\r\n\r\n").unwrap().unwrap();
        assert_eq!((head.version, head.status), (Version::Http10, 200));
        assert!(parse("HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        for bad in
            ["HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 099 x\r\n\r\n", "x\r\n\r\n", "\n\n"]
        {
            assert_eq!(parse(bad).unwrap_err().status, 502, "{bad:?}");
        }
    }
}
