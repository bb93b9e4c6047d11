//! Proof of possession (DPoP, RFC 9449): access tokens are bound to a key of this gateway's.

use aws_lc_rs::digest::{SHA256, digest};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_clients::{
    http::Incoming, jws::Algorithm, jws_sign::SigningKey, nginx_base64::encode_url, public_jwk::public_jwk,
};
use tidegate_model::schema::is_secret_reference;

use crate::common::{clock::now_seconds, random_token::random_token};

/// A longer nonce is not one.
const MOST_NONCE_BYTES: usize = 1024;

/// `dpop` of the configuration.
#[derive(Deserialize)]
pub(super) struct DpopConf {
    pub(super) enabled: bool,
    pub(super) signing_alg: String,
    pub(super) private_key: Option<String>,
    pub(super) public_jwk: Option<Value>,
}

pub(super) struct Dpop {
    key: SigningKey,
    /// What proofs show of it.
    header: Value,
    /// Names the key to the provider before there is a proof (RFC 7638).
    pub(super) thumbprint: String,
    /// Of the provider's two servers, as they said last.
    nonces: [Mutex<Option<String>>; 2],
}

/// Who is shown a proof.
#[derive(Clone, Copy)]
pub(super) enum Shown {
    /// The token endpoint.
    Issuer,
    /// The userinfo endpoint.
    Resource,
}

impl Dpop {
    pub(super) fn new(conf: &DpopConf) -> Result<Dpop, String> {
        let algorithm = Algorithm::of(&conf.signing_alg).ok_or("property \"dpop.signing_alg\" is unknown")?;
        let pem = conf.private_key.as_deref().ok_or("property \"dpop.private_key\" is required")?;
        let jwk = conf.public_jwk.as_ref().ok_or("property \"dpop.public_jwk\" is required")?;
        let key = SigningKey::from_pem(algorithm, pem, None)
            .map_err(|reason| format!("property \"dpop.private_key\": {reason}"))?;
        // A key that comes from a secret could not be compared when it was written.
        let kind = check_members(jwk)?;
        check_pair(pem, jwk, kind)?;
        let header = json!({"typ": "dpop+jwt", "alg": key.algorithm(), "jwk": jwk});
        Ok(Dpop { key, header, thumbprint: thumbprint(jwk, kind), nonces: Default::default() })
    }

    /// A proof for one request. `token`: the access token that goes with it.
    pub(super) fn proof(
        &self,
        shown: Shown,
        method: &str,
        url: &str,
        token: Option<&str>,
    ) -> Result<(String, Vec<u8>), String> {
        let without_query = url.split(['?', '#']).next().unwrap_or_default();
        let mut claims = json!({
            "jti": random_token(),
            "htm": method,
            "htu": without_query,
            "iat": now_seconds(),
        });
        if let Some(token) = token {
            claims["ath"] = encode_url(digest(&SHA256, token.as_bytes())).into();
        }
        if let Some(nonce) = self.nonces[shown as usize].lock().as_ref() {
            claims["nonce"] = nonce.as_str().into();
        }
        Ok(("DPoP".to_owned(), self.key.sign_under(&self.header, &claims)?.into_bytes()))
    }

    /// Remembers the nonce of an answer. Whether the request has to be repeated with it.
    pub(super) fn learn(&self, shown: Shown, answer: &Incoming) -> bool {
        let nonce = answer.header("DPoP-Nonce").and_then(|nonce| std::str::from_utf8(nonce).ok());
        let Some(nonce) = nonce.filter(|nonce| (1..=MOST_NONCE_BYTES).contains(&nonce.len())) else {
            return false;
        };
        let before = self.nonces[shown as usize].lock().replace(nonce.to_owned());
        let asked = match shown {
            Shown::Issuer => answer.status == 400 && contains(&answer.body, b"use_dpop_nonce"),
            Shown::Resource => {
                let challenge = answer.header("WWW-Authenticate").unwrap_or_default();
                answer.status == 401 && contains(challenge, b"use_dpop_nonce")
            }
        };
        asked && before.as_deref() != Some(nonce)
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}

/// What a thumbprint is made of, in its order, by type of key.
const MEMBERS: [(&str, &[&str]); 2] = [("EC", &["crv", "x", "y"]), ("RSA", &["e", "n"])];

fn thumbprint(jwk: &Value, (kind, members): (&str, &[&str])) -> String {
    let mut pairs: Vec<(&str, &str)> = members
        .iter()
        .map(|name| (*name, jwk.get(*name).and_then(Value::as_str).unwrap_or_default()))
        .chain([("kty", kind)])
        .collect();
    pairs.sort_unstable();
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value))).collect();
    encode_url(digest(&SHA256, format!("{{{}}}", pairs.join(",")).as_bytes()))
}

type Kind = (&'static str, &'static [&'static str]);

/// Rules for `dpop` that no schema says.
pub(super) fn check(conf: &Value) -> Result<(), String> {
    // Keys may be there before they are used.
    if conf.get("enabled") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let Some(jwk) = conf.get("public_jwk") else { return Ok(()) };
    let kind = check_members(jwk)?;
    let algorithm = conf.get("signing_alg").and_then(Value::as_str).unwrap_or("ES256");
    let wanted = if algorithm == "ES256" { "EC" } else { "RSA" };
    if kind.0 != wanted {
        return Err(format!(
            "property \"dpop.signing_alg\" \"{algorithm}\" requires an {wanted} \"dpop.public_jwk\""
        ));
    }
    let curve = jwk.get("crv").and_then(Value::as_str).unwrap_or_default();
    if wanted == "EC" && curve != "P-256" {
        return Err(format!(
            "property \"dpop.signing_alg\" \"{algorithm}\" requires \"dpop.public_jwk\" crv \"P-256\", got \"{curve}\""
        ));
    }
    let pem = conf.get("private_key").and_then(Value::as_str).filter(|pem| !is_secret_reference(pem));
    pem.map_or(Ok(()), |pem| check_pair(pem, jwk, kind))
}

fn check_members(jwk: &Value) -> Result<Kind, String> {
    let failed = |what: &str| Err(format!("property \"dpop.public_jwk\" validation failed: {what}"));
    let kind = jwk.get("kty");
    let name = kind.and_then(Value::as_str);
    let Some(known) = MEMBERS.into_iter().find(|(known, _)| name == Some(known)) else {
        let shown = match kind {
            None => "nil".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        return failed(&format!("kty \"{shown}\" is not supported"));
    };
    for member in known.1 {
        match jwk.get(*member) {
            None => return failed(&format!("kty \"{}\" requires {}", known.0, known.1.join(", "))),
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(_) => return failed(&format!("\"{member}\" must be a non-empty string")),
        }
    }
    Ok(known)
}

/// Proofs show the JWK, and are signed with the private key.
fn check_pair(pem: &str, jwk: &Value, (_, members): Kind) -> Result<(), String> {
    if pem.contains("PUBLIC KEY-----") {
        return Err("property \"dpop.private_key\" has no private key in it".to_owned());
    }
    let derived = public_jwk(pem)
        .map_err(|reason| format!("property \"dpop.private_key\" is not a valid key: {reason}"))?;
    match ["kty"].iter().chain(members).find(|member| derived.get(**member) != jwk.get(**member)) {
        None => Ok(()),
        Some(member) => {
            let own = derived.get(*member).and_then(Value::as_str).unwrap_or("nil");
            Err(format!(
                "property \"dpop.public_jwk\" is not the public key of \"dpop.private_key\": {member} is \"{own}\""
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN PRIVATE KEY-----\n\
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzVW+Se78iBpOnKwj\n\
        D0Gqp/ZpmFSVJPRSTI7ZU50g3s2hRANCAARJ6hd/fMq/ZLvdEu1ZKHWFmiTjL1LD\n\
        U4q5hU/UxozQRW7+Gr5bcSvgHJWK/PlNCN/NGISpRs3K3l3K0BUr7plo\n\
        -----END PRIVATE KEY-----";

    fn ec() -> Value {
        json!({"kty": "EC", "crv": "P-256", "x": "SeoXf3zKv2S73RLtWSh1hZok4y9Sw1OKuYVP1MaM0EU",
               "y": "bv4avltxK-AclYr8-U0I380YhKlGzcreXcrQFSvumWg"})
    }

    #[test]
    fn keys() {
        let with = |name: &str, value: Value| {
            let mut jwk = ec();
            jwk[name] = value;
            jwk
        };
        let rsa = json!({"kty": "RSA", "e": "AQAB", "n": "abc"});
        let failed = |what: &str| format!("property \"dpop.public_jwk\" validation failed: {what}");
        let other = "property \"dpop.public_jwk\" is not the public key of \"dpop.private_key\": ";
        for (algorithm, pem, jwk, expected) in [
            ("ES256", PEM, ec(), String::new()),
            ("ES256", "$env://KEY", ec(), String::new()),
            ("ES256", PEM, json!({"kty": "OKP"}), failed("kty \"OKP\" is not supported")),
            ("ES256", PEM, json!({}), failed("kty \"nil\" is not supported")),
            ("RS256", PEM, json!({"kty": "RSA"}), failed("kty \"RSA\" requires e, n")),
            ("ES256", PEM, with("x", json!(1)), failed("\"x\" must be a non-empty string")),
            ("ES256", PEM, with("y", json!("")), failed("\"y\" must be a non-empty string")),
            (
                "ES256",
                PEM,
                with("crv", json!("P-384")),
                "property \"dpop.signing_alg\" \"ES256\" requires \"dpop.public_jwk\" crv \"P-256\", got \"P-384\"".into(),
            ),
            (
                "PS256",
                PEM,
                ec(),
                "property \"dpop.signing_alg\" \"PS256\" requires an RSA \"dpop.public_jwk\"".into(),
            ),
            ("RS256", PEM, rsa, format!("{other}kty is \"EC\"")),
            (
                "ES256",
                PEM,
                with("x", json!("AAAA")),
                format!("{other}x is \"SeoXf3zKv2S73RLtWSh1hZok4y9Sw1OKuYVP1MaM0EU\""),
            ),
        ] {
            let conf = json!({"enabled": true, "signing_alg": algorithm, "private_key": pem, "public_jwk": jwk});
            assert_eq!(check(&conf).err().unwrap_or_default(), expected, "{conf}");
        }
        let staged = json!({"enabled": false, "public_jwk": {"kty": "OKP"}});
        assert_eq!(check(&staged), Ok(()), "not used yet");
    }

    #[test]
    fn thumbprints() {
        // RFC 7638, section 3.1.
        let jwk = json!({"kty": "RSA", "e": "AQAB", "kid": "2011-04-29", "n":
            "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw"});
        let kind = check_members(&jwk).expect("a key of RSA");
        assert_eq!(thumbprint(&jwk, kind), "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs");
    }
}
