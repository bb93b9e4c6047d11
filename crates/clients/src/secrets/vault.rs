//! HashiCorp Vault: `SECRET/KEY` is the member KEY of the secret at `PREFIX/SECRET`.
//!
//! APISIX reads the key-value engine version 1. Version 2 works too, with the `data` of its paths in the prefix
//! (`secret/data`): it wraps the secret's members once more.

use std::fmt::Display;

use serde_json::Value;

use super::manager::{Failure, json, member, need, options, text};
use crate::http::{Endpoint, Outgoing, send};

pub(super) async fn fetch(conf: &Value, path: &str) -> Result<String, Failure> {
    let missing = |reason: String| Failure::Missing(reason);
    let (secret, key) =
        path.rsplit_once('/').ok_or_else(|| missing(format!("error key format, key: {path}")))?;
    if secret.is_empty() {
        return Err(missing(format!("can't find main key, key: {path}")));
    }
    if key.is_empty() {
        return Err(missing(format!("can't find sub key, key: {path}")));
    }
    if secret.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(missing(format!("secret {secret} would lead out of its prefix")));
    }
    let base = need(conf, "uri")?.trim_end_matches('/');
    let path = normalized(&format!("/v1/{}/{secret}", need(conf, "prefix")?));
    let endpoint = Endpoint::parse(&format!("{base}{path}")).map_err(unavailable)?;
    let mut request = Outgoing::get(endpoint).header("X-Vault-Token", need(conf, "token")?);
    if let Some(namespace) = text(conf, "namespace") {
        request = request.header("X-Vault-Namespace", namespace);
    }
    let answer = send(request, &options(true)).await.map_err(unavailable)?;
    match answer.status {
        200 => {}
        404 => return Err(missing(format!("vault has no secret {secret}"))),
        _ => return Err(unavailable(answer.refusal())),
    }
    let answer = json(&answer.body)?;
    let data = answer.get("data").ok_or_else(|| unavailable("no data in the answer"))?;
    let wrapped = || data.get("metadata").and(data.get("data")).and_then(|data| member(data, key));
    member(data, key)
        .or_else(wrapped)
        .ok_or_else(|| missing(format!("secret {secret} has no key {key} with a text")))
}

fn unavailable(reason: impl Display) -> Failure {
    Failure::Unavailable(format!("failed to retrieve data from vault: {reason}"))
}

/// Without empty and dot segments; bytes that a request line cannot carry are encoded.
fn normalized(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let mut out = Vec::new();
    for segment in segments {
        out.push(b'/');
        tidegate_protocol::uri::encode_path(segment.as_bytes(), &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn paths() {
        let cases = [
            ("/v1/kv/apisix/jack", "/v1/kv/apisix/jack"),
            ("/v1//kv/./a/../jack", "/v1/kv/jack"),
            ("/v1/kv/a b?c", "/v1/kv/a%20b%3Fc"),
        ];
        for (path, expected) in cases {
            assert_eq!(normalized(path), expected, "{path}");
        }
    }
}
