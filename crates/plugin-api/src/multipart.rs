//! Parts of `multipart/form-data` bodies (RFC 7578), in one pass over the body.

use tidegate_protocol::media_type;

/// A part whose name servers read in different ways, or a body whose parts they find in different places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubtful;

type Field<'a> = (&'a [u8], &'a [u8]);

/// A part that has a name.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Of `Content-Disposition`.
    pub name: &'a [u8],
    /// Its fields, without the line end of the last one.
    pub head: &'a [u8],
    /// What stands behind the head.
    pub value: &'a [u8],
}

/// Name and value of each part that has a name, as in `parts`.
pub fn fields<'a>(body: &'a [u8], content_type: &[u8]) -> impl Iterator<Item = Result<Field<'a>, Doubtful>> {
    parts(body, content_type).map(|part| part.map(|part| (part.name, part.value)))
}

/// Each part that has a name. A body that is not exactly in the form of RFC 7578 is doubtful as a whole, which
/// is the first item then: applications differ on what they forgive.
pub fn parts<'a>(body: &'a [u8], content_type: &[u8]) -> impl Iterator<Item = Result<Part<'a>, Doubtful>> {
    let boundary = boundary(content_type);
    let delimiter = boundary.ok().flatten().map(|boundary| [b"--", boundary].concat());
    let finder = delimiter.as_deref().map(finder);
    let judged = finder.as_ref().map_or(Ok(()), |finder| {
        let mut parts = Parts::new(body, finder);
        let line_end = parts.line_end();
        parts.try_for_each(|part| field(part?, line_end).map(|_| ()))
    });
    let mut doubt = boundary.err().or(judged.err());
    let mut at = start(body);
    std::iter::from_fn(move || {
        if let Some(doubt) = doubt.take() {
            at = body.len();
            return Some(Err(doubt));
        }
        let mut parts = Parts { body, finder: finder.as_ref()?, at };
        let line_end = parts.line_end();
        let found = parts.by_ref().find_map(|part| part.and_then(|part| field(part, line_end)).transpose());
        at = parts.at;
        found
    })
}

/// Where the first delimiter begins: some clients put a line end in front of each.
fn start(body: &[u8]) -> usize {
    [&b"\r\n--"[..], b"\n--"].iter().find(|start| body.starts_with(start)).map_or(0, |start| start.len() - 2)
}

/// What stands between the delimiters of a body, without the line ends that belong to these.
struct Parts<'a, 'f> {
    body: &'a [u8],
    finder: &'f memchr::memmem::Finder<'static>,
    /// Where the next delimiter begins. At the end of the body there is none.
    at: usize,
}

impl<'a, 'f> Parts<'a, 'f> {
    fn new(body: &'a [u8], finder: &'f memchr::memmem::Finder<'static>) -> Self {
        Self { body, finder, at: start(body) }
    }

    /// The end of lines: that of the first delimiter counts for all.
    fn line_end(&self) -> &'static [u8] {
        let behind = self.body.get(start(self.body) + self.finder.needle().len()..).unwrap_or_default();
        if behind.starts_with(b"\n") { b"\n" } else { b"\r\n" }
    }

    /// The part at `self.at`; `None`: the delimiter there is the last.
    fn part(&self, line_end: &[u8]) -> Result<Option<(&'a [u8], usize)>, Doubtful> {
        let delimiter = self.finder.needle();
        let behind =
            self.body.get(self.at..).and_then(|rest| rest.strip_prefix(delimiter)).ok_or(Doubtful)?;
        if let Some(epilogue) = behind.strip_prefix(b"--") {
            let is_last = epilogue.is_empty() || epilogue.starts_with(line_end);
            return if is_last && self.finder.find(epilogue).is_none() { Ok(None) } else { Err(Doubtful) };
        }
        let content = behind.strip_prefix(line_end).ok_or(Doubtful)?;
        // The line end in front of a delimiter belongs to it; a part without a head and a value has only the one before.
        let next = self.finder.find(content).ok_or(Doubtful)?;
        let part = content.get(..next).unwrap_or_default();
        let at = self.body.len() - content.len() + next;
        match part.strip_suffix(line_end) {
            Some(part) => Ok(Some((part, at))),
            None if part.is_empty() => Ok(Some((part, at))),
            None => Err(Doubtful),
        }
    }
}

impl<'a> Iterator for Parts<'a, '_> {
    type Item = Result<&'a [u8], Doubtful>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.body.len() {
            return None;
        }
        match self.part(self.line_end()) {
            Ok(Some((part, next))) => {
                self.at = next;
                Some(Ok(part))
            }
            Ok(None) => {
                self.at = self.body.len();
                None
            }
            Err(doubt) => {
                self.at = self.body.len();
                Some(Err(doubt))
            }
        }
    }
}

/// The boundary that a media type names, if all read the same one.
pub fn boundary_of(content_type: &[u8]) -> Option<&[u8]> {
    boundary(content_type).ok().flatten()
}

/// RFC 2046 section 5.1.1 allows more signs, which some applications cut or decode.
fn boundary(content_type: &[u8]) -> Result<Option<&[u8]>, Doubtful> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.+/:=?".contains(byte);
    match parameter(content_type, b"boundary")?.filter(|boundary| !boundary.is_empty()) {
        Some(boundary) if !boundary.iter().all(is_plain) || boundary.len() > LONGEST_BOUNDARY => {
            Err(Doubtful)
        }
        boundary => Ok(boundary),
    }
}

const LONGEST_BOUNDARY: usize = 70;

/// The one parameter of this name behind the first `;` (RFC 9110 section 5.6.6). Quoted texts may hold anything; a name in
/// parts (`name*`), one that is given twice, and whatever else stands there, are read in different ways.
fn parameter<'a>(field: &'a [u8], wanted: &[u8]) -> Result<Option<&'a [u8]>, Doubtful> {
    let Some(at) = memchr::memchr(b';', field) else {
        return if is_kind(field) { Ok(None) } else { Err(Doubtful) };
    };
    let (kind, mut rest) = field.split_at(at);
    if !is_kind(kind) {
        return Err(Doubtful);
    }
    let mut found = None;
    while let Some(behind) = rest.strip_prefix(b";") {
        let behind = behind.trim_ascii_start();
        if behind.is_empty() || behind.starts_with(b";") {
            rest = behind;
            continue;
        }
        let equals = memchr::memchr(b'=', behind).ok_or(Doubtful)?;
        let (name, value) = (&behind[..equals], &behind[equals + 1..]);
        if !is_token(name) || value.first().is_some_and(u8::is_ascii_whitespace) {
            return Err(Doubtful);
        }
        let (value, after) = match value_of(value) {
            Ok(read) => read,
            // Names of files with a quote or a backslash at their end are common; nothing behind them can be the one that is wanted.
            Err(Doubtful) if found.is_some() && !mentions(value, wanted) => return Ok(found),
            Err(Doubtful) => return Err(Doubtful),
        };
        rest = after.trim_ascii_start();
        let is_part =
            name.split(|&byte| byte == b'*').next().is_some_and(|start| start.eq_ignore_ascii_case(wanted));
        if is_part
            && (found.is_some()
                || name.len() != wanted.len()
                || value.contains(&b'\\')
                || value.contains(&b'\''))
        {
            return Err(Doubtful);
        }
        if is_part {
            found = Some(value);
        }
    }
    if rest.is_empty() { Ok(found) } else { Err(Doubtful) }
}

fn mentions(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// A token or a quoted text, and what follows it.
fn value_of(text: &[u8]) -> Result<(&[u8], &[u8]), Doubtful> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let end =
            text.iter().position(|byte| *byte == b';' || byte.is_ascii_whitespace()).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return if value.iter().all(is_plain) { Ok((value, rest)) } else { Err(Doubtful) };
    };
    let end = memchr::memchr(b'"', quoted).ok_or(Doubtful)?;
    let (value, rest) = quoted.split_at(end);
    // To some the quote ends the text, to others it is part of it.
    if value.ends_with(b"\\") { Err(Doubtful) } else { Ok((value, &rest[1..])) }
}

/// `form-data`, `multipart/form-data`
fn is_kind(text: &[u8]) -> bool {
    text.trim_ascii().split(|&byte| byte == b'/').all(is_token)
}

/// RFC 9110 section 5.6.2.
fn is_token(name: &[u8]) -> bool {
    !name.is_empty()
        && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}

/// What an unquoted value may hold, so that no application takes a part of it for a blank or a quote.
fn is_plain(byte: &u8) -> bool {
    byte.is_ascii_graphic() && *byte != b'"'
}

fn finder(delimiter: &[u8]) -> memchr::memmem::Finder<'static> {
    memchr::memmem::Finder::new(delimiter).into_owned()
}

/// One that begins with a blank line has no head.
fn field<'a>(part: &'a [u8], line_end: &[u8]) -> Result<Option<Part<'a>>, Doubtful> {
    if part.is_empty() || part.starts_with(line_end) {
        return Ok(None);
    }
    let blank_line: &[u8] = if line_end == b"\n" { b"\n\n" } else { b"\r\n\r\n" };
    let end = memchr::memmem::find(part, blank_line).ok_or(Doubtful)?;
    let (head, value) = (&part[..end], &part[end + blank_line.len()..]);
    Ok(name(head, line_end, value.is_ascii())?.map(|name| Part { name, head, value }))
}

/// Codings that leave the bytes of a part unchanged (RFC 2045 section 6.1). Any other coding is decoded by some servers and
/// taken as part of the value by others: RFC 7578 section 4.7 deprecates it.
const PLAIN_ENCODINGS: [&str; 3] = ["7bit", "8bit", "binary"];

/// Whether the only charset of a media type is one of those that leave ASCII unchanged and that clients name by default.
fn is_above_ascii(content_type: &[u8]) -> bool {
    let lower = content_type.to_ascii_lowercase();
    let mut parts = lower.split(|&byte| byte == b';').skip(1).map(<[u8]>::trim_ascii);
    let Some(charset) = parts.next().and_then(|part| part.strip_prefix(b"charset=")) else { return false };
    parts.next().is_none() && matches!(charset, b"iso-8859-1" | b"windows-1252" | b"iso-8859-15")
}

/// `name` of `Content-Disposition`. Lines end as the body's do, and are fields with a token for a name: what else stands there is
/// skipped by some, cut off by others, and a blank to a third.
///
/// `is_ascii`: of the part's value, which charsets on top of ASCII do not change.
fn name<'a>(head: &'a [u8], line_end: &[u8], is_ascii: bool) -> Result<Option<&'a [u8]>, Doubtful> {
    let (mut disposition, mut is_coded) = (None, false);
    let mut lines = head.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let is_last = lines.peek().is_none();
        let line = match line.strip_suffix(b"\r") {
            Some(line) if line_end == b"\r\n" && !is_last => line,
            None if line_end == b"\n" || is_last => line,
            _ => return Err(Doubtful),
        };
        let colon = memchr::memchr(b':', line).ok_or(Doubtful)?;
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if !is_token(name) || value.iter().any(u8::is_ascii_control) {
            return Err(Doubtful);
        }
        let is_plain =
            || PLAIN_ENCODINGS.iter().any(|plain| value.trim_ascii().eq_ignore_ascii_case(plain.as_bytes()));
        is_coded |= name.eq_ignore_ascii_case(b"content-transfer-encoding") && !is_plain()
            || name.eq_ignore_ascii_case(b"content-type")
                && media_type::names_other_charset(value)
                && !(is_ascii && is_above_ascii(value));
        if name.eq_ignore_ascii_case(b"content-disposition")
            && disposition.replace(value.trim_ascii()).is_some()
        {
            return Err(Doubtful);
        }
    }
    let name = disposition.map_or(Ok(None), |disposition| parameter(disposition, b"name"))?;
    // Some cut blanks, and what follows a NUL.
    let is_file = || disposition.is_some_and(|value| mentions(value, b"filename="));
    if is_coded && !is_file() {
        return Err(Doubtful);
    }
    let is_odd = |name: &[u8]| name.trim_ascii() != name || name.iter().any(u8::is_ascii_control);
    if name.is_some_and(is_odd) { Err(Doubtful) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(body: &str, content_type: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields(body.as_bytes(), content_type.as_bytes())
            .flatten()
            .map(|(name, value)| (text(name), text(value)))
            .collect()
    }

    /// Forms that servers read in different ways are reported as `Doubtful`, not interpreted.
    #[test]
    fn names_that_nobody_can_tell() {
        let first = |disposition: &str, content_type: &str| {
            let body = format!("--x\r\nContent-Disposition: {disposition}\r\n\r\n1\r\n--x--");
            let name = fields(body.as_bytes(), content_type.as_bytes()).next();
            name.map(|field| field.map(|(name, _)| String::from_utf8_lossy(name).into_owned()))
        };
        let plain = "multipart/form-data; boundary=x";
        for (disposition, expected) in [
            ("form-data; name=\"a\"", Some(Ok("a"))),
            ("form-data; filename=\"; name=b\"; name=\"a\"", Some(Ok("a"))),
            ("form-data; name=\"a\"; filename=\"C:\\f.txt\"; x=y;", Some(Ok("a"))),
            ("form-data; filename=f", None),
            ("form-data; name=\"a\"; filename=\"f\\\"g.png\"", Some(Ok("a"))),
            ("form-data; name=\"a\"; filename=\"C:\\dir\\\"", Some(Ok("a"))),
            ("form-data; name=\"a\"; filename=\"f\\\"; name=b; x=\"", Some(Err(Doubtful))),
            ("form-data; name=a; filename=\"f\"\r\nContent-Type: text/csv; charset=utf-16", Some(Ok("a"))),
            ("form-data; name=a\r\nContent-Type: text/plain; charset=ISO-8859-1", Some(Ok("a"))),
            ("form-data; name=a; filename=\"f\"\r\nContent-Transfer-Encoding: base64", Some(Ok("a"))),
            ("form-data; name = \"a\"", Some(Err(Doubtful))),
            ("form-data; name*=UTF-8''a", Some(Err(Doubtful))),
            ("form-data; name=\"b\"; name*=UTF-8''a", Some(Err(Doubtful))),
            ("form-data; name='a'", Some(Err(Doubtful))),
            ("form-data; name=\"b\"; name=a", Some(Err(Doubtful))),
            ("form-data; x=\"\\\"; name=a", Some(Err(Doubtful))),
            ("form-data;\r\n name=a", Some(Err(Doubtful))),
            ("form-data; name=b\r\nContent-Disposition: form-data; name=a", Some(Err(Doubtful))),
            ("form-data; name=a\r\nContent-Transfer-Encoding: base64", Some(Err(Doubtful))),
            ("form-data; name=a\r\ncontent-transfer-encoding: 8BIT", Some(Ok("a"))),
            ("form-data; name=a\r\nContent-Type: text/plain; charset=utf-16le", Some(Err(Doubtful))),
        ] {
            assert_eq!(
                first(disposition, plain),
                expected.map(|name| name.map(str::to_owned)),
                "{disposition}"
            );
        }
        for content_type in [
            "multipart/form-data; boundary =x",
            "multipart/form-data, boundary=x",
            "multipart/form-data;\u{a0}boundary=x",
            "multipart/form-data\u{a0}; boundary=x",
            "multipart/form-data; boundary=y; boundary=x",
        ] {
            assert_eq!(first("form-data; name=a", content_type), Some(Err(Doubtful)), "{content_type}");
        }
        let quoted = "multipart/form-data; a=\"; boundary=y\"; boundary=x";
        assert_eq!(first("form-data; name=a", quoted), Some(Ok("a".to_owned())));
    }

    #[test]
    fn parts_of_bodies() {
        let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1 -x\r\n--x\r\n\
                    content-disposition: form-data; filename=\"f\u{fc}\"; name=b\r\n\r\n2\r\n3\r\n--x\r\n\r\nnothing\r\n--x\r\n--x--\r\n\
                    -x\r\nContent-Disposition: form-data; name=\"late\"\r\n\r\n1";
        let expected = vec![("a".to_owned(), "1 -x".to_owned()), ("b".to_owned(), "2\r\n3".to_owned())];
        assert_eq!(found(body, "multipart/form-data; boundary=x"), expected);
        assert_eq!(found(body, "multipart/form-data; charset=y; Boundary=\"x\""), expected);
        let with_line_feeds = "--x\nContent-Disposition: form-data; name=a\n\n1\n--x--\n";
        assert_eq!(found(with_line_feeds, "a; boundary=x"), [("a".to_owned(), "1".to_owned())]);
        for content_type in ["multipart/form-data", "multipart/form-data; boundary="] {
            assert_eq!(found(body, content_type), [], "{content_type}");
        }
        assert_eq!(found("", "multipart/form-data; boundary=x"), []);
        let in_front = format!("\r\n{body}");
        assert_eq!(found(&in_front, "multipart/form-data; boundary=x"), expected);
    }

    /// What applications divide in different ways.
    #[test]
    fn bodies_that_are_doubtful() {
        let part = "Content-Disposition: form-data; name=\"a\"\r\n\r\n1";
        for (body, boundary) in [
            (format!("pre\r\n--x\r\n{part}\r\n--x--"), "x"),
            (format!(" --x\r\n{part}\r\n--x--"), "x"),
            (format!("---x\r\n{part}\r\n--x--"), "x"),
            (format!("--x \r\n{part}\r\n--x--"), "x"),
            (format!("--xy\r\n{part}\r\n--x--"), "x"),
            (format!("--x--\r\n--x\r\n{part}\r\n--x--"), "x"),
            (format!("--x\r\n{part}\r\n--x--\r\n--x\r\n{part}\r\n--x--"), "x"),
            (format!("--x\r\n{part} --x\r\n{part}\r\n--x--"), "x"),
            (format!("--x\r\n{part}--x--"), "x"),
            (format!("--x\r\n{part}\n--x--"), "x"),
            (format!("--x\r\n{part}\r\n--x--y"), "x"),
            (format!("--x\r\n{part}"), "x"),
            (format!("--x\r{part}\r--x--"), "x"),
            ("--x\r\nContent-Disposition: form-data; name=\"a\"\r\r1\r\n--x--".to_owned(), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("\"a", "\" a")), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("a\"", "a\0\"")), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("\r\n", "\n")), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("\r\n", "\r\n\n")), "x"),
            (format!("--x\r\n\u{a0}{part}\r\n--x--"), "x"),
            (format!("--x\r\n\u{1c}{part}\r\n--x--"), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("; name", ";\u{a0}name")), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace("; name", "\u{2003}; name")), "x"),
            (format!("--x\r\n{}\r\n--x--", part.replace(": ", ":\u{b}")), "x"),
            (format!("--x\r\nno colon\r\n{part}\r\n--x--"), "x"),
            (format!("--x\r\nnothing\r\n--x\r\n{part}\r\n--x--"), "x"),
            (format!("--x,y\r\n{part}\r\n--x,y--"), "x,y"),
            (format!("--x y\r\n{part}\r\n--x y--"), "\"x y\""),
            (format!("--\u{e9}\r\n{part}\r\n--\u{e9}--"), "\u{e9}"),
            (format!("--x\r\n{part}\r\n--x--"), "y"),
        ] {
            let content_type = format!("multipart/form-data; boundary={boundary}");
            let mut found = fields(body.as_bytes(), content_type.as_bytes());
            assert_eq!((found.next(), found.next()), (Some(Err(Doubtful)), None), "{body:?}");
        }
    }

    /// A head never reaches over the next delimiter: looking for its end takes no more time than the part is long.
    #[test]
    fn parts_without_a_head() {
        let body =
            format!("{}Content-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--", "--x\r\n".repeat(9));
        assert_eq!(found(&body, "a; boundary=x").len(), 1);
    }
}
