//! Authenticates consumers by an HMAC over parts of the request (`Authorization: Signature keyId=...`).

mod fields;

use std::{collections::HashMap, sync::Arc, time::SystemTime};

use aws_lc_rs::{digest, hmac};
use fields::Fields;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::nginx_base64;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    AuthEntry, BodyError, BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Verdict,
    Why,
    aside::{self, Undone},
    definition::ConsumerKey,
};
use tidegate_protocol::{HeaderId, claims::folded};
use tidegate_telemetry::error_log;

use crate::common::{
    auth, clock,
    conf::typed,
    spent::{self, Claim, Spent},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "hmac-auth",
    version: 0.1,
    priority: 2530,
    kind: Some("auth"),
    schema: include_str!("hmac_auth.json"),
    consumer_schema: Some(include_str!("hmac_auth.consumer.json")),
    encrypt_fields: &["secret_key"],
    phases: Phases::REWRITE,
    headers: &[("signed_headers", Text::Value), ("realm", Text::Value), ("nonce_header", Text::Name)],
    remarks,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

/// A captured request can be repeated for as long as its date is fresh; a date that is not signed can be chosen freely.
fn remarks(conf: &Value) -> Vec<String> {
    let Some(signed) = conf.get("signed_headers").and_then(Value::as_array) else { return Vec::new() };
    let names = || signed.iter().filter_map(Value::as_str);
    // `@request-target` is none.
    let mut found = auth::remarks_of_names(names().filter(|name| !name.starts_with('@')));
    if !names().any(|name| name.eq_ignore_ascii_case("date")) {
        found.push("signed_headers lacks date: a captured signature stays valid".to_owned());
    }
    found
}

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
    /// A signed field that each request must have another value of.
    nonce_header: Option<String>,
}

/// Nonces that requests of the last minutes had: 48 bytes each at most.
static NONCES: Spent = Spent::new(1 << 20);

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

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let built: HmacAuth = typed(conf)?;
    let signs_digest = built.signed_headers.iter().any(|name| name.eq_ignore_ascii_case("digest"));
    if built.validate_request_body && !signs_digest {
        let (kind, id) = (context.owner.kind.directory(), &context.owner.id);
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "hmac-auth of {kind}/{id}: validate_request_body without \"digest\" in signed_headers lets a signature \
                 be sent again with another body"
            ),
        );
    }
    Ok(Arc::new(built))
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

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        let Some(_) = &self.nonce_header else { return Foresight::by_running(self, phase, request) };
        // A nonce is used up by the first request, which this one is not.
        match self.signed(request) {
            Ok((entry, _)) => {
                let _ = self.accept(request, &entry);
                Foresight::maybe(401, Why::Counts)
            }
            Err(reason) => Foresight::of_step(self.reject(request, &reason).into()),
        }
    }
}

/// The message to the client, which says little unless its header is malformed.
fn refuse(request: &Request, reason: &str) -> String {
    auth::reason(
        request,
        format!("client request can't be validated: {reason}"),
        "client request can't be validated",
    )
}

impl HmacAuth {
    fn find(&self, request: &Request) -> Result<Arc<AuthEntry>, String> {
        let (entry, fields) = self.signed(request)?;
        let key_id = fields.key_id.as_deref().unwrap_or_default();
        let spent = self.use_nonce(request, key_id, &fields.headers);
        spent.map(|()| entry).map_err(|reason| refuse(request, &reason))
    }

    /// The owner of the key of a good signature.
    fn signed(&self, request: &Request) -> Result<(Arc<AuthEntry>, Fields), String> {
        let header = request.head.headers.known(HeaderId::Authorization);
        let fields = header.ok_or("missing Authorization header").and_then(Fields::parse);
        let fields = fields.map_err(|reason| format!("client request can't be validated: {reason}"))?;
        let entry = self.validate(request, &fields).map_err(|reason| refuse(request, &reason))?;
        Ok((entry, fields))
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
        check_single(request, &fields.headers)?;
        let key = entry.data::<Keys>().and_then(|keys| keys.of(algorithm)).ok_or("Invalid algorithm")?;
        let sent = nginx_base64::decode(sent.as_bytes()).ok_or("Invalid signature")?;
        hmac::verify(key, &signing_string(request, key_id, &fields.headers), &sent)
            .map_err(|_| "Invalid signature")?;
        Ok(entry.clone())
    }

    /// Only once the signature is good: no other client can use a nonce up, or fill the memory for them.
    fn use_nonce(&self, request: &Request, key_id: &str, signed: &[String]) -> Result<(), String> {
        let Some(name) = &self.nonce_header else { return Ok(()) };
        let is_signed = |wanted: &str| signed.iter().any(|name| name.eq_ignore_ascii_case(wanted));
        if let Some(missing) = [name.as_str(), "date"].into_iter().find(|wanted| !is_signed(wanted)) {
            return Err(format!("expected header \"{missing}\" missing in signing"));
        }
        let nonce = request.header(name).filter(|nonce| !nonce.is_empty());
        let nonce = nonce.ok_or_else(|| format!("nonce header \"{name}\" missing"))?;
        let now_ms = (clock::unix_seconds() * 1000.0) as i64;
        // A date of the future counts until it has become one of the past that is too old, and a second is not exact.
        let skew_ms = i64::try_from(self.clock_skew).unwrap_or(i64::MAX).saturating_mul(1000);
        let until_ms = now_ms.saturating_add(skew_ms.saturating_mul(2)).saturating_add(2000);
        match NONCES.claim(spent::mark(&[key_id.as_bytes(), nonce]), until_ms, now_ms) {
            Claim::First => Ok(()),
            Claim::Again => Err("nonce was used before".to_owned()),
            Claim::Full => Err("too many nonces to remember; shorten clock_skew".to_owned()),
        }
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
        if request.head.headers.get_all("Digest").nth(1).is_some() {
            return Ok(false);
        }
        let Some(sent) = request.header("Digest").map(<[u8]>::to_vec) else { return Ok(false) };
        let limit = self.max_req_body_size;
        let size = request.header_str("Content-Length").and_then(|length| length.parse().ok());
        let body =
            request.body.collect(usize::try_from(limit).unwrap_or(usize::MAX), request.remote_addr).await;
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
        let (client, length) = (request.remote_addr, body.len());
        let make = move || digest::digest(&digest::SHA256, &body);
        let digest = aside::run_by_size(client, length, make).await;
        let digest = digest.map_err(|Undone| Box::new(Reply::page(500)))?;
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

/// A signature covers the first of repeated fields, and the upstream may read another one, or one whose name it takes for
/// the same. The date and the header with the signature itself are as important, signed or not.
fn check_single(request: &Request, signed: &[String]) -> Result<(), String> {
    let names = signed.iter().map(String::as_str).chain(["date", "authorization"]);
    let mut names: HashMap<Vec<u8>, (&str, bool)> =
        names.map(|name| (folded(name.as_bytes()), (name, false))).collect();
    for (field, _) in request.head.headers.iter() {
        let Some((name, seen)) = names.get_mut(&folded(field)) else { continue };
        if std::mem::replace(seen, true) {
            return Err(format!("header \"{name}\" is repeated"));
        }
    }
    Ok(())
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
