//! Signing JSON web tokens: the assertions that a client sends to an identity provider.

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
    },
};
use rustls_pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};

use crate::{jws::Algorithm, nginx_base64::encode_url};

enum Key {
    Hmac(Box<hmac::Key>),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
    Ec(Box<EcdsaKeyPair>),
}

/// A key that signs tokens.
pub struct SigningKey {
    algorithm: Algorithm,
    key: Key,
    id: Option<String>,
}

impl SigningKey {
    /// For HMAC; the error names other algorithms.
    pub fn from_secret(algorithm: Algorithm, secret: &str) -> Result<SigningKey, String> {
        let digest = match algorithm {
            Algorithm::Hs256 => hmac::HMAC_SHA256,
            Algorithm::Hs384 => hmac::HMAC_SHA384,
            Algorithm::Hs512 => hmac::HMAC_SHA512,
            other => return Err(format!("{} needs a private key", other.name())),
        };
        Ok(SigningKey {
            algorithm,
            key: Key::Hmac(Box::new(hmac::Key::new(digest, secret.as_bytes()))),
            id: None,
        })
    }

    /// PEM of a private key: PKCS#8, PKCS#1 (RSA) or SEC 1 (EC).
    pub fn from_pem(algorithm: Algorithm, pem: &str, id: Option<String>) -> Result<SigningKey, String> {
        let der =
            PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| format!("private key: {error}"))?;
        let key = match algorithm {
            Algorithm::Rs256 => Key::Rsa(rsa(&der)?, &RSA_PKCS1_SHA256),
            Algorithm::Rs512 => Key::Rsa(rsa(&der)?, &RSA_PKCS1_SHA512),
            Algorithm::Ps256 => Key::Rsa(rsa(&der)?, &RSA_PSS_SHA256),
            Algorithm::Es256 => Key::Ec(ec(&ECDSA_P256_SHA256_FIXED_SIGNING, &der)?),
            Algorithm::Es512 => Key::Ec(ec(&ECDSA_P521_SHA512_FIXED_SIGNING, &der)?),
            other => return Err(format!("{} is not supported for signing with a private key", other.name())),
        };
        Ok(SigningKey { algorithm, key, id })
    }

    /// The compact form of a token with these claims.
    pub fn sign(&self, claims: &Value) -> Result<String, String> {
        let mut header = json!({"typ": "JWT", "alg": self.algorithm.name()});
        if let Some(id) = &self.id {
            header["kid"] = id.as_str().into();
        }
        self.sign_under(&header, claims)
    }

    /// The name of the algorithm that it signs with.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm.name()
    }

    /// A token with a header of the caller's.
    pub fn sign_under(&self, header: &Value, claims: &Value) -> Result<String, String> {
        let message = format!("{}.{}", encode_url(header.to_string()), encode_url(claims.to_string()));
        Ok(format!("{message}.{}", encode_url(self.signature_of(message.as_bytes())?)))
    }

    /// The bare signature of a message.
    pub fn signature_of(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let failed = |_| "signing failed".to_owned();
        let random = SystemRandom::new();
        match &self.key {
            Key::Hmac(key) => Ok(hmac::sign(key, message).as_ref().to_vec()),
            Key::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(*encoding, &random, message, &mut signature).map_err(failed)?;
                Ok(signature)
            }
            Key::Ec(key) => Ok(key.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

fn rsa(der: &PrivateKeyDer) -> Result<Box<RsaKeyPair>, String> {
    let pair = match der {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err("private key is not an RSA key".to_owned()),
    };
    pair.map(Box::new).map_err(|error| format!("private key is not a usable RSA key: {error}"))
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm, der: &PrivateKeyDer) -> Result<Box<EcdsaKeyPair>, String> {
    let pair = match der {
        PrivateKeyDer::Sec1(key) => EcdsaKeyPair::from_private_key_der(algorithm, key.secret_sec1_der()),
        PrivateKeyDer::Pkcs8(key) => EcdsaKeyPair::from_pkcs8(algorithm, key.secret_pkcs8_der()),
        _ => return Err("private key is not an EC key".to_owned()),
    };
    pair.map(Box::new).map_err(|error| format!("private key is not a usable EC key of that curve: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jws::{Token, VerifyingKey};

    #[test]
    fn assertions_with_a_secret() {
        let key = SigningKey::from_secret(Algorithm::Hs512, "secret").expect("key");
        let token = key.sign(&json!({"iss": "me"})).expect("token");
        let token = Token::parse(token.as_bytes()).expect("token");
        assert_eq!((token.algorithm(), &token.payload["iss"]), (Some("HS512"), &json!("me")));
        assert!(token.is_signed_by(&VerifyingKey::from_secret(Algorithm::Hs512, b"secret").expect("key")));
    }

    #[test]
    fn keys_that_cannot_sign() {
        assert!(SigningKey::from_secret(Algorithm::Rs256, "secret").is_err());
        assert!(SigningKey::from_pem(Algorithm::Rs256, "no PEM", None).is_err());
    }
}
