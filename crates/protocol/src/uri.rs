//! Paths and queries: percent decoding and the normalised path that routing and access rules see.
//!
//! Routing must judge the same path that the upstream will act on, so the normal form is computed once:
//! percent-decoded, `//` merged, `.` and `..` resolved (nginx's `$uri`).

/// Writes the normal form of a raw path into `out`. `Err` when it climbs above the root or holds a bad escape or NUL.
pub fn normalize_path(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    out.clear();
    if is_plain(raw) {
        out.extend_from_slice(raw);
        return Ok(());
    }
    decode_into(raw, out, false)?;
    resolve_segments(out)
}

/// In a marked path: a slash that is still encoded. No other path has this byte.
pub const MARK: u8 = 0;

/// As [`normalize_path`], with a [`MARK`] for each `%2F`.
pub fn normalize_marking_slashes(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    out.clear();
    if is_plain(raw) {
        out.extend_from_slice(raw);
        return Ok(());
    }
    decode_into(raw, out, true)?;
    resolve_segments(out)
}

/// A marked path as routes and plugins see it: with `%2F`, which is also what a client has written as `%252F`.
pub fn unmarked(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 8);
    for &byte in path {
        if byte == MARK { out.extend_from_slice(b"%2F") } else { out.push(byte) }
    }
    out
}

/// No escapes, no `//`, no dot segments: the usual case, one scan.
fn is_plain(raw: &[u8]) -> bool {
    let mut previous = 0u8;
    for &byte in raw {
        if byte == b'%' || (previous == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        previous = byte;
    }
    true
}

fn decode_into(raw: &[u8], out: &mut Vec<u8>, marks: bool) -> Result<(), &'static str> {
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        if byte == b'%' {
            let (Some(high), Some(low)) = (raw.get(at + 1).and_then(hex), raw.get(at + 2).and_then(hex))
            else {
                return Err("invalid percent-encoding in the path");
            };
            let decoded = high * 16 + low;
            if decoded == 0 {
                return Err("NUL in the path");
            }
            out.push(if marks && decoded == b'/' { MARK } else { decoded });
            at += 3;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    Ok(())
}

fn resolve_segments(path: &mut Vec<u8>) -> Result<(), &'static str> {
    let source = std::mem::take(path);
    path.reserve(source.len());
    let mut segments = source.split(|&byte| byte == b'/').skip(1).peekable();
    path.push(b'/');
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." => {
                if path.len() == 1 {
                    return Err("path climbs above the root");
                }
                path.pop();
                let parent = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                path.truncate(parent + 1);
            }
            _ => {
                path.extend_from_slice(segment);
                if !last {
                    path.push(b'/');
                }
            }
        }
    }
    Ok(())
}

fn hex(digit: &u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Decodes `%XX`; bad escapes stay as they are. With `plus`, `+` is a space (form encoding).
pub fn percent_decode(text: &[u8], plus: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => match (text.get(at + 1).and_then(hex), text.get(at + 2).and_then(hex)) {
                (Some(high), Some(low)) => {
                    out.push(high * 16 + low);
                    at += 2;
                }
                _ => out.push(byte),
            },
            b'+' if plus => out.push(b' '),
            _ => out.push(byte),
        }
        at += 1;
    }
    out
}

/// Encodes what may not stand in a path: controls, space, `%`, `?`, `#` and bytes above ASCII (nginx's escape of a URI).
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    for &byte in path {
        if byte <= 0x20 || byte >= 0x7f || matches!(byte, b'%' | b'?' | b'#') {
            push_escaped(out, byte);
        } else {
            out.push(byte);
        }
    }
}

/// As [`encode_path`], of a marked path.
pub fn encode_marked_path(path: &[u8], out: &mut Vec<u8>) {
    for (number, part) in path.split(|&byte| byte == MARK).enumerate() {
        if number > 0 {
            out.extend_from_slice(b"%2F");
        }
        encode_path(part, out);
    }
}

/// Encodes everything but unreserved characters (RFC 3986 section 2.3), as for one query value.
pub fn encode_component(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            push_escaped(out, byte);
        }
    }
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The pairs of a query string, still encoded; a pair without `=` has `None` as value.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    let mut rest = Some(query);
    let pairs = std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memchr(b'&', text);
        rest = end.and_then(|end| text.get(end + 1..));
        Some(end.and_then(|end| text.get(..end)).unwrap_or(text))
    });
    pairs.filter(|pair| !pair.is_empty()).map(|pair| match memchr::memchr(b'=', pair) {
        Some(at) => (&pair[..at], Some(&pair[at + 1..])),
        None => (pair, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms() {
        let cases: &[(&str, Result<&str, ()>)] = &[
            ("/", Ok("/")),
            ("/a/b", Ok("/a/b")),
            ("/a/b/", Ok("/a/b/")),
            ("//a///b", Ok("/a/b")),
            ("/a/./b/../c", Ok("/a/c")),
            ("/a/..", Ok("/")),
            ("/a/%2e%2e/b", Ok("/b")),
            ("/a%2fb", Ok("/a/b")),
            ("/a%20b", Ok("/a b")),
            ("/..", Err(())),
            ("/a/../../b", Err(())),
            ("/%2e%2e/", Err(())),
            ("/%", Err(())),
            ("/%zz", Err(())),
            ("/%00", Err(())),
            ("/.hidden", Ok("/.hidden")),
            ("/a/...", Ok("/a/...")),
        ];
        for (raw, expected) in cases {
            let mut out = Vec::new();
            let result = normalize_path(raw.as_bytes(), &mut out).map(|()| String::from_utf8(out).unwrap());
            assert_eq!(result.as_deref().map_err(|_| ()), *expected, "{raw}");
        }
    }

    #[test]
    fn encoded_slashes_are_told_from_text() {
        for (raw, path, again) in [
            ("/a%2Fb", "/a%2Fb", "/a%2Fb"),
            ("/a%2fb%252Fc//d", "/a%2Fb%2Fc/d", "/a%2Fb%252Fc/d"),
            ("/a%25%32%46%20", "/a%2F ", "/a%252F%20"),
        ] {
            let (mut marked, mut out) = (Vec::new(), Vec::new());
            normalize_marking_slashes(raw.as_bytes(), &mut marked).unwrap();
            encode_marked_path(&marked, &mut out);
            assert_eq!((unmarked(&marked).as_slice(), out.as_slice()), (path.as_bytes(), again.as_bytes()));
        }
        assert!(normalize_marking_slashes(b"/a%00", &mut Vec::new()).is_err());
    }
}
