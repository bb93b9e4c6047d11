//! One request to the Admin API of the gateway that config.yaml describes.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tidegate_clients::verbatim::Excess;
use tidegate_config::{Settings, settings::AdminKey};

use super::exchange::{Bounds, authority, exchange, reachable};

/// Larger answers are none of ours.
const BOUNDS: Bounds =
    Bounds { wait: Duration::from_secs(30), body_bytes: 256 << 20, excess: Excess::Refused };

/// What is asked of the Admin API.
pub(super) struct Question<'a> {
    pub method: &'a str,
    /// Below `/apisix/admin/`, with its query.
    pub path: &'a str,
    pub content_type: &'a str,
    pub body: &'a str,
    /// What to do when the gateway cannot be asked.
    pub instead: &'a str,
}

/// Posts JSON and returns the answer's; an answer that is not a success is an error with its message.
pub(super) fn post(settings: &Settings, path: &str, body: &Value) -> anyhow::Result<Value> {
    let body = body.to_string();
    let question = Question {
        method: "POST",
        path,
        content_type: "application/json",
        body: &body,
        instead: "use --offline",
    };
    let answer = ask(settings, &question)?;
    serde_json::from_str(&answer).context("the Admin API answered without JSON")
}

/// The answer's body; an answer that is not a success is an error with its message.
pub(super) fn ask(settings: &Settings, question: &Question<'_>) -> anyhow::Result<String> {
    let place = place_of(settings, question)?;
    let key = settings.admin.access.admin_key().and_then(AdminKey::value);
    ask_at(&place, key, question)
}

/// Host and port of the Admin API that these settings describe.
pub(super) fn place_of(settings: &Settings, question: &Question<'_>) -> anyhow::Result<String> {
    let Question { method, path, instead, .. } = question;
    let Some(listen) = &settings.admin.listen else {
        bail!("the Admin API is off; {instead}");
    };
    if settings.admin.https {
        bail!(
            "the Admin API speaks HTTPS, which this command does not; {instead}, or use curl with {method} /apisix/admin/{path}"
        );
    }
    Ok(authority(reachable(&listen.ip), listen.port))
}

/// As [`ask`], of the Admin API at this host and port.
fn ask_at(place: &str, key: Option<&str>, question: &Question<'_>) -> anyhow::Result<String> {
    ask_for(place, key, question)?.success()
}

/// What the Admin API answered, success or not.
pub(super) struct Answer {
    place: String,
    pub status: u16,
    pub body: String,
}

impl Answer {
    /// The body; of an answer that is not a success, the error with its message.
    pub(super) fn success(self) -> anyhow::Result<String> {
        let Answer { place, status, body } = self;
        if status != 200 && status != 201 {
            let json: Value = serde_json::from_str(&body)
                .with_context(|| format!("the Admin API at {place} answered {status} without JSON"))?;
            bail!("the Admin API at {place} answered {status}: {}", reason(&json));
        }
        Ok(body)
    }
}

/// Asks the Admin API at this host and port.
pub(super) fn ask_for(place: &str, key: Option<&str>, question: &Question<'_>) -> anyhow::Result<Answer> {
    let Question { method, path, content_type, body, instead } = question;
    let mut request = format!(
        "{method} /apisix/admin/{path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\nContent-Type: {content_type}\r\n\
         Content-Length: {}\r\n",
        body.len()
    );
    if let Some(key) = key {
        request.push_str(&format!("X-API-KEY: {key}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    let answer = exchange(place, method, request.as_bytes(), BOUNDS).with_context(|| {
        format!("cannot reach the Admin API at {place}; is the gateway running? {instead}")
    })?;
    let status = answer.head.status;
    let body = String::from_utf8(answer.body).context("the Admin API answered without text")?;
    Ok(Answer { place: place.to_owned(), status, body })
}

/// The message, and what is wrong with which object beyond the first.
fn reason(answer: &Value) -> String {
    let message = answer.get("error_msg").or_else(|| answer.get("description")).and_then(Value::as_str);
    let mut text = message.unwrap_or("no reason given").to_owned();
    for (sign, name) in [(": ", "description"), ("; ", "remedy")] {
        if let Some(more) = answer.get(name).and_then(Value::as_str).filter(|more| *more != text) {
            text.push_str(sign);
            text.push_str(more);
        }
    }
    let errors = answer.get("errors").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for error in errors.iter().skip(1) {
        let part = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!("\n  {}: {}", part("path"), part("error")));
    }
    if let Some(more) = answer.get("more").and_then(Value::as_u64) {
        text.push_str(&format!("\n  and {more} more"));
    }
    text
}
