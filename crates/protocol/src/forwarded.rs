//! What proxies in front report about where a request came from: `X-Forwarded-*`, `Forwarded` (RFC 7239). An empty
//! or malformed value has no meaning, and each reader behind the gateway would interpret it differently.

use crate::{HeaderId, fields::is_token_byte};

/// Whether the value of a forwarding field is well-formed. Fields other than the known ones only must not be empty.
pub fn is_valid(id: HeaderId, value: &[u8]) -> bool {
    match id {
        HeaderId::XForwardedProto => is_list(value, is_scheme),
        HeaderId::XForwardedHost => is_list(value, crate::request::is_host),
        HeaderId::XForwardedPort => is_list(value, is_port),
        HeaderId::XForwardedFor => is_list(value, is_node),
        HeaderId::Forwarded => is_list_of_pairs(value),
        _ => !value.trim_ascii().is_empty(),
    }
}

/// One or more items with commas between; empty ones are ignored (RFC 9110 section 5.6.1.2) unless all are.
fn is_list(value: &[u8], is_item: fn(&[u8]) -> bool) -> bool {
    let mut items =
        value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|item| !item.is_empty()).peekable();
    items.peek().is_some() && items.all(is_item)
}

/// The items of the `X-Forwarded-For` lines after the last malformed one. The sender of that item has no say in what a proxy
/// adds after it; blanks separate items, too, as in nginx.
pub fn well_formed_end<'v>(lines: impl DoubleEndedIterator<Item = &'v [u8]>) -> Vec<u8> {
    let items = lines.rev().flat_map(|line| line.rsplit(|byte| matches!(byte, b',' | b' ' | b'\t')));
    let mut kept: Vec<&[u8]> =
        items.filter(|item| !item.is_empty()).take_while(|item| is_node(item)).collect();
    kept.reverse();
    kept.join(&b", "[..])
}

/// RFC 3986 section 3.1.
fn is_scheme(item: &[u8]) -> bool {
    item.first().is_some_and(u8::is_ascii_alphabetic)
        && item.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn is_port(item: &[u8]) -> bool {
    item.len() <= 5
        && item.iter().all(u8::is_ascii_digit)
        && (1..=65_535).contains(&item.iter().fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0')))
}

/// An address with or without a port, `unknown`, or an obfuscated identifier (RFC 7239 section 6).
fn is_node(item: &[u8]) -> bool {
    item.iter().all(|byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'[' | b']' | b'_' | b'-' | b'%')
    })
}

/// `for=192.0.2.60;proto=http, for="[2001:db8::1]"` (RFC 7239 section 4).
fn is_list_of_pairs(value: &[u8]) -> bool {
    let mut rest = value.trim_ascii();
    let mut pairs = 0;
    while let Some(first) = rest.first() {
        if matches!(first, b',' | b';' | b' ' | b'\t') {
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let name = rest.iter().take_while(|byte| is_token_byte(**byte)).count();
        if name == 0 || rest.get(name) != Some(&b'=') {
            return false;
        }
        let Some(after) = skip_value(rest.get(name + 1..).unwrap_or_default()) else { return false };
        rest = after.trim_ascii_start();
        if !matches!(rest.first(), None | Some(b',' | b';')) {
            return false;
        }
        pairs += 1;
    }
    pairs > 0
}

/// The rest after a token or a quoted string.
fn skip_value(text: &[u8]) -> Option<&[u8]> {
    if text.first() != Some(&b'"') {
        // Addresses without the quotes that they should have are common.
        let length = text
            .iter()
            .take_while(|byte| is_token_byte(**byte) || matches!(byte, b':' | b'[' | b']'))
            .count();
        return text.get(length..).filter(|_| length > 0);
    }
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return text.get(at + 1..),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_nonsense_counts() {
        for (lines, wanted) in [
            (&["<, 1.1.1.1"][..], "1.1.1.1"),
            (&["1.1.1.1, <, 2.2.2.2", "3.3.3.3:4"], "2.2.2.2, 3.3.3.3:4"),
            (&["1.1.1.1", "2.2.2.2, <"], ""),
            (&["a b, 1.1.1.1"], "a, b, 1.1.1.1"),
            (&["<"], ""),
        ] {
            let kept = well_formed_end(lines.iter().map(|line| line.as_bytes()));
            assert_eq!(String::from_utf8_lossy(&kept), wanted, "{lines:?}");
        }
    }

    #[test]
    fn what_says_nothing_is_not_valid() {
        use HeaderId::*;
        let cases: &[(HeaderId, &str, bool)] = &[
            (XForwardedProto, "https", true),
            (XForwardedProto, "https, http", true),
            (XForwardedProto, "https,", true),
            (XForwardedProto, "", false),
            (XForwardedProto, " , ", false),
            (XForwardedProto, "https://", false),
            (XForwardedProto, "1", false),
            (XForwardedHost, "a.example:8080", true),
            (XForwardedHost, "[::1]:80", true),
            (XForwardedHost, "", false),
            (XForwardedHost, "a/b", false),
            (XForwardedHost, "a b", false),
            (XForwardedHost, "<script>", false),
            (XForwardedPort, "443", true),
            (XForwardedPort, "0", false),
            (XForwardedPort, "65536", false),
            (XForwardedPort, "", false),
            (XForwardedPort, "443;", false),
            (XForwardedFor, "1.2.3.4, [::1]:5, unknown, _hidden", true),
            (XForwardedFor, ", 1.2.3.4", true),
            (XForwardedFor, "", false),
            (XForwardedFor, ",", false),
            (XForwardedFor, "1.2.3.4<", false),
            (Forwarded, "for=192.0.2.60;proto=http;by=203.0.113.43", true),
            (Forwarded, "For=\"[2001:db8:cafe::17]:4711\", for=unknown", true),
            (Forwarded, "for=\"a\\\"b\"", true),
            (Forwarded, "", false),
            (Forwarded, "for", false),
            (Forwarded, "for=", false),
            (Forwarded, "for=\"a", false),
            (Forwarded, "1.2.3.4", false),
            (Other, "x", true),
            (Other, " ", false),
        ];
        for (id, value, expected) in cases {
            assert_eq!(is_valid(*id, value.as_bytes()), *expected, "{id:?} {value:?}");
        }
    }
}
