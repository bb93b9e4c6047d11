//! Requests to the provider that show who the client is: token, introspection, revocation, pushed authorisation.

use serde_json::{Value, json};
use tidegate_clients::{
    http::{Endpoint, Incoming, Outgoing},
    jws::Algorithm,
    jws_sign::SigningKey,
    nginx_base64,
};
use tidegate_protocol::uri::encoded_component;

use super::provider::{Provider, json as json_answer};
use crate::common::{clock::now_seconds, random_token::random_token, service::arguments};

pub(super) struct Client {
    pub id: String,
    pub secret: Option<String>,
    /// For `private_key_jwt`.
    pub private_key: Option<SigningKey>,
    /// For `client_secret_jwt`.
    pub secret_key: Option<SigningKey>,
    pub(crate) assertion_lifetime_seconds: i64,
    pub(crate) assertion_audience: Option<String>,
}

/// Name and value of a form field.
pub(super) type Field = (&'static str, String);

impl Client {
    /// Posts a form; the method says how the client authenticates.
    pub(super) async fn post(
        &self,
        provider: &Provider,
        url: &str,
        method: &str,
        mut fields: Vec<Field>,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Result<Incoming, String> {
        let mut authorization = None;
        let secret = self.secret.as_deref().filter(|secret| !secret.is_empty());
        match (method, secret, &self.private_key, &self.secret_key) {
            ("private_key_jwt", _, Some(key), _) | ("client_secret_jwt", _, _, Some(key)) => {
                fields.push(("client_id", self.id.clone()));
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                fields.push(("client_assertion_type", kind.to_owned()));
                fields.push(("client_assertion", self.assertion(key, url)?));
            }
            ("client_secret_post", Some(secret), ..) => {
                fields.push(("client_id", self.id.clone()));
                fields.push(("client_secret", secret.to_owned()));
            }
            (_, Some(secret), ..) => {
                let pair = format!("{}:{}", encoded_component(&self.id), encoded_component(secret));
                authorization = Some(format!("Basic {}", nginx_base64::encode(pair)));
            }
            // A public client (PKCE) only names itself.
            (_, None, ..) => fields.push(("client_id", self.id.clone())),
        }
        let form = arguments(fields.iter().map(|(name, value)| (*name, value.as_str())));
        let mut outgoing = Outgoing::post(Endpoint::parse(url)?, "application/x-www-form-urlencoded", form);
        outgoing.headers.extend(headers);
        if let Some(authorization) = authorization {
            outgoing = outgoing.header("Authorization", authorization);
        }
        provider.send(outgoing).await
    }

    pub(crate) async fn post_for_json(
        &self,
        provider: &Provider,
        url: &str,
        method: &str,
        fields: Vec<Field>,
        headers: Vec<(String, Vec<u8>)>,
    ) -> Result<Value, String> {
        json_answer(url, &self.post(provider, url, method, fields, headers).await?).await
    }

    /// RFC 7523, section 3.
    fn assertion(&self, key: &SigningKey, url: &str) -> Result<String, String> {
        let now = now_seconds();
        key.sign(&json!({
            "iss": self.id,
            "sub": self.id,
            "aud": self.assertion_audience.as_deref().unwrap_or(url),
            "jti": random_token(),
            "exp": now + self.assertion_lifetime_seconds,
            "iat": now,
        }))
    }
}

/// The algorithm of assertions: the configured one, else the one every provider knows.
pub(crate) fn assertion_algorithm(configured: Option<&str>, hmac: bool) -> Algorithm {
    let default = if hmac { Algorithm::Hs256 } else { Algorithm::Rs256 };
    configured.and_then(Algorithm::of).filter(|algorithm| algorithm.is_hmac() == hmac).unwrap_or(default)
}
