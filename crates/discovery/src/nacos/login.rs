//! The credentials for Nacos: a user with a token that expires, or an access key that signs.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use tidegate_clients::http::KeptClient;
use tidegate_protocol::uri::encoded_component;

use crate::http;

pub(super) struct Login {
    user: Option<(String, String)>,
    keys: Option<(String, String)>,
    token: Option<(String, Instant)>,
}

impl Login {
    /// `user`: `NAME:PASSWORD` of the URL.
    pub(super) fn new(user: Option<&str>, access_key: &str, secret_key: &str) -> Login {
        let user = user.and_then(|user| user.split_once(':'));
        let keys = !access_key.is_empty() && !secret_key.is_empty();
        Login {
            user: user.map(|(name, password)| (name.to_owned(), password.to_owned())),
            keys: keys.then(|| (access_key.to_owned(), secret_key.to_owned())),
            token: None,
        }
    }

    pub(super) fn forget(&mut self) {
        self.token = None;
    }

    /// Gets a token if one is needed.
    pub(super) async fn renew(&mut self, client: &mut KeptClient) -> Result<(), String> {
        let Some((name, password)) = &self.user else { return Ok(()) };
        if self.token.as_ref().is_some_and(|(_, end)| *end > Instant::now()) {
            return Ok(());
        }
        let target = format!(
            "/auth/login?username={}&password={}",
            encoded_component(name),
            encoded_component(password)
        );
        let document =
            http::good(&client.post(&target).await?).map_err(|reason| format!("login: {reason}"))?;
        let token = document.get("accessToken").and_then(Value::as_str).filter(|token| !token.is_empty());
        let token = token.ok_or("login: response has no accessToken")?.to_owned();
        // Half of its life, so that it never ends on the way.
        let seconds = document.get("tokenTtl").and_then(Value::as_u64).unwrap_or(0).min(1 << 31);
        self.token = Some((token, Instant::now() + Duration::from_secs(seconds / 2)));
        Ok(())
    }

    /// What is added to the query for one service.
    pub(super) fn arguments(&self, group: &str, service: &str) -> String {
        let mut arguments = String::new();
        if let Some((token, _)) = &self.token {
            arguments.push_str(&format!("&accessToken={}", encoded_component(token)));
        }
        if let Some((access_key, secret_key)) = &self.keys {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
            let data = format!("{now}@@{group}@@{service}");
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret_key.as_bytes());
            let signature = STANDARD.encode(hmac::sign(&key, data.as_bytes()));
            let (data, signature) = (encoded_component(&data), encoded_component(&signature));
            arguments.push_str(&format!(
                "&ak={}&data={data}&signature={signature}",
                encoded_component(access_key)
            ));
        }
        arguments
    }
}
