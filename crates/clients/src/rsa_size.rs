//! RSA keys of a size that no signature is checked with: the library reads them, and verifies nothing. Which sizes that are follows
//! from the algorithms of [`crate::jws::VerifyingKey::from_pem`].

use crate::{
    jws::{Algorithm, public_key_der},
    public_jwk::{element, rsa_numbers},
};

const MOST_BITS: usize = 8192;

/// What to say of the public key (or certificate) in this field, if its size makes it useless. Without an algorithm any may come.
pub fn size_remark(field: &str, algorithm: Option<Algorithm>, pem: &str) -> Option<String> {
    let bits = bits(&public_key_der(pem).ok()?)?;
    let least = match algorithm {
        Some(Algorithm::Rs384 | Algorithm::Ps256 | Algorithm::Ps384 | Algorithm::Ps512) => 2048,
        _ => 1024,
    };
    let of = algorithm.map_or(String::new(), |algorithm| format!(" of {}", algorithm.name()));
    (!(least..=MOST_BITS).contains(&bits)).then(|| {
        format!(
            "{field} is an RSA key of {bits} bits, and signatures{of} are checked with {least} to {MOST_BITS} bits only: \
             every signature is refused; use a key of 2048 bits or more"
        )
    })
}

/// Of the modulus, in a key as SPKI (RFC 5280) or PKCS#1 (RFC 8017).
fn bits(der: &[u8]) -> Option<usize> {
    let (modulus, _) = rsa_numbers(der).or_else(|| {
        let (key_info, _) = element(der, 0x30)?;
        let (_, rest) = element(key_info, 0x30)?;
        let (bit_string, _) = element(rest, 0x03)?;
        rsa_numbers(bit_string.get(1..)?)
    })?;
    Some(modulus.len() * 8 - modulus.first()?.leading_zeros() as usize)
}
