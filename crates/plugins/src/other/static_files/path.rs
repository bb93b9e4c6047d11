//! From the path of a request to a name below the root: what may not be asked for never reaches the file system.

/// The path relative to the root, without a slash at its start; `None`: refused.
///
/// The gateway has decoded and resolved the path already. A second look, because a name that climbs must not depend on
/// the care of other code: `proxy-rewrite` and its like have been there.
pub(super) fn relative<'a>(path: &'a [u8], strip_prefix: &[u8], dotfiles: bool) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(strip_prefix)?;
    // A prefix ends at a slash or stands for one: `/static` is not a prefix of `/statics`.
    let rest = match rest.strip_prefix(b"/") {
        _ if strip_prefix.ends_with(b"/") => rest,
        Some(rest) => rest,
        None if rest.is_empty() => rest,
        None => return None,
    };
    is_safe(rest, dotfiles).then_some(rest)
}

/// Whether a relative path stays where it is, and names nothing hidden.
pub(crate) fn is_safe(path: &[u8], dotfiles: bool) -> bool {
    if path.starts_with(b"/") || path.len() > PATH_LIMIT {
        return false;
    }
    if path.iter().any(|&byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    let mut segments = path.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((index, segment)) = segments.next() {
        let last = segments.peek().is_none();
        let hidden = segment.first() == Some(&b'.');
        // RFC 8615 puts public files there.
        let well_known = index == 0 && segment == b".well-known";
        if (segment.is_empty() && !last)
            || segment == b"."
            || segment == b".."
            || (hidden && !well_known && !dotfiles)
        {
            return false;
        }
    }
    true
}

/// Linux takes no longer path (PATH_MAX, with its NUL).
const PATH_LIMIT: usize = 4095;

/// A path as it may stand in a `Location` or a link. Never starts with two slashes, which would name a host.
pub(super) fn encode(path: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = path;
    if path.first() == Some(&b'/') {
        while let Some(next) = rest.strip_prefix(b"/") {
            rest = next;
        }
        out.push(b'/');
    }
    for &byte in rest {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=@".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |value: u8| HEX.get(usize::from(value)).copied().unwrap_or(b'0');
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_below_the_root_pass() {
        let check = |path: &str, prefix: &str, expected: Option<&str>| {
            let found = relative(path.as_bytes(), prefix.as_bytes(), false);
            assert_eq!(found, expected.map(str::as_bytes), "{path} without {prefix}");
        };
        check("/", "", Some(""));
        check("/a/b.txt", "", Some("a/b.txt"));
        check("/a/", "", Some("a/"));
        check("/static/a", "/static", Some("a"));
        check("/static/a", "/static/", Some("a"));
        check("/static", "/static", Some(""));
        check("/statics", "/static", None);
        check("/other", "/static", None);
        check("/..", "", None);
        check("/a/../b", "", None);
        check("/./a", "", None);
        check("//etc/passwd", "", None);
        check("/a//b", "", None);
        check("/static//etc", "/static/", None);
        // A backslash is a letter here.
        check("/a\\..\\b", "", Some("a\\..\\b"));
        check("/a\0b", "", None);
        check("/a\nb", "", None);
        check("/.git/config", "", None);
        check("/a/.env", "", None);
        check("/.well-known/acme", "", Some(".well-known/acme"));
        check("/a/.well-known/acme", "", None);
        check(&format!("/{}", "a".repeat(5000)), "", None);
        assert!(is_safe(b".git/config", true));
        assert!(!is_safe(b"../x", true));
    }

    #[test]
    fn locations_name_no_host() {
        let check = |path: &str, expected: &str| {
            let mut out = Vec::new();
            encode(path.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("/a b/ü?#\r\n", "/a%20b/%C3%BC%3F%23%0D%0A");
        check("//evil.example/", "/evil.example/");
        check("/a:b", "/a%3Ab");
    }
}
