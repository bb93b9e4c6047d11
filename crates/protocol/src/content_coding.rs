//! What `Accept-Encoding` lets through (RFC 9110, 12.5.3).

/// Whether a line of `Accept-Encoding` names a coding with a weight above 0; `any`: `*` counts as its name.
pub fn accepts(line: &[u8], coding: &str, any: bool) -> bool {
    line.split(|&byte| byte == b',').any(|item| item_accepts(item, coding, any))
}

fn item_accepts(item: &[u8], coding: &str, any: bool) -> bool {
    let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let is_named = name.eq_ignore_ascii_case(coding.as_bytes());
    let is_any = any && name == b"*";
    if !is_named && !is_any {
        return false;
    }
    let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
    let weight = weight.and_then(|weight| std::str::from_utf8(weight).ok()?.trim().parse::<f32>().ok());
    weight.is_none_or(|weight| weight > 0.0)
}

#[cfg(test)]
mod tests {
    use super::accepts;

    #[test]
    fn items_of_accept_encoding() {
        let cases = [
            ("gzip", false, true),
            (" GZIP ", false, true),
            ("gzip;q=0", false, false),
            ("gzip; q=0.5", false, true),
            ("gzip;q=0.000", false, false),
            ("*", false, false),
            ("*", true, true),
            ("*;q=0", true, false),
            ("gzipped", false, false),
            ("br, gzip;q=0.2", false, true),
            ("", true, false),
        ];
        for (line, any, expected) in cases {
            assert_eq!(accepts(line.as_bytes(), "gzip", any), expected, "{line}");
        }
    }
}
