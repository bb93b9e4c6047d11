//! Media types (RFC 9110 section 8.3.1).

/// Whether a `Content-Type` is this type and nothing but its parameters follow. `application/json+x` is another type than
/// `application/json`, and what comes after `;` without `=` may be the type to another reader.
pub fn is(content_type: &[u8], media_type: &str) -> bool {
    let mut parts = content_type.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let same = parts.next().is_some_and(|written| written.eq_ignore_ascii_case(media_type.as_bytes()));
    same && parts.all(|parameter| parameter.is_empty() || parameter.contains(&b'='))
}

/// Whether it begins like this type and is not it: readers that compare the beginning, or end a type at `,` or a blank, take it
/// for this one.
pub fn is_like(content_type: &[u8], media_type: &str) -> bool {
    let start = content_type.trim_ascii_start().get(..media_type.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(media_type.as_bytes()))
        && !is(content_type, media_type)
}

/// Whether a `Content-Type` names another charset than UTF-8 or a part of it, in any place and form: readers differ in what
/// they take for a parameter. JSON has no other (RFC 8259 section 8.1), but frameworks decode it by this one.
pub fn names_other_charset(content_type: &[u8]) -> bool {
    const NAME: &[u8] = b"charset";
    let lower = content_type.to_ascii_lowercase();
    let is_utf8 = |rest: &[u8]| {
        let Some(value) = rest.strip_prefix(b"=") else { return false };
        let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        matches!(bare, b"utf-8" | b"utf8" | b"us-ascii" | b"ascii")
    };
    lower
        .windows(NAME.len())
        .enumerate()
        .any(|(at, window)| window == NAME && !is_utf8(lower.get(at + NAME.len()..).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::{is, is_like, names_other_charset};

    #[test]
    fn charsets() {
        for (written, expected) in [
            ("application/json", false),
            ("application/json; charset=utf-8", false),
            ("application/json;Charset=\"UTF-8\" ; a=b", false),
            ("application/json; charset=us-ascii", false),
            ("application/json; charset=utf-7", true),
            ("application/json; charset=utf-8; charset=utf-16", true),
            ("application/json; charset = utf-8", true),
            ("application/json; charset*=utf-7''x", true),
            ("application/json; charset='utf-8'", true),
            ("application/json; charset=utf-8, charset=utf-7", true),
        ] {
            assert_eq!(names_other_charset(written.as_bytes()), expected, "{written}");
        }
    }

    #[test]
    fn whole_types() {
        for (written, expected) in [
            ("a/form", true),
            ("A/Form ; charset=utf-8", true),
            ("a/form;", true),
            ("a/form+json", false),
            ("a/formjson", false),
            ("a/form, a/json", false),
            ("a/form;a/json", false),
            ("a/form;charset=utf-8;a/json", false),
            ("", false),
        ] {
            assert_eq!(is(written.as_bytes(), "a/form"), expected, "{written}");
            assert_eq!(is_like(written.as_bytes(), "a/form"), !expected && !written.is_empty(), "{written}");
        }
    }
}
