//! Authenticates consumers by an HMAC over parts of the request (`Authorization: Signature keyId=...`).

mod fields;

use std::{sync::Arc, time::SystemTime};

use aws_lc_rs::{digest, hmac};
use fields::Fields;
use plugin::{
    AuthEntry, BodyError, BuildContext, Phases, Plugin, PluginDef, Reply, Request, Step, Verdict,
    definition::ConsumerKey,
};
use serde::Deserialize;
use serde_json::Value;
use wire::HeaderId;

use crate::common::{auth, conf::typed, nginx_base64};

pub static PLUGIN: PluginDef = PluginDef {
    name: "hmac-auth",
    version: 0.1,
    priority: 2530,
    kind: Some("auth"),
    schema: include_str!("../schemas/hmac-auth.json"),
    consumer_schema: Some(include_str!("../schemas/hmac-auth.consumer.json")),
    encrypt_fields: &["secret_key"],
    phases: Phases::REWRITE,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct HmacAuth {
    allowed_algorithms: Vec<String>,
    clock_skew: u64,
    signed_headers: Vec<String>,
    validate_request_body: bool,
    max_req_body_size: u64,
    hide_credentials: bool,
    realm: String,
    anonymous_consumer: Option<String>,
}

/// The secret, ready for each algorithm.
struct Keys {
    sha1: hmac::Key,
    sha256: hmac::Key,
    sha512: hmac::Key,
}

impl Keys {
    fn of(&self, algorithm: &str) -> Option<&hmac::Key> {
        match algorithm {
            "hmac-sha1" => Some(&self.sha1),
            "hmac-sha256" => Some(&self.sha256),
            "hmac-sha512" => Some(&self.sha512),
            _ => None,
        }
    }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<HmacAuth>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    #[derive(Deserialize)]
    struct Conf {
        key_id: String,
        secret_key: String,
    }
    let conf: Conf = typed(conf)?;
    let key = |algorithm| hmac::Key::new(algorithm, conf.secret_key.as_bytes());
    let keys = Keys {
        sha1: key(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        sha256: key(hmac::HMAC_SHA256),
        sha512: key(hmac::HMAC_SHA512),
    };
    Ok(ConsumerKey { key: conf.key_id, data: Box::new(keys) })
}

impl Plugin for HmacAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let found = self.find(request);
        match found {
            Ok(entry) if self.validate_request_body => Step::wait(async move {
                match self.check_body(request).await? {
                    true => self.accept(request, &entry),
                    false => self.reject(request, &refuse(request, "Invalid digest")),
                }
            }),
            Ok(entry) => self.accept(request, &entry).into(),
            Err(reason) => self.reject(request, &reason).into(),
        }
    }
}

/// What a client is told, which is little unless its header is not even well formed.
fn refuse(request: &Request, reason: &str) -> String {
    auth::reason(
        request,
        format!("client request can't be validated: {reason}"),
        "client request can't be validated",
    )
}

impl HmacAuth {
    fn find(&self, request: &Request) -> Result<Arc<AuthEntry>, String> {
        let header = request.head.headers.known(HeaderId::Authorization);
        let fields = header.ok_or("missing Authorization header").and_then(Fields::parse);
        let fields = fields.map_err(|reason| format!("client request can't be validated: {reason}"))?;
        self.validate(request, &fields).map_err(|reason| refuse(request, &reason))
    }

    fn validate(&self, request: &Request, fields: &Fields) -> Result<Arc<AuthEntry>, String> {
        let (Some(key_id), Some(sent)) = (&fields.key_id, &fields.signature) else {
            return Err("keyId or signature missing".to_owned());
        };
        let algorithm = fields.algorithm.as_ref().ok_or("algorithm missing")?;
        let entry = request.snapshot.consumers.find("hmac-auth", key_id).ok_or("Invalid key_id")?;
        if !self.allowed_algorithms.contains(algorithm) {
            return Err("Invalid algorithm".to_owned());
        }
        self.check_clock(request)?;
        if let Some(missing) = self.signed_headers.iter().find(|name| !fields.headers.contains(name)) {
            return Err(format!("expected header \"{missing}\" missing in signing"));
        }
        let key = entry.data::<Keys>().and_then(|keys| keys.of(algorithm)).ok_or("Invalid algorithm")?;
        let sent = nginx_base64::decode(sent.as_bytes()).ok_or("Invalid signature")?;
        hmac::verify(key, &signing_string(request, key_id, &fields.headers), &sent)
            .map_err(|_| "Invalid signature")?;
        Ok(entry.clone())
    }

    fn check_clock(&self, request: &Request) -> Result<(), String> {
        let date = request
            .head
            .headers
            .known(HeaderId::Date)
            .ok_or("Date header missing. failed to validate clock skew")?;
        let date = std::str::from_utf8(date).ok().and_then(|date| httpdate::parse_http_date(date).ok());
        let date = date.ok_or("Invalid GMT format time")?;
        let now = SystemTime::now();
        let skew = now.duration_since(date).unwrap_or_else(|early| early.duration());
        if skew.as_secs() > self.clock_skew { Err("Clock skew exceeded".to_owned()) } else { Ok(()) }
    }

    /// Whether the body is the one that `Digest` describes.
    async fn check_body(&self, request: &mut Request) -> Result<bool, Box<Reply>> {
        let Some(sent) = request.header("Digest").map(<[u8]>::to_vec) else { return Ok(false) };
        let limit = self.max_req_body_size;
        let size = request.header_str("Content-Length").and_then(|length| length.parse().ok());
        let body = request.body.collect(usize::try_from(limit).unwrap_or(usize::MAX)).await;
        let body = body.map_err(|error| match error {
            BodyError::TooLarge => {
                let size = size.unwrap_or(limit.saturating_add(1));
                Box::new(Reply::message(
                    413,
                    &format!("request size {size} is greater than the maximum size {limit} allowed"),
                ))
            }
            other => other.into(),
        })?;
        let digest = digest::digest(&digest::SHA256, &body);
        Ok(sent == format!("SHA-256={}", nginx_base64::encode(digest)).as_bytes())
    }

    fn hide(&self, request: &mut Request) {
        if self.hide_credentials {
            request.head.headers.remove_known(HeaderId::Authorization);
        }
    }

    fn accept(&self, request: &mut Request, entry: &AuthEntry) -> Verdict {
        self.hide(request);
        request.attach(entry);
        Ok(())
    }

    fn reject(&self, request: &mut Request, reason: &str) -> Verdict {
        let Some(consumer) = &self.anonymous_consumer else {
            return auth::rejected("hmac", &self.realm, reason);
        };
        self.hide(request);
        auth::anonymous(request, "hmac-auth", consumer, "hmac", &self.realm)
    }
}

/// Key id, then a line per signed header that the request has; `@request-target` stands for method and target.
fn signing_string(request: &Request, key_id: &str, headers: &[String]) -> Vec<u8> {
    let mut text = key_id.as_bytes().to_vec();
    for name in headers {
        match request.header(name) {
            Some(value) => {
                text.push(b'\n');
                text.extend_from_slice(name.as_bytes());
                text.extend_from_slice(b": ");
                text.extend_from_slice(value);
            }
            None if name == "@request-target" => {
                text.push(b'\n');
                text.extend_from_slice(request.head.method.as_bytes());
                text.push(b' ');
                text.extend_from_slice(request.head.target());
            }
            None => {}
        }
    }
    text.push(b'\n');
    text
}
