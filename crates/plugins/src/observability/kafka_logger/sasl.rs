//! Logging in at a broker: PLAIN (RFC 4616) and SCRAM (RFC 5802, 7677).

use std::num::NonZeroU32;

use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use tidegate_model::random::random_u64;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Credentials {
    pub(crate) mechanism: String,
    pub user: String,
    pub password: String,
}

impl Credentials {
    pub(crate) fn plain_token(&self) -> Vec<u8> {
        format!("\0{}\0{}", self.user, self.password).into_bytes()
    }
}

/// More rounds than any server asks for would only be an attack on the CPU.
const MAX_ROUNDS: u32 = 1_000_000;

pub(crate) struct Scram {
    bits: Bits,
    password: String,
    first_bare: String,
    nonce: String,
    /// What the server must prove, known after the second message.
    server_signature: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Bits {
    B256,
    B512,
}

impl Scram {
    pub(crate) fn new(credentials: &Credentials) -> Scram {
        Scram::with_nonce(credentials, format!("{:016x}{:016x}", random_u64(), random_u64()))
    }

    fn with_nonce(credentials: &Credentials, nonce: String) -> Scram {
        let bits = if credentials.mechanism == "SCRAM-SHA-512" { Bits::B512 } else { Bits::B256 };
        let user = credentials.user.replace('=', "=3D").replace(',', "=2C");
        Scram {
            bits,
            password: credentials.password.clone(),
            first_bare: format!("n={user},r={nonce}"),
            nonce,
            server_signature: Vec::new(),
        }
    }

    pub(crate) fn first(&self) -> String {
        format!("n,,{}", self.first_bare)
    }

    /// Answers the server's challenge.
    pub(crate) fn respond(&mut self, challenge: &str) -> Result<String, String> {
        let field =
            |name: &str| challenge.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let bad = || "SCRAM challenge of the broker is malformed".to_owned();
        let nonce = field("r").filter(|nonce| nonce.starts_with(&self.nonce)).ok_or_else(bad)?;
        let salt = STANDARD.decode(field("s").ok_or_else(bad)?).map_err(|_| bad())?;
        let rounds: u32 = field("i").and_then(|rounds| rounds.parse().ok()).ok_or_else(bad)?;
        let rounds = NonZeroU32::new(rounds).filter(|rounds| rounds.get() <= MAX_ROUNDS).ok_or_else(bad)?;
        let salted = self.salted(&salt, rounds);
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{challenge},{without_proof}", self.first_bare);
        let client_key = self.sign(&salted, b"Client Key");
        let stored_key = self.digest(&client_key);
        let signature = self.sign(&stored_key, message.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(key, sign)| key ^ sign).collect();
        self.server_signature = self.sign(&self.sign(&salted, b"Server Key"), message.as_bytes());
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Whether the server knows the password too.
    pub(crate) fn verify(&self, last: &str) -> Result<(), String> {
        let signature = last.strip_prefix("v=").and_then(|text| STANDARD.decode(text.trim()).ok());
        match signature {
            Some(signature) if signature == self.server_signature => Ok(()),
            _ => Err("SCRAM: the broker could not prove that it knows the password".to_owned()),
        }
    }

    fn salted(&self, salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
        let (algorithm, length) = match self.bits {
            Bits::B256 => (pbkdf2::PBKDF2_HMAC_SHA256, 32),
            Bits::B512 => (pbkdf2::PBKDF2_HMAC_SHA512, 64),
        };
        let mut out = vec![0; length];
        pbkdf2::derive(algorithm, rounds, salt, self.password.as_bytes(), &mut out);
        out
    }

    fn sign(&self, key: &[u8], data: &[u8]) -> Vec<u8> {
        let algorithm = match self.bits {
            Bits::B256 => hmac::HMAC_SHA256,
            Bits::B512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), data).as_ref().to_vec()
    }

    fn digest(&self, data: &[u8]) -> Vec<u8> {
        let algorithm = match self.bits {
            Bits::B256 => &digest::SHA256,
            Bits::B512 => &digest::SHA512,
        };
        digest::digest(algorithm, data).as_ref().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_7677() {
        let credentials = Credentials {
            mechanism: "SCRAM-SHA-256".to_owned(),
            user: "user".to_owned(),
            password: "pencil".to_owned(),
        };
        let mut scram = Scram::with_nonce(&credentials, "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let challenge =
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let response = scram.respond(challenge).unwrap();
        assert!(response.ends_with("p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="), "{response}");
        assert!(scram.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=").is_ok());
        assert!(scram.verify("v=AAAA").is_err());
        assert!(scram.respond("r=other,s=AAAA,i=1").is_err());
    }
}
