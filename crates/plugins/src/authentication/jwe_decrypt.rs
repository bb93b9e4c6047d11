//! Decrypts a token that a client sends, and passes on what is in it.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::nginx_base64::decode_url;
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
    definition::ConsumerKey,
};

use crate::common::{
    auth::{self, Identified},
    conf::typed,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "jwe-decrypt",
    version: 0.1,
    priority: 2509,
    kind: Some("auth"),
    schema: include_str!("jwe_decrypt.json"),
    consumer_schema: Some(include_str!("jwe_decrypt.consumer.json")),
    encrypt_fields: &["key", "secret"],
    phases: Phases::REWRITE,
    headers: &[("header", Text::Name), ("forward_header", Text::Name)],
    check,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct JweDecrypt {
    header: String,
    forward_header: String,
    strict: bool,
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    let secret = conf.get("secret").and_then(Value::as_str);
    match secret.filter(|secret| kind == SchemaKind::Consumer && !is_secret_reference(secret)) {
        Some(secret) => key(conf, secret).map(|_| ()),
        None => Ok(()),
    }
}

fn key(conf: &Value, secret: &str) -> Result<LessSafeKey, String> {
    let is_encoded = conf.get("is_base64_encoded").and_then(Value::as_bool).unwrap_or_default();
    let (bytes, wrong) = match is_encoded {
        true => {
            let decoded = decode_url(secret.as_bytes()).unwrap_or_default();
            (decoded, "the secret length after base64 decode should be 32 chars")
        }
        false => (secret.as_bytes().to_vec(), "the secret length should be 32 chars"),
    };
    UnboundKey::new(&AES_256_GCM, &bytes).map(LessSafeKey::new).map_err(|_| wrong.to_owned())
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<JweDecrypt>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let text = |name: &str| {
        conf.get(name).and_then(Value::as_str).ok_or_else(|| format!("property \"{name}\" is required"))
    };
    Ok(ConsumerKey { key: text("key")?.to_owned(), data: Box::new(key(conf, text("secret")?)?) })
}

impl Plugin for JweDecrypt {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let token = match auth::credentials(request, &self.header) {
            Ok(Some(token)) => token,
            Ok(None) if self.strict => {
                return Step::reply(Reply::message(403, "missing JWE token in request"));
            }
            Ok(None) => {
                // Only a token says what is in the field.
                request.assert_header(&self.forward_header, None::<&[u8]>);
                return Step::Next;
            }
            Err(_) => return Step::reply(Reply::message(400, "JWE token invalid")),
        };
        match decrypt(request, token) {
            Ok(text) => {
                request.assert_header(&self.forward_header, [text]);
                request.extensions.insert(Identified);
                Step::Next
            }
            Err(reason) => Step::reply(Reply::message(400, reason)),
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

fn decrypt(request: &Request, token: &[u8]) -> Result<Vec<u8>, &'static str> {
    let token = match token.get(..7) {
        Some(b"Bearer " | b"bearer ") => token.get(7..).unwrap_or_default(),
        _ => token,
    };
    let parts: Vec<&[u8]> = token.splitn(5, |&byte| byte == b'.').collect();
    let [header, _, nonce, text, tag] = parts.as_slice() else { return Err("JWE token invalid") };
    let header = decode_url(header).and_then(|header| serde_json::from_slice::<Value>(&header).ok());
    let header = header.ok_or("JWE token invalid")?;
    let kid = header.get("kid").filter(|kid| !kid.is_null()).ok_or("missing kid in JWE token")?;
    let snapshot = request.snapshot.clone();
    let entry = kid.as_str().and_then(|kid| snapshot.consumers.find(PLUGIN.name, kid));
    let key = entry.and_then(|entry| entry.data.downcast_ref::<LessSafeKey>());
    open(key.ok_or("invalid kid in JWE token")?, nonce, text, tag).ok_or("failed to decrypt JWE token")
}

/// As in APISIX, the token's header is not part of what the tag vouches for.
fn open(key: &LessSafeKey, nonce: &[u8], text: &[u8], tag: &[u8]) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE_LEN] = decode_url(nonce)?.try_into().ok()?;
    let mut sealed = decode_url(text)?;
    let tag = decode_url(tag)?;
    if tag.len() != AES_256_GCM.tag_len() {
        return None;
    }
    sealed.extend_from_slice(&tag);
    let plain = key.open_in_place(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed).ok()?;
    // It becomes a header field.
    HeaderValue::from_bytes(plain).is_ok().then(|| plain.to_vec())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::common::test_request;

    #[test]
    fn secrets_have_32_bytes() {
        let cases = [
            (json!({"secret": "12345678901234567890123456789012"}), None),
            (
                json!({"secret": "fo4XKdZ1xSrIZyms4q2BwPrW5lMpls9qqy5tiAk2esc=", "is_base64_encoded": true}),
                None,
            ),
            (json!({"secret": "$env://SECRET"}), None),
            (
                json!({"secret": "123456789012345678901234567890123"}),
                Some("the secret length should be 32 chars"),
            ),
            (
                json!({"secret": "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "is_base64_encoded": true}),
                Some("the secret length after base64 decode should be 32 chars"),
            ),
            (
                json!({"secret": "%", "is_base64_encoded": true}),
                Some("the secret length after base64 decode should be 32 chars"),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Consumer).err().as_deref(), expected, "{conf}");
        }
    }

    #[test]
    fn tokens_are_opened() {
        let secret = "12345678901234567890123456789012";
        let key = key(&json!({}), secret).unwrap();
        let (nonce, text, tag) = (b"MTIzNDU2Nzg5MDEy", b"6JeRgm0", b"rNt131nG5wMvUD1KXbwLGA");
        assert_eq!(open(&key, nonce, text, tag).as_deref(), Some(&b"hello"[..]));
        assert_eq!(open(&key, nonce, text, b"rNt131nG5wMvUD1KXbwLGB"), None, "another tag");
        assert_eq!(open(&key, nonce, text, b"rNt131nG5wMv"), None, "a short tag");
        assert_eq!(open(&key, b"MTIz", text, tag), None, "a short nonce");
    }

    #[test]
    fn reasons() {
        let request = test_request::request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let url = tidegate_clients::nginx_base64::encode_url;
        for (token, reason) in [
            ("x".to_owned(), "JWE token invalid"),
            ("a.b.c.d.e".to_owned(), "JWE token invalid"),
            (format!("{}.....", url("{}")), "missing kid in JWE token"),
            (format!("Bearer {}....", url(r#"{"kid":"a"}"#)), "invalid kid in JWE token"),
            (format!("{}....", url(r#"{"kid":7}"#)), "invalid kid in JWE token"),
        ] {
            assert_eq!(decrypt(&request, token.as_bytes()), Err(reason), "{token}");
        }
    }
}
