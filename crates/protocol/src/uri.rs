//! Paths and queries: percent decoding and the normalised path that routing and access rules see.
//!
//! Routing must judge the same path that the upstream will act on, so the normal form is computed once:
//! percent-decoded, `//` merged, `.` and `..` resolved (nginx's `$uri`).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};

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

/// Decodes `%XX`; bad escapes stay unchanged. With `plus`, `+` is a space (form encoding).
pub fn percent_decode(text: &[u8], plus: bool) -> Vec<u8> {
    if !plus || memchr::memchr(b'+', text).is_none() {
        return Cow::from(percent_encoding::percent_decode(text)).into_owned();
    }
    let spaced: Vec<u8> = text.iter().map(|&byte| if byte == b'+' { b' ' } else { byte }).collect();
    percent_encoding::percent_decode(&spaced).collect()
}

/// As [`percent_decode`], of text; bytes that are not UTF-8 afterwards are replaced.
pub fn percent_decode_text(text: &str, plus: bool) -> String {
    String::from_utf8_lossy(&percent_decode(text.as_bytes(), plus)).into_owned()
}

/// What a path may not contain: controls, space, `%`, `?`, `#` and bytes above ASCII (nginx's escape of a URI).
const NOT_IN_PATHS: &AsciiSet = &CONTROLS.add(b' ').add(b'%').add(b'?').add(b'#');

/// Encodes what a path may not contain.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    percent_encode(path, NOT_IN_PATHS).for_each(|part| out.extend_from_slice(part.as_bytes()));
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

/// All but unreserved characters (RFC 3986 section 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes everything but unreserved characters, as for one query value.
pub fn encode_component(text: &[u8], out: &mut Vec<u8>) {
    percent_encode(text, RESERVED).for_each(|part| out.extend_from_slice(part.as_bytes()));
}

/// As [`encode_component`], of text.
pub fn encoded_component(text: &str) -> String {
    percent_encode(text.as_bytes(), RESERVED).to_string()
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
    fn escapes_are_decoded_once() {
        for (text, plus, expected) in [
            ("a%20b+c", false, "a b+c"),
            ("a%20b+c%2B", true, "a b c+"),
            ("%2520", false, "%20"),
            ("100%", true, "100%"),
            ("%4", false, "%4"),
            ("%zz%+1+%41", true, "%zz% 1 A"),
        ] {
            assert_eq!(percent_decode_text(text, plus), expected, "{text}");
        }
    }

    #[test]
    fn encodings() {
        let mut out = Vec::new();
        encode_path(b"/a b%?#\x7f\xc3~\"", &mut out);
        assert_eq!(out, b"/a%20b%25%3F%23%7F%C3~\"");
        assert_eq!(encoded_component("a-._~/ \u{e9}&="), "a-._~%2F%20%C3%A9%26%3D");
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
