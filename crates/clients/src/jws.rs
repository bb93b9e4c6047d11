//! Signed JSON web tokens (RFC 7515, 7518, 8037): reading them and checking signatures.

use aws_lc_rs::{
    hmac,
    signature::{
        self, ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ED25519,
        ParsedPublicKey, RsaPublicKeyComponents, VerificationAlgorithm,
    },
};
use rustls_pki_types::{SubjectPublicKeyInfoDer, pem::PemObject};
use serde_json::{Map, Value};

use crate::nginx_base64::decode_url;

/// An algorithm of JWS (RFC 7518, RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// Ed25519.
    EdDsa,
}

/// The names of `alg` that are supported.
pub const ALGORITHMS: [(&str, Algorithm); 13] = [
    ("HS256", Algorithm::Hs256),
    ("HS384", Algorithm::Hs384),
    ("HS512", Algorithm::Hs512),
    ("RS256", Algorithm::Rs256),
    ("RS384", Algorithm::Rs384),
    ("RS512", Algorithm::Rs512),
    ("ES256", Algorithm::Es256),
    ("ES384", Algorithm::Es384),
    ("ES512", Algorithm::Es512),
    ("PS256", Algorithm::Ps256),
    ("PS384", Algorithm::Ps384),
    ("PS512", Algorithm::Ps512),
    ("EdDSA", Algorithm::EdDsa),
];

impl Algorithm {
    /// By its name in `alg`.
    pub fn of(name: &str) -> Option<Algorithm> {
        ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    /// Its name in `alg`.
    pub fn name(self) -> &'static str {
        ALGORITHMS.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// Whether both sides share the key.
    pub fn is_hmac(self) -> bool {
        matches!(self, Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512)
    }
}

/// A token in its compact form, not verified.
pub struct Token<'a> {
    /// The decoded JOSE header.
    pub header: Map<String, Value>,
    /// The decoded claims.
    pub payload: Value,
    /// The signed part: header and payload as sent.
    signed: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Token<'a> {
    /// Three parts of base64url; header a JSON object, payload JSON or a text. No extension is supported, so a token
    /// with critical extensions is refused (RFC 7515, section 4.1.11).
    pub fn parse(text: &'a [u8]) -> Result<Token<'a>, String> {
        let dots: Vec<usize> =
            text.iter().enumerate().filter(|(_, b)| **b == b'.').map(|(at, _)| at).collect();
        let [first, second] = dots[..] else { return Err("invalid jwt string".to_owned()) };
        let (encoded_header, encoded_payload) = (&text[..first], &text[first + 1..second]);
        let lossy = String::from_utf8_lossy;
        let header: Map<String, Value> = decode_url(encoded_header)
            .and_then(|json| serde_json::from_slice(&json).ok())
            .ok_or_else(|| format!("invalid header: {}", lossy(encoded_header)))?;
        if let Some(critical) = header.get("crit") {
            return Err(format!(
                "header parameter \"crit\" asks for extensions that are not supported: {critical}"
            ));
        }
        let payload = decode_url(encoded_payload)
            .map(|bytes| serde_json::from_slice(&bytes).unwrap_or_else(|_| lossy(&bytes).into_owned().into()))
            .ok_or_else(|| format!("invalid payload: {}", lossy(encoded_payload)))?;
        Ok(Token { header, payload, signed: &text[..second], signature: &text[second + 1..] })
    }

    /// `alg` of the header.
    pub fn algorithm(&self) -> Option<&str> {
        self.header.get("alg").and_then(Value::as_str)
    }

    /// `kid` of the header.
    pub fn key_id(&self) -> Option<&str> {
        self.header.get("kid").and_then(Value::as_str)
    }

    /// The signature, encoded as it was sent.
    pub fn signature_text(&self) -> String {
        String::from_utf8_lossy(self.signature).into_owned()
    }

    /// Whether the third part is not empty.
    pub fn has_signature(&self) -> bool {
        !self.signature.is_empty()
    }

    /// Whether the key verifies the signature. `alg` is the caller's to compare.
    pub fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        decode_url(self.signature).is_some_and(|signature| key.verifies(self.signed, &signature))
    }
}

/// A key that checks signatures of one algorithm.
pub enum VerifyingKey {
    /// Boxed: five times as large as the others.
    Hmac(Box<hmac::Key>),
    /// A parsed public key.
    Public(ParsedPublicKey),
    /// An RSA key given as numbers (JWK).
    Rsa {
        /// Padding and hash.
        parameters: &'static signature::RsaParameters,
        /// Big-endian.
        modulus: Vec<u8>,
        /// Big-endian.
        exponent: Vec<u8>,
    },
}

impl VerifyingKey {
    /// For HMAC; other algorithms need [`VerifyingKey::from_pem`].
    pub fn from_secret(algorithm: Algorithm, secret: &[u8]) -> Result<VerifyingKey, String> {
        let digest = match algorithm {
            Algorithm::Hs256 => hmac::HMAC_SHA256,
            Algorithm::Hs384 => hmac::HMAC_SHA384,
            Algorithm::Hs512 => hmac::HMAC_SHA512,
            other => return Err(format!("{} needs a public key", other.name())),
        };
        Ok(VerifyingKey::Hmac(Box::new(hmac::Key::new(digest, secret))))
    }

    /// PEM of a public key (SPKI or PKCS#1) or of a certificate.
    pub fn from_pem(algorithm: Algorithm, pem: &str) -> Result<VerifyingKey, String> {
        let der = public_key_der(pem)?;
        let parse = |how: &'static dyn VerificationAlgorithm| ParsedPublicKey::new(how, &der).ok();
        let key = match algorithm {
            // 1024 bits is what OpenSSL, and so APISIX, still takes.
            Algorithm::Rs256 => parse(&signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY),
            Algorithm::Rs384 => parse(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => parse(&signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY),
            Algorithm::Ps256 => parse(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => parse(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => parse(&signature::RSA_PSS_2048_8192_SHA512),
            Algorithm::Es256 => parse(&ECDSA_P256_SHA256_FIXED),
            Algorithm::Es384 => parse(&ECDSA_P384_SHA384_FIXED),
            Algorithm::Es512 => parse(&ECDSA_P521_SHA512_FIXED),
            Algorithm::EdDsa => parse(&ED25519),
            other => return Err(format!("{} needs a secret, not a public key", other.name())),
        };
        key.map(VerifyingKey::Public).ok_or_else(|| format!("public key does not fit {}", algorithm.name()))
    }

    /// A JSON web key (RFC 7517) of type RSA, EC, OKP or oct.
    pub fn from_jwk(algorithm: Algorithm, jwk: &Value) -> Result<VerifyingKey, String> {
        let part = |name: &str| {
            let text = jwk.get(name).and_then(Value::as_str);
            text.and_then(|text| decode_url(text.as_bytes()))
                .ok_or_else(|| format!("JWK member {name} is missing or not base64url"))
        };
        let does_not_fit = || format!("JWK does not fit {}", algorithm.name());
        let parse = |how: &'static dyn VerificationAlgorithm, der: &[u8]| {
            ParsedPublicKey::new(how, der).ok().map(VerifyingKey::Public).ok_or_else(does_not_fit)
        };
        let curve = |how: &'static dyn VerificationAlgorithm, length: usize| {
            let (x, y) = (part("x")?, part("y")?);
            if x.len() > length || y.len() > length {
                return Err(does_not_fit());
            }
            let mut point = vec![4u8];
            point.resize(1 + length - x.len(), 0);
            point.extend_from_slice(&x);
            point.resize(1 + 2 * length - y.len(), 0);
            point.extend_from_slice(&y);
            parse(how, &point)
        };
        let parameters = match (jwk.get("kty").and_then(Value::as_str), algorithm) {
            (Some("RSA"), Algorithm::Rs256) => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            (Some("RSA"), Algorithm::Rs384) => &signature::RSA_PKCS1_2048_8192_SHA384,
            (Some("RSA"), Algorithm::Rs512) => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
            (Some("RSA"), Algorithm::Ps256) => &signature::RSA_PSS_2048_8192_SHA256,
            (Some("RSA"), Algorithm::Ps384) => &signature::RSA_PSS_2048_8192_SHA384,
            (Some("RSA"), Algorithm::Ps512) => &signature::RSA_PSS_2048_8192_SHA512,
            (Some("EC"), Algorithm::Es256) => return curve(&ECDSA_P256_SHA256_FIXED, 32),
            (Some("EC"), Algorithm::Es384) => return curve(&ECDSA_P384_SHA384_FIXED, 48),
            (Some("EC"), Algorithm::Es512) => return curve(&ECDSA_P521_SHA512_FIXED, 66),
            (Some("OKP"), Algorithm::EdDsa) => return parse(&ED25519, &part("x")?),
            (Some("oct"), _) => return VerifyingKey::from_secret(algorithm, &part("k")?),
            _ => return Err(does_not_fit()),
        };
        let without_zeros = |bytes: Vec<u8>| {
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            bytes[zeros..].to_vec()
        };
        Ok(VerifyingKey::Rsa {
            parameters,
            modulus: without_zeros(part("n")?),
            exponent: without_zeros(part("e")?),
        })
    }

    /// Whether a signature of a message is of this key.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            VerifyingKey::Hmac(key) => hmac::verify(key, message, signature).is_ok(),
            VerifyingKey::Public(key) => key.verify_sig(message, signature).is_ok(),
            VerifyingKey::Rsa { parameters, modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }
        }
    }
}

/// For writes: checks that it is a key, and one for this algorithm, or for any.
pub fn check_public_key(algorithm: Option<Algorithm>, pem: &str) -> Result<(), String> {
    let check = || match (public_key_der(pem)?, algorithm) {
        (der, _) if der.is_empty() => Err("it is empty".to_owned()),
        (_, Some(algorithm)) => match VerifyingKey::from_pem(algorithm, pem) {
            Ok(_) => Ok(()),
            Err(reason) => Err(format!("{reason}{}", kind_of(pem))),
        },
        (_, None) if kind_of(pem).is_empty() => Err("no algorithm accepts such a key".to_owned()),
        (_, None) => Ok(()),
    };
    check().map_err(|reason| format!("public_key cannot be used: {reason}"))
}

/// How a message describes a key; empty for one that no algorithm takes.
fn kind_of(pem: &str) -> &'static str {
    let kinds = [
        (Algorithm::Ps256, ": it is an RSA key"),
        (Algorithm::Es256, ": it is a key of curve P-256"),
        (Algorithm::Es384, ": it is a key of curve P-384"),
        (Algorithm::Es512, ": it is a key of curve P-521"),
        (Algorithm::EdDsa, ": it is an Ed25519 key"),
    ];
    let kind = kinds.iter().find(|(algorithm, _)| VerifyingKey::from_pem(*algorithm, pem).is_ok());
    kind.map_or("", |(_, kind)| kind)
}

pub(crate) fn public_key_der(pem: &str) -> Result<Vec<u8>, String> {
    use rustls_pki_types::CertificateDer;
    if let Ok(key) = SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes()) {
        return Ok(key.to_vec());
    }
    if let Ok(certificate) = CertificateDer::from_pem_slice(pem.as_bytes()) {
        let anchor = rustls::server::ParsedCertificate::try_from(&certificate)
            .map_err(|error| format!("certificate: {error}"))?;
        return Ok(anchor.subject_public_key_info().to_vec());
    }
    // PKCS#1 has its own label that the PEM reader does not know.
    let body = pem
        .split_once("-----BEGIN RSA PUBLIC KEY-----")
        .and_then(|(_, rest)| rest.split_once("-----END RSA PUBLIC KEY-----"))
        .map(|(body, _)| body.split_ascii_whitespace().collect::<String>());
    body.and_then(|body| crate::nginx_base64::decode(body.as_bytes()))
        .ok_or_else(|| "public key is not PEM".to_owned())
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        encoding::AsDer,
        rand::SystemRandom,
        rsa::KeySize,
        signature::{EcdsaKeyPair, EcdsaSigningAlgorithm, KeyPair, RsaEncoding, RsaKeyPair},
    };
    use serde_json::json;

    use super::*;
    use crate::nginx_base64::{encode, encode_url};

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", encode(der))
    }

    /// The token verifies with the key in both forms, and no longer when a byte of it changes.
    fn check(algorithm: Algorithm, sign: impl Fn(&[u8]) -> Vec<u8>, der: &[u8], jwk: &Value) {
        let name = algorithm.name();
        let header = encode_url(json!({"alg": name}).to_string());
        let signed = format!("{header}.{}", encode_url(r#"{"a":1}"#));
        let signature = encode_url(sign(signed.as_bytes()));
        let token = format!("{signed}.{signature}");
        let other = format!("{header}.{}.{signature}", encode_url(r#"{"a":2}"#));
        let keys = [VerifyingKey::from_pem(algorithm, &pem(der)), VerifyingKey::from_jwk(algorithm, jwk)];
        for key in keys {
            let key = key.expect(name);
            let verifies = |token: &str| Token::parse(token.as_bytes()).expect("token").is_signed_by(&key);
            assert!(verifies(&token), "{name}");
            assert!(!verifies(&other), "{name} of another text");
        }
    }

    #[test]
    fn elliptic_curves() {
        let cases: [(Algorithm, &'static EcdsaSigningAlgorithm); 3] = [
            (Algorithm::Es256, &signature::ECDSA_P256_SHA256_FIXED_SIGNING),
            (Algorithm::Es384, &signature::ECDSA_P384_SHA384_FIXED_SIGNING),
            (Algorithm::Es512, &signature::ECDSA_P521_SHA512_FIXED_SIGNING),
        ];
        for (algorithm, how) in cases {
            let pair = EcdsaKeyPair::generate(how).expect("key");
            let point = pair.public_key().as_ref()[1..].to_vec();
            let (x, y) = point.split_at(point.len() / 2);
            let jwk = json!({"kty": "EC", "x": encode_url(x), "y": encode_url(y)});
            let sign = |text: &[u8]| pair.sign(&SystemRandom::new(), text).expect("signed").as_ref().to_vec();
            check(algorithm, sign, pair.public_key().as_der().expect("DER").as_ref(), &jwk);
        }
    }

    #[test]
    fn rsa() {
        let cases: [(Algorithm, &'static dyn RsaEncoding); 6] = [
            (Algorithm::Rs256, &signature::RSA_PKCS1_SHA256),
            (Algorithm::Rs384, &signature::RSA_PKCS1_SHA384),
            (Algorithm::Rs512, &signature::RSA_PKCS1_SHA512),
            (Algorithm::Ps256, &signature::RSA_PSS_SHA256),
            (Algorithm::Ps384, &signature::RSA_PSS_SHA384),
            (Algorithm::Ps512, &signature::RSA_PSS_SHA512),
        ];
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("key");
        let public = pair.public_key();
        // PKCS#1: a sequence of the modulus, 256 bytes after nine of headers, and the exponent 65537.
        let modulus = &public.as_ref()[9..9 + 256];
        let jwk = json!({"kty": "RSA", "n": encode_url(modulus), "e": "AQAB"});
        for (algorithm, how) in cases {
            let sign = |text: &[u8]| {
                let mut out = vec![0; pair.public_modulus_len()];
                pair.sign(how, &SystemRandom::new(), text, &mut out).expect("signed");
                out
            };
            check(algorithm, sign, AsDer::as_der(public).expect("DER").as_ref(), &jwk);
        }
    }

    #[test]
    fn keys_of_another_kind_are_refused() {
        let pair = EcdsaKeyPair::generate(&signature::ECDSA_P256_SHA256_FIXED_SIGNING).expect("key");
        let pem = pem(pair.public_key().as_der().expect("DER").as_ref());
        for (name, algorithm) in ALGORITHMS {
            assert_eq!(VerifyingKey::from_pem(algorithm, &pem).is_ok(), name == "ES256", "{name}");
        }
        assert!(VerifyingKey::from_pem(Algorithm::Es256, "no PEM").is_err());
        assert_eq!(check_public_key(Some(Algorithm::Es256), &pem), Ok(()));
        assert_eq!(check_public_key(None, &pem), Ok(()));
        assert_eq!(
            check_public_key(Some(Algorithm::Rs256), &pem).unwrap_err(),
            "public_key cannot be used: public key does not fit RS256: it is a key of curve P-256"
        );
        let none = "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n";
        assert_eq!(
            check_public_key(None, none).unwrap_err(),
            "public_key cannot be used: no algorithm accepts such a key"
        );
    }
}
