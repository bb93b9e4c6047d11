//! The first step of the code flow: where a browser goes to log in, and what its answer will be held against.

use serde_json::Value;
use tidegate_clients::nginx_base64;

use super::{relying_party::OpenidConnect, session::Login};
use crate::common::{clock::now_ms, random_token::random_token, service::with_arguments};

impl OpenidConnect {
    pub(super) fn new_login(&self, original_url: String) -> Login {
        Login {
            state: random_token(),
            original_url,
            nonce: self.conf.use_nonce.then(random_token),
            verifier: self.conf.use_pkce.then(|| format!("{}{}", random_token(), random_token())),
            begun_ms: now_ms(),
        }
    }

    /// Where the provider asks the user who they are.
    pub(super) async fn location_of(
        &self,
        login: &Login,
        redirect_uri: &str,
        prompt: Option<&str>,
    ) -> Result<String, String> {
        let endpoint = self.provider.endpoint("authorization_endpoint").await?;
        let mut arguments = vec![
            ("client_id", self.conf.client_id.clone()),
            ("response_type", "code".to_owned()),
            ("scope", self.conf.scope.clone()),
            ("redirect_uri", redirect_uri.to_owned()),
            ("state", login.state.clone()),
        ];
        arguments.extend(login.nonce.clone().map(|nonce| ("nonce", nonce)));
        arguments.extend(self.dpop.as_ref().map(|dpop| ("dpop_jkt", dpop.thumbprint.clone())));
        arguments.extend(prompt.map(|prompt| ("prompt", prompt.to_owned())));
        if let Some(verifier) = &login.verifier {
            let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, verifier.as_bytes());
            arguments.push(("code_challenge", nginx_base64::encode_url(digest)));
            arguments.push(("code_challenge_method", "S256".to_owned()));
        }
        let pairs = arguments.iter().map(|(name, value)| (*name, value.as_str()));
        let extra = self.conf.authorization_params.iter();
        let extra: Vec<(&str, String)> = extra
            .map(|(name, value)| {
                (name.as_str(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            })
            .collect();
        let extra = extra.iter().map(|(name, value)| (*name, value.as_str()));
        let all = pairs.chain(extra);
        match self.conf.par.as_ref().filter(|par| par.enabled) {
            None => Ok(with_arguments(&endpoint, all)),
            Some(_) => {
                let uri = self.push_request(all).await?;
                let id = self.conf.client_id.as_str();
                Ok(with_arguments(&endpoint, [("client_id", id), ("request_uri", uri.as_str())]))
            }
        }
    }

    /// RFC 9126: the provider gets the arguments first, the browser only a reference to them.
    async fn push_request<'a>(
        &self,
        arguments: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<String, String> {
        let par = self.conf.par.as_ref().ok_or("par is not set")?;
        let url = match &par.endpoint {
            Some(url) => url.clone(),
            None => self.provider.endpoint("pushed_authorization_request_endpoint").await?,
        };
        let method = par.endpoint_auth_method.as_deref().unwrap_or(&self.conf.token_endpoint_auth_method);
        let known = ["response_type", "scope", "redirect_uri", "state", "nonce", "prompt", "code_challenge"];
        let mut fields = Vec::new();
        let mut query = Vec::new();
        for (name, value) in arguments.filter(|(name, _)| *name != "client_id") {
            match known.iter().chain(&["code_challenge_method", "dpop_jkt"]).find(|known| **known == name) {
                Some(name) => fields.push((*name, value.to_owned())),
                None => query.push((name, value)),
            }
        }
        let url = with_arguments(&url, query);
        let answer = self.client.post_for_json(&self.provider, &url, method, fields, Vec::new()).await?;
        let uri = answer.get("request_uri").and_then(Value::as_str);
        uri.map(str::to_owned).ok_or_else(|| "pushed authorization answer has no request_uri".to_owned())
    }
}
