//! Values as nginx reads them where other readers differ: a guard of an imported file must not be passed by the difference.

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

/// Unused bits of the last letter do not matter, and padding is cut off before.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The user of `Authorization: Basic …`: the text before the first colon; none without a colon. Anything after the first
/// `=` of the encoded text is ignored.
pub(super) fn user(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = authorization.split_at_checked(b"basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let encoded = rest.split(|&byte| byte == b'=').next()?.trim_ascii_start();
    let mut decoded = LENIENT.decode(encoded).ok()?;
    let end = decoded.iter().position(|&byte| byte == b':')?;
    decoded.truncate(end);
    Some(decoded)
}

/// `$cookie_NAME`: the name in any case, pairs between `;` or `,`, a value up to `;`, and only blanks (no tabs) around names. A
/// name without `=` swallows the pair behind it.
pub(super) fn cookie<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        let after = rest.split_at_checked(name.len()).filter(|(start, _)| start.eq_ignore_ascii_case(name));
        if let Some((_, after)) = after {
            let after = without_blanks(after);
            match after.split_first() {
                Some((b'=', value)) => {
                    let value = without_blanks(value);
                    return value.split(|&byte| byte == b';').next();
                }
                Some((_, next)) => rest = next,
                None => return None,
            }
        }
        let end = rest.iter().position(|byte| matches!(byte, b';' | b','))?;
        rest = without_blanks(rest.get(end + 1..)?);
        if rest.is_empty() {
            return None;
        }
    }
}

fn without_blanks(text: &[u8]) -> &[u8] {
    text.get(text.iter().take_while(|byte| **byte == b' ').count()..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each as nginx 1.22 answers.
    #[test]
    fn users() {
        for (field, user) in [
            ("Basic YWRtOng=", Some("adm")),
            ("basic YWRtOng", Some("adm")),
            ("Basic   YWRtOng=", Some("adm")),
            ("Basic YWRtOng=x", Some("adm")),
            ("Basic YWRtOng=YWRtOng=", Some("adm")),
            ("Basic OnB3", Some("")),
            ("Basic YWRt", None),
            ("Basic ", None),
            ("Basic Y", None),
            ("Basic YWRtO*g", None),
            ("Bearer YWRtOng=", None),
        ] {
            let found = super::user(field.as_bytes());
            assert_eq!(found.as_deref(), user.map(str::as_bytes), "{field}");
        }
    }

    #[test]
    fn cookies() {
        for (line, value) in [
            ("b=1", Some("1")),
            ("B=1", Some("1")),
            ("a=2, b=1", Some("1")),
            ("a=2;b=1;c", Some("1")),
            ("b = 1", Some("1")),
            (",b=1", Some("1")),
            ("b=1 ;", Some("1 ")),
            ("b=1,c=2", Some("1,c=2")),
            ("b=", Some("")),
            ("b;b=1", None),
            ("b; a=1; b=1", Some("1")),
            ("bb=1", None),
            ("a=2;\tb=1", None),
            ("b", None),
            ("", None),
        ] {
            assert_eq!(cookie(line.as_bytes(), b"b"), value.map(str::as_bytes), "{line:?}");
        }
    }
}
