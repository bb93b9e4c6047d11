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

#[cfg(test)]
mod tests {
    use super::{is, is_like};

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
