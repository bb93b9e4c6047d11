//! The public half of a private key, as a JWK (RFC 7517).

use aws_lc_rs::{
    rsa,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
        EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use crate::nginx_base64::encode_url;

/// The curves, and how long a coordinate is.
const CURVES: [(&str, usize, &EcdsaSigningAlgorithm); 3] = [
    ("P-256", 32, &ECDSA_P256_SHA256_FIXED_SIGNING),
    ("P-384", 48, &ECDSA_P384_SHA384_FIXED_SIGNING),
    ("P-521", 66, &ECDSA_P521_SHA512_FIXED_SIGNING),
];

/// Of a key in PEM, of RSA or of a curve of NIST. The error says why there is none.
pub fn public_jwk(pem: &str) -> Result<Value, String> {
    let der = PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| error.to_string())?;
    for (name, length, algorithm) in CURVES {
        let pair = match &der {
            PrivateKeyDer::Sec1(key) => EcdsaKeyPair::from_private_key_der(algorithm, key.secret_sec1_der()),
            PrivateKeyDer::Pkcs8(key) => EcdsaKeyPair::from_pkcs8(algorithm, key.secret_pkcs8_der()),
            _ => break,
        };
        // Uncompressed: 4, and both coordinates.
        if let Ok(pair) = pair
            && let Some((x, y)) =
                pair.public_key().as_ref().get(1..).and_then(|both| both.split_at_checked(length))
        {
            return Ok(json!({"kty": "EC", "crv": name, "x": encode_url(x), "y": encode_url(y)}));
        }
    }
    let pair = match &der {
        PrivateKeyDer::Pkcs1(key) => rsa::KeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => rsa::KeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err("it is neither of RSA nor of a curve of NIST".to_owned()),
    };
    let pair = pair.map_err(|error| format!("it is neither of RSA nor of a curve of NIST: {error}"))?;
    let numbers = rsa_numbers(pair.public_key().as_ref());
    let (modulus, exponent) = numbers.ok_or("its public key cannot be read")?;
    Ok(json!({"kty": "RSA", "n": encode_url(modulus), "e": encode_url(exponent)}))
}

/// Of an `RSAPublicKey` (RFC 8017): a sequence of two numbers.
pub(crate) fn rsa_numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (modulus, rest) = element(sequence, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    let unsigned = |number: &'_ [u8]| number.iter().take_while(|byte| **byte == 0).count();
    Some((modulus.get(unsigned(modulus)..)?, exponent.get(unsigned(exponent)..)?))
}

/// The content of an element with this tag, and what is behind it.
pub(crate) fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 3))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_halves() {
        // RFC 9449 names no key; this one is of APISIX's own tests.
        let pem = "-----BEGIN PRIVATE KEY-----\n\
            MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzVW+Se78iBpOnKwj\n\
            D0Gqp/ZpmFSVJPRSTI7ZU50g3s2hRANCAARJ6hd/fMq/ZLvdEu1ZKHWFmiTjL1LD\n\
            U4q5hU/UxozQRW7+Gr5bcSvgHJWK/PlNCN/NGISpRs3K3l3K0BUr7plo\n\
            -----END PRIVATE KEY-----";
        let expected = json!({"kty": "EC", "crv": "P-256", "x": "SeoXf3zKv2S73RLtWSh1hZok4y9Sw1OKuYVP1MaM0EU",
            "y": "bv4avltxK-AclYr8-U0I380YhKlGzcreXcrQFSvumWg"});
        assert_eq!(public_jwk(pem), Ok(expected));
        for pem in ["", "no PEM", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(public_jwk(pem).is_err(), "{pem}");
        }
    }

    #[test]
    fn numbers_of_rsa() {
        let der = [0x30, 8, 2, 3, 0, 0xaa, 0xbb, 2, 1, 3];
        assert_eq!(rsa_numbers(&der), Some((&[0xaa, 0xbb][..], &[3][..])));
        let long = [&[0x30, 0x81, 0x86, 2, 0x81, 0x80][..], &[0x81; 128], &[2, 1, 3]].concat();
        assert_eq!(rsa_numbers(&long), Some((&[0x81; 128][..], &[3][..])));
        for cut in 0..der.len() {
            assert_eq!(rsa_numbers(&der[..cut]), None, "{cut}");
        }
    }
}
