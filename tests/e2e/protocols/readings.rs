//! How servers read a stream of requests: strictly, and in the ways that real ones have been found to be lenient.
//!
//! A stream on which all readings agree cannot be taken for other requests than were meant, whoever is behind.

/// One server's habits. All false is strict.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reading {
    /// A line feed alone ends a line.
    bare_lf: bool,
    /// Of both framings `Content-Length` counts.
    length_wins: bool,
    /// Of several lengths the last counts, not the first.
    last_length: bool,
    /// Any `Transfer-Encoding` in which the word occurs is chunked; one in which it does not is ignored.
    loose_coding: bool,
    /// Blanks and control characters around names are dropped.
    loose_names: bool,
    /// Numbers end where digits do, signs are dropped.
    loose_numbers: bool,
}

/// Every combination of habits; the first is strict.
pub(super) fn all() -> impl Iterator<Item = Reading> {
    (0..64_u8).map(|bits| Reading {
        bare_lf: bits & 1 != 0,
        length_wins: bits & 2 != 0,
        last_length: bits & 4 != 0,
        loose_coding: bits & 8 != 0,
        loose_names: bits & 16 != 0,
        loose_numbers: bits & 32 != 0,
    })
}

/// What ends a reading before the stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    /// More would have to come.
    Cut,
    Refused,
}

impl Reading {
    /// The requests of a stream: method, target and length of the body; `cut` or `refused` at the end where it applies.
    pub(super) fn requests(self, stream: &[u8]) -> Vec<String> {
        let mut requests = Vec::new();
        let mut rest = stream;
        loop {
            rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
            if rest.is_empty() {
                return requests;
            }
            match self.request(&mut rest) {
                Ok(request) => requests.push(request),
                Err(stop) => {
                    requests.push(format!("{stop:?}").to_lowercase());
                    return requests;
                }
            }
        }
    }

    fn request(self, rest: &mut &[u8]) -> Result<String, Stop> {
        let start = self.line(rest)?;
        let mut words = start.split(' ');
        let (Some(method), Some(target), Some(_), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Stop::Refused);
        };
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            let line = self.line(rest)?;
            if line.is_empty() {
                break;
            }
            self.field(&line, &mut fields)?;
        }
        let length = self.body(&fields, rest)?;
        Ok(format!("{method} {target} {length}"))
    }

    fn line(self, rest: &mut &[u8]) -> Result<String, Stop> {
        let end = rest.iter().position(|&byte| byte == b'\n').ok_or(Stop::Cut)?;
        let (line, after) = (&rest[..end], &rest[end + 1..]);
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None if self.bare_lf => line,
            None => return Err(Stop::Refused),
        };
        *rest = after;
        Ok(line.iter().map(|&byte| char::from(byte)).collect())
    }

    fn field(self, line: &str, fields: &mut Vec<(String, String)>) -> Result<(), Stop> {
        let token = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        if line.starts_with([' ', '\t']) {
            // A folded line belongs to the one before; who drops blanks may take it for a field.
            if !self.loose_names {
                return Err(Stop::Refused);
            }
        }
        let (name, value) = line.split_once(':').ok_or(Stop::Refused)?;
        let name = match self.loose_names {
            true => name.trim_matches(|letter: char| letter <= ' ' || letter == '\u{7f}'),
            false => name,
        };
        if !token(name) {
            return Err(Stop::Refused);
        }
        let value = value.trim_matches([' ', '\t']);
        if !self.loose_numbers && value.bytes().any(|byte| byte < 0x20 && byte != b'\t') {
            return Err(Stop::Refused);
        }
        fields.push((name.to_ascii_lowercase(), value.to_owned()));
        Ok(())
    }

    fn body(self, fields: &[(String, String)], rest: &mut &[u8]) -> Result<usize, Stop> {
        let values = |wanted: &str| -> Vec<&String> {
            fields.iter().filter(|(name, _)| name == wanted).map(|(_, value)| value).collect()
        };
        let codings = values("transfer-encoding");
        let lengths = values("content-length");
        let chunked = match codings.as_slice() {
            [] => false,
            some if self.loose_coding => {
                some.iter().any(|value| value.to_ascii_lowercase().contains("chunked"))
            }
            [only] if only.eq_ignore_ascii_case("chunked") => true,
            _ => return Err(Stop::Refused),
        };
        if chunked && (lengths.is_empty() || !self.length_wins) {
            return self.chunks(rest);
        }
        let chosen = if self.last_length { lengths.last() } else { lengths.first() };
        let Some(text) = chosen else { return Ok(0) };
        let length = self.number(text, 10)?;
        if rest.len() < length {
            return Err(Stop::Cut);
        }
        *rest = &rest[length..];
        Ok(length)
    }

    fn chunks(self, rest: &mut &[u8]) -> Result<usize, Stop> {
        let mut total = 0;
        loop {
            let line = self.line(rest)?;
            let size = line.split(';').next().unwrap_or_default();
            let size = self.number(size, 16)?;
            if size == 0 {
                break;
            }
            if rest.len() < size {
                return Err(Stop::Cut);
            }
            *rest = &rest[size..];
            total += size;
            if !self.line(rest)?.is_empty() {
                return Err(Stop::Refused);
            }
        }
        while !self.line(rest)?.is_empty() {}
        Ok(total)
    }

    fn number(self, text: &str, radix: u32) -> Result<usize, Stop> {
        let text = match self.loose_numbers {
            true => {
                let text = text.trim_start_matches(|letter: char| letter <= ' ' || letter == '+');
                let end = text.find(|letter: char| !letter.is_digit(radix)).unwrap_or(text.len());
                &text[..end]
            }
            false => text,
        };
        if text.is_empty() || !text.chars().all(|letter| letter.is_digit(radix)) {
            return Err(Stop::Refused);
        }
        usize::from_str_radix(text, radix).map_err(|_| Stop::Refused)
    }
}

#[test]
fn readings_differ_where_servers_do() {
    let count = |stream: &str| {
        let mut ways: Vec<Vec<String>> = all().map(|reading| reading.requests(stream.as_bytes())).collect();
        ways.sort();
        ways.dedup();
        ways.len()
    };
    assert_eq!(count("GET /a HTTP/1.1\r\nHost: h\r\n\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nok"), 1);
    assert_eq!(count("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"), 1);
    for ambiguous in [
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 2\r\n\r\nok",
        "POST / HTTP/1.1\r\nContent-Length : 2\r\n\r\nok",
        "POST / HTTP/1.1\r\nContent-Length: +2\r\n\r\nok",
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nX: y\nContent-Length: 2\r\n\r\nok",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0x2\r\nok\r\n0\r\n\r\n",
    ] {
        assert!(count(ambiguous) > 1, "{ambiguous:?}");
    }
}
