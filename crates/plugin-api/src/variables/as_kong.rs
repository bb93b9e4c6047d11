//! `$kong_uri`: the path as Kong compares it, where reserved characters that came escaped stay so.

use tidegate_protocol::uri::normalize_path;

/// Those of RFC 3986, and the percent sign.
const RESERVED: &[u8] = b"!*'();:@&=+$,/?%#[]";

/// The normal form of a raw path. `None` for one that has none.
pub(super) fn path(raw: &[u8]) -> Option<Vec<u8>> {
    let mut marked = Vec::with_capacity(raw.len() + 8);
    let mut rest = raw;
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.get(..2).filter(|_| first == b'%').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(code) if RESERVED.contains(&code) => {
                // Decoding it once gives the received escape.
                marked.extend_from_slice(format!("%25{code:02X}").as_bytes());
                rest = behind.get(2..).unwrap_or_default();
            }
            _ => {
                marked.push(first);
                rest = behind;
            }
        }
    }
    let mut path = Vec::with_capacity(marked.len());
    normalize_path(&marked, &mut path).ok().map(|()| path)
}

#[cfg(test)]
mod tests {
    /// Each as `kong.tools.uri.normalize(uri, true)` has it.
    #[test]
    fn paths() {
        for (raw, wanted) in [
            ("/a", Some("/a")),
            ("/%61%2f%40", Some("/a%2F%40")),
            ("/a@b", Some("/a@b")),
            ("/%25%32%35", Some("/%2525")),
            ("/a//b/../%2e/c", Some("/a/c")),
            ("/%C3%A9%20x", Some("/é x")),
            ("/a%2Fb/%2e%2e", Some("/")),
            ("/%zz", None),
        ] {
            let found = super::path(raw.as_bytes());
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{raw}");
        }
    }
}
