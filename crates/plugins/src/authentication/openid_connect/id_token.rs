//! What an ID token must say (OpenID Connect Core 1.0, 3.1.3.7).

use serde_json::Value;
use tidegate_clients::jws::{Algorithm, Token, VerifyingKey};
use tidegate_telemetry::error_log::{Level, log};

use super::{bearer, relying_party::OpenidConnect};
use crate::common::clock::now_seconds;

/// Signatures of the IANA registry "JSON Web Signature and Encryption Algorithms" that cannot be checked here.
const UNSUPPORTED: [&str; 10] =
    ["ES256K", "ESP256", "ESP384", "ESP512", "ESB256", "ESB320", "ESB384", "ESB512", "Ed25519", "Ed448"];

impl OpenidConnect {
    /// The claims of a genuine ID token for this client.
    pub(crate) async fn check_id_token(&self, text: &str, nonce: Option<&str>) -> Result<Value, String> {
        let token = Token::parse(text.as_bytes())?;
        self.check_signature(&token).await?;
        let document = self.provider.discovery().await?;
        let issuer = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
        let expected =
            Expected { issuer, client_id: &self.conf.client_id, nonce, iat_slack: self.conf.iat_slack };
        check_claims(&token.payload, &expected, now_seconds())?;
        Ok(token.payload)
    }

    async fn check_signature(&self, token: &Token<'_>) -> Result<(), String> {
        let name = token.algorithm().unwrap_or_default();
        if !self.expects(name) {
            return Err(format!("ID token is signed by unexpected algorithm \"{name}\""));
        }
        if name.eq_ignore_ascii_case("none") {
            return match self.conf.accept_none_alg && name == "none" {
                true => Ok(()),
                false => Err("ID token is not signed: see accept_none_alg".to_owned()),
            };
        }
        let signed = match Algorithm::of(name) {
            // The token came straight from the provider, over a connection that says who it is. A name that no standard
            // knows is not an algorithm, but a way around one.
            None if self.conf.accept_unsupported_alg && UNSUPPORTED.contains(&name) => {
                log(
                    Level::Warn,
                    format_args!(
                        "OIDC: an ID token signed with {name} is taken though its signature cannot be checked: see \
                         accept_unsupported_alg"
                    ),
                );
                token.has_signature()
            }
            None => return Err(format!("ID token is signed by unsupported algorithm \"{name}\"")),
            Some(algorithm) if algorithm.is_hmac() => {
                let secret = self.conf.client_secret.as_deref().filter(|secret| !secret.is_empty());
                let secret =
                    secret.ok_or("ID token is signed with a secret, but client_secret is not set")?;
                token.is_signed_by(&VerifyingKey::from_secret(algorithm, secret.as_bytes())?)
            }
            Some(algorithm) if self.conf.public_key.is_some() => {
                self.public_keys.iter().any(|(of, key)| *of == algorithm && token.is_signed_by(key))
            }
            Some(algorithm) => {
                let (mut signed, mut known) = (false, None);
                for fresh in [false, true] {
                    let keys = self.provider.keys(fresh).await?;
                    if known.replace(keys.serial) == Some(keys.serial) {
                        break;
                    }
                    let keys = keys.matching(algorithm, token.key_id());
                    signed = keys.iter().any(|key| token.is_signed_by(key));
                    if signed {
                        break;
                    }
                }
                signed
            }
        };
        if signed { Ok(()) } else { Err("ID token has a wrong signature".to_owned()) }
    }
}

struct Expected<'a> {
    issuer: &'a str,
    client_id: &'a str,
    nonce: Option<&'a str>,
    iat_slack: i64,
}

fn check_claims(claims: &Value, expected: &Expected, now_seconds: i64) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("issuer of the ID token is not the one of the discovery document".to_owned());
    }
    if text("sub").is_none_or(str::is_empty) {
        return Err("ID token has no sub".to_owned());
    }
    let issued = claims.get("iat").and_then(Value::as_f64).ok_or("ID token has no iat")?;
    if issued > (now_seconds + expected.iat_slack) as f64 {
        return Err("ID token was issued in the future: see iat_slack".to_owned());
    }
    if claims.get("exp").and_then(Value::as_f64).is_none() {
        return Err("ID token has no exp".to_owned());
    }
    let slack = |now: i64| now.saturating_sub(expected.iat_slack);
    let expires = claims.get("exp").and_then(Value::as_f64).unwrap_or_default();
    if expires < slack(now_seconds) as f64 {
        return Err("ID token has expired".to_owned());
    }
    if let Some(begins) = claims.get("nbf") {
        bearer::check_times(&serde_json::json!({"nbf": begins}), now_seconds + expected.iat_slack)?;
    }
    let for_us = match claims.get("aud") {
        Some(Value::Array(list)) => {
            let named = list.iter().any(|one| one.as_str() == Some(expected.client_id));
            named && (list.len() == 1 || text("azp").is_none_or(|azp| azp == expected.client_id))
        }
        aud => aud.and_then(Value::as_str) == Some(expected.client_id),
    };
    if !for_us {
        return Err("audience of the ID token is not this client".to_owned());
    }
    if expected.nonce.is_some_and(|nonce| text("nonce") != Some(nonce)) {
        return Err("nonce of the ID token is not the one of this login".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims() {
        let good = json!({"iss": "i", "sub": "s", "aud": "c", "iat": 100, "exp": 200, "nonce": "n"});
        let with = |name: &str, value: Value| {
            let mut claims = good.clone();
            claims[name] = value;
            claims
        };
        let cases = [
            (good.clone(), true),
            (with("iss", json!("other")), false),
            (with("sub", json!("")), false),
            (with("aud", json!("other")), false),
            (with("aud", json!(["c", "d"])), true),
            (with("aud", json!(["d"])), false),
            (with("iat", json!(300)), false),
            (with("exp", json!(100)), false),
            (with("exp", Value::Null), false),
            (with("nonce", json!("other")), false),
            (with("nbf", json!(1000)), false),
        ];
        let expected = Expected { issuer: "i", client_id: "c", nonce: Some("n"), iat_slack: 10 };
        for (claims, ok) in cases {
            assert_eq!(check_claims(&claims, &expected, 150).is_ok(), ok, "{claims}");
        }
    }
}
