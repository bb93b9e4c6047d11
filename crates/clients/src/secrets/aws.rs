//! AWS Secrets Manager: `NAME`, or `NAME/KEY` for a member of a secret that is a JSON object.
//!
//! Names may contain slashes, so the end of the name is not known: the longest name is tried first.

use std::fmt::Display;

use serde_json::{Value, json};
use tidegate_telemetry::clock;

use super::manager::{Failure, member_of_text, need, options, text};
use crate::{
    http::{Endpoint, Incoming, Outgoing, send},
    sigv4::{Credentials, Signer},
};

pub(super) async fn fetch(conf: &Value, path: &str) -> Result<String, Failure> {
    if path.is_empty() || path.starts_with('/') {
        return Err(Failure::Missing(format!("can't find main key, key: {path}")));
    }
    let mut name = path;
    loop {
        match secret(conf, name).await {
            Ok(secret) => {
                return match path.get(name.len() + 1..) {
                    None => Ok(secret),
                    Some(key) => member_of_text(&secret, key),
                };
            }
            Err(Failure::Missing(reason)) => match name.rsplit_once('/') {
                Some((shorter, _)) => name = shorter,
                None => return Err(Failure::Missing(reason)),
            },
            Err(other) => return Err(other),
        }
    }
}

async fn secret(conf: &Value, name: &str) -> Result<String, Failure> {
    let region = text(conf, "region").unwrap_or("us-east-1");
    let endpoint = match text(conf, "endpoint_url") {
        Some(url) => url.to_owned(),
        None => format!("https://secretsmanager.{region}.amazonaws.com"),
    };
    let mut endpoint = Endpoint::parse(&endpoint).map_err(unavailable)?;
    // The service has one path; the part of an endpoint_url after the host is not used, as in APISIX.
    endpoint.target = "/".to_owned();
    let credentials = Credentials {
        access_key_id: need(conf, "access_key_id")?,
        secret_access_key: need(conf, "secret_access_key")?,
        session_token: text(conf, "session_token"),
    };
    let body = json!({"SecretId": name, "VersionStage": "AWSCURRENT"}).to_string();
    let signer = Signer { credentials, region, service: "secretsmanager", now_ms: clock::unix_ms() };
    let headers = [
        ("Content-Type", "application/x-amz-json-1.1".to_owned()),
        ("Host", endpoint.host_header()),
        ("X-Amz-Target", "secretsmanager.GetSecretValue".to_owned()),
    ];
    let mut request = Outgoing::post(endpoint, "application/x-amz-json-1.1", body.clone());
    request.headers.clear();
    for (name, value) in signer.sign("POST", ("/", ""), &headers, body.as_bytes()) {
        request = request.header(&name, value);
    }
    let answer = send(request, &options(true)).await.map_err(unavailable)?;
    if answer.status == 200 {
        let answer = super::manager::json(&answer.body)?;
        return text(&answer, "SecretString")
            .map(str::to_owned)
            .ok_or_else(|| Failure::Missing(format!("secret {name} has no SecretString")));
    }
    if is_not_found(&answer) {
        return Err(Failure::Missing(format!("aws has no secret {name}")));
    }
    Err(unavailable(answer.refusal()))
}

fn unavailable(reason: impl Display) -> Failure {
    Failure::Unavailable(format!("failed to retrieve data from aws secret manager: {reason}"))
}

fn is_not_found(answer: &Incoming) -> bool {
    let body = super::manager::json(&answer.body).unwrap_or_default();
    text(&body, "__type").is_some_and(|kind| kind.contains("ResourceNotFoundException"))
}
