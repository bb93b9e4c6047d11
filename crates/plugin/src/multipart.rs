//! Parts of `multipart/form-data` bodies (RFC 7578), in one pass over the body.

/// The boundary that a media type names.
fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    content_type.split(|&byte| byte == b';').map(<[u8]>::trim_ascii).find_map(|parameter| {
        parameter.get(..9).filter(|start| start.eq_ignore_ascii_case(b"boundary="))?;
        parameter.get(9..).map(unquoted).filter(|boundary| !boundary.is_empty())
    })
}

fn unquoted(value: &[u8]) -> &[u8] {
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    value.strip_suffix(b"\"").unwrap_or(value)
}

/// Name and value of each part that has a name. What is not a part is passed over.
pub fn fields<'a>(body: &'a [u8], content_type: &[u8]) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    let delimiter = boundary(content_type).map(|boundary| [b"--", boundary].concat());
    let mut delimiters = Delimiters { body, finder: delimiter.as_deref().map(finder), at: 0 };
    let mut begin = delimiters.next().map(|(_, end)| end);
    std::iter::from_fn(move || {
        loop {
            let from = begin?;
            let next = delimiters.next();
            let part = body.get(from..next.map_or(body.len(), |(start, _)| start))?;
            begin = next.map(|(_, end)| end);
            if part.starts_with(b"--") {
                // The last delimiter; what follows it means nothing.
                begin = None;
                return None;
            }
            if let Some(field) = field(part) {
                return Some(field);
            }
        }
    })
}

fn finder(delimiter: &[u8]) -> memchr::memmem::Finder<'static> {
    memchr::memmem::Finder::new(delimiter).into_owned()
}

/// Where delimiters start and end. Only those at the start of a line count: a value may hold the same bytes elsewhere.
struct Delimiters<'a> {
    body: &'a [u8],
    finder: Option<memchr::memmem::Finder<'static>>,
    at: usize,
}

impl Iterator for Delimiters<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let finder = self.finder.as_ref()?;
        loop {
            let start = self.at + finder.find(self.body.get(self.at..)?)?;
            let end = start + finder.needle().len();
            self.at = end;
            if start == 0 || self.body.get(start - 1) == Some(&b'\n') {
                return Some((start, end));
            }
        }
    }
}

fn field(part: &[u8]) -> Option<(&[u8], &[u8])> {
    let part = part.strip_prefix(b"\r\n").or_else(|| part.strip_prefix(b"\n")).unwrap_or(part);
    let (head, value) = split_head(part)?;
    let value = value.strip_suffix(b"\n").unwrap_or(value);
    Some((name(head)?, value.strip_suffix(b"\r").unwrap_or(value)))
}

/// The head ends at the first blank line. Bare line feeds are common in hand-made bodies.
fn split_head(part: &[u8]) -> Option<(&[u8], &[u8])> {
    memchr::memchr_iter(b'\n', part).find_map(|at| {
        let rest = part.get(at + 1..)?;
        let value = rest.strip_prefix(b"\n").or_else(|| rest.strip_prefix(b"\r\n"))?;
        Some((part.get(..at)?, value))
    })
}

/// `name` of `Content-Disposition`.
fn name(head: &[u8]) -> Option<&[u8]> {
    let disposition = head.split(|&byte| byte == b'\n').find_map(|line| {
        let colon = memchr::memchr(b':', line)?;
        let name = line.get(..colon)?.trim_ascii();
        if name.eq_ignore_ascii_case(b"content-disposition") { line.get(colon + 1..) } else { None }
    })?;
    let mut parameters = disposition.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    parameters.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(5)?;
        if name.eq_ignore_ascii_case(b"name=") { Some(unquoted(value)) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str, content_type: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields(body.as_bytes(), content_type.as_bytes())
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    #[test]
    fn parts_of_bodies() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1 --x\r\n--x\r\n\
                    content-disposition: form-data; filename=\"f\"; name=b\n\n2\r\n3\r\n--x\r\nnothing\r\n--x--\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"late\"\r\n\r\n1";
        let expected = vec![("a".to_owned(), "1 --x".to_owned()), ("b".to_owned(), "2\r\n3".to_owned())];
        assert_eq!(found(body, "multipart/form-data; boundary=x"), expected);
        assert_eq!(found(body, "multipart/form-data; charset=y; Boundary=\"x\""), expected);
        for content_type in
            ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=y"]
        {
            assert_eq!(found(body, content_type), [], "{content_type}");
        }
    }

    /// A head never reaches over the next delimiter: looking for its end takes no more time than the part is long.
    #[test]
    fn parts_without_a_head() {
        let body = format!(
            "{}\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--",
            "--x\r\n".repeat(9)
        );
        assert_eq!(found(&body.replacen("--x\r\n\r\n", "--x\r\n", 1), "a; boundary=x").len(), 1);
    }
}
