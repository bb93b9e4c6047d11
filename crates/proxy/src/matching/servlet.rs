//! Paths as a servlet container reads them (`apisix.normalize_uri_like_servlet`): path parameters (`;x=1`) are dropped
//! per segment before anything is decoded, and a dot segment at the end leaves no slash.
//!
//! Routes and access rules then see the path that the servlet will get. `tests/servlet` holds Tomcat 10's readings of a
//! table of spellings. Paths that containers are known to read in different ways are refused, as in APISIX.

/// Writes the normal form of a raw path into `out`. `Err`: containers disagree about it, or refuse it.
pub(super) fn normalize(raw: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut plain = Vec::with_capacity(raw.len());
    let mut ends_in_dots = false;
    let mut segments = raw.split(|&byte| byte == b'/').enumerate().peekable();
    while let Some((index, segment)) = segments.next() {
        if index > 0 {
            plain.push(b'/');
        }
        let end = segment.iter().position(|&byte| byte == b';');
        let name = segment.get(..end.unwrap_or(segment.len())).unwrap_or_default();
        let is_last = segments.peek().is_none();
        ends_in_dots = check(name, end.is_some(), is_last)?;
        plain.extend_from_slice(name);
    }
    tidegate_protocol::uri::normalize_path(&plain, out)?;
    if ends_in_dots && out.len() > 1 && out.last() == Some(&b'/') {
        out.pop();
    }
    Ok(())
}

/// Whether the name of a segment ends in a dot segment. `%2F` in it is a slash to some.
fn check(name: &[u8], has_parameters: bool, is_last: bool) -> Result<bool, &'static str> {
    let decoded = tidegate_protocol::uri::percent_decode(name, false);
    if decoded.contains(&b'\\') {
        return Err("backslash in the path");
    }
    let mut is_dots = false;
    let mut parts = decoded.split(|&byte| byte == b'/').peekable();
    while let Some(part) = parts.next() {
        let at_end = parts.peek().is_none();
        // An encoded semicolon begins parameters where a proxy before the container has decoded it.
        let (head, encoded_parameters) = match part.iter().position(|&byte| byte == b';') {
            Some(end) => (part.get(..end).unwrap_or_default(), true),
            None => (part, false),
        };
        is_dots = is_dot_segment(head);
        if encoded_parameters || (at_end && has_parameters) {
            if is_dots || is_dot_segment(&tidegate_protocol::uri::percent_decode(head, false)) {
                return Err("dot segment with parameters in the path");
            }
            if head.is_empty() && !(at_end && is_last) {
                return Err("empty segment with parameters in the path");
            }
        }
    }
    Ok(is_dots)
}

fn is_dot_segment(part: &[u8]) -> bool {
    part == b"." || part == b".."
}
