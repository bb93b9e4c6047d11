//! Base64 as `ngx.encode_base64` and `ngx.decode_base64` treat it.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// Stops at the first `=`; padding may be missing.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'=').unwrap_or(text.len());
    LENIENT.decode(&text[..end]).ok()
}

/// With padding, as `ngx.encode_base64`.
pub fn encode(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// The alphabet of JSON web tokens, without padding.
pub fn encode_url(bytes: impl AsRef<[u8]>) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}

const LENIENT_URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// As nginx's `ngx_decode_base64url`: `None` where that fails.
pub fn decode_url(text: &[u8]) -> Option<Vec<u8>> {
    LENIENT_URL.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_about_padding_only() {
        let cases: [(&str, Option<&[u8]>); 7] = [
            ("Zm9vOmJhcg==", Some(b"foo:bar")),
            ("Zm9vOmJhcg", Some(b"foo:bar")),
            ("Zm9vOmJhcg==garbage", Some(b"foo:bar")),
            ("", Some(b"")),
            ("A", None),
            ("Zm9v!", None),
            ("Zm9v OmJ", None),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(text.as_bytes()).as_deref(), expected, "{text}");
        }
    }
}
