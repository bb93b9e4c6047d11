//! Google Cloud Secret Manager: `NAME`, or `NAME/KEY` for a member of a secret that is a JSON object.

use std::fmt::Display;

use serde_json::Value;

use super::manager::{Failure, member_of_text, options, text};
use crate::{
    google::{AccountSource, ServiceAccount},
    http::{Endpoint, Outgoing, send},
    nginx_base64,
};

const ENTRIES_URI: &str = "https://secretmanager.googleapis.com/v1";

pub(super) async fn fetch(conf: &Value, path: &str) -> Result<String, Failure> {
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if name.is_empty() {
        return Err(Failure::Missing(format!("can't find main key, key: {path}")));
    }
    let source = AccountSource::new(conf).map_err(unavailable)?;
    let account = source.account().await.map_err(unavailable)?;
    let verify = conf.get("ssl_verify").and_then(Value::as_bool).unwrap_or(true);
    let secret = secret(&account, name, verify).await?;
    match key {
        None => Ok(secret),
        Some(key) => member_of_text(&secret, key),
    }
}

fn unavailable(reason: impl Display) -> Failure {
    Failure::Unavailable(format!("failed to retrieve data from gcp secret manager: {reason}"))
}

async fn secret(account: &ServiceAccount, name: &str, verify: bool) -> Result<String, Failure> {
    let entries = account.entries_uri.as_deref().unwrap_or(ENTRIES_URI);
    let url = format!("{entries}/projects/{}/secrets/{name}/versions/latest:access", account.project_id);
    let endpoint = Endpoint::parse(&url).map_err(unavailable)?;
    let options = options(verify);
    let authorization = account.authorization(&options).await.map_err(unavailable)?;
    let request = Outgoing::get(endpoint)
        .header("Content-Type", "application/json")
        .header("Authorization", authorization);
    let answer = send(request, &options).await.map_err(unavailable)?;
    match answer.status {
        200 => {}
        404 => return Err(Failure::Missing(format!("gcp has no secret {name}"))),
        status => {
            if status == 401 {
                account.forget_token(&options);
            }
            return Err(unavailable(answer.refusal()));
        }
    }
    let body = super::manager::json(&answer.body)?;
    let data = body.get("payload").and_then(|payload| text(payload, "data"));
    let data = data.ok_or_else(|| unavailable("invalid payload"))?;
    let bytes =
        nginx_base64::decode(data.as_bytes()).ok_or_else(|| unavailable("the payload is not base64"))?;
    String::from_utf8(bytes).map_err(|_| Failure::Missing(format!("secret {name} is not text")))
}
