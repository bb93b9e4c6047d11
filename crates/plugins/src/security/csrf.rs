//! Double-submit cookie against cross-site request forgery: unsafe methods must repeat a signed cookie in a header.

use std::sync::Arc;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::nginx_base64;
use tidegate_model::header_text::Text;
use tidegate_model::random::random_fraction;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step,
};
use tidegate_protocol::Method;
use tidegate_telemetry::error_log;

use crate::common::{
    clock::{cookie_time, unix_seconds},
    conf::typed,
    number,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "csrf",
    version: 0.1,
    priority: 2980,
    schema: include_str!("csrf.json"),
    encrypt_fields: &["key"],
    phases: Phases::ACCESS.and(Phases::HEADER_FILTER),
    check,
    headers: &[("name", Text::Name)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Csrf {
    key: String,
    /// Seconds; 0 and below: tokens do not expire.
    expires: i64,
    name: String,
}

/// With an empty key any client can make tokens. The catalog refuses a key of blanks.
fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    let empty = conf.get("key").and_then(Value::as_str).is_some_and(str::is_empty);
    if empty && kind == SchemaKind::Plugin { Err("property \"key\" is empty".to_owned()) } else { Ok(()) }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<Csrf>(conf)?))
}

impl Plugin for Csrf {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if matches!(request.head.method, Method::Get | Method::Head | Method::Options) {
            return Step::Next;
        }
        match self.check(request) {
            Ok(()) => Step::Next,
            Err(message) => Step::reply(Reply::error_msg(401, message)),
        }
    }

    fn header_filter(&self, request: &mut Request) {
        let now = unix_seconds() as i64;
        let mut cookie = format!("{}={};path=/;SameSite=Lax", self.name, self.token(now));
        // Without it the cookie lasts as long as the browser's session.
        if self.expires > 0 {
            cookie += &format!(";Expires={}", cookie_time(now.saturating_add(self.expires)));
        }
        request.response.headers.add("Set-Cookie", cookie);
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl Csrf {
    fn check(&self, request: &Request) -> Result<(), &'static str> {
        let header = request.header(&self.name).filter(|token| !token.is_empty());
        let header = header.ok_or("no csrf token in headers")?;
        let cookie = request.cookie(&self.name).ok_or("no csrf cookie")?;
        if header != cookie {
            return Err("csrf token mismatch");
        }
        self.check_token(cookie, unix_seconds() as i64).map_err(|reason| {
            error_log::log(error_log::Level::Error, format_args!("csrf: {reason}"));
            "Failed to verify the csrf token signature"
        })
    }

    fn check_token(&self, token: &[u8], now_seconds: i64) -> Result<(), &'static str> {
        let json = nginx_base64::decode(token).ok_or("csrf token base64 decode error")?;
        let token: Value = serde_json::from_slice(&json).map_err(|_| "decode token error")?;
        let random = token.get("random").and_then(lua_text).ok_or("no random in token")?;
        let expires = token.get("expires").ok_or("no expires in token")?;
        let made = expires.as_f64().ok_or("no expires in token")?;
        if self.expires > 0 && now_seconds as f64 - made > self.expires as f64 {
            return Err("token has expired");
        }
        let expected = self.sign(&random, &number::lua(made));
        let sent = token.get("sign").and_then(Value::as_str).ok_or("Invalid signatures")?;
        verify_slices_are_equal(sent.as_bytes(), expected.as_bytes()).map_err(|_| "Invalid signatures")
    }

    /// APISIX's own form, so that tokens stay valid when a gateway is replaced by the other.
    fn token(&self, now_seconds: i64) -> String {
        let fraction = random_fraction();
        let (random, now) = (number::lua(fraction), number::lua(now_seconds as f64));
        let sign = self.sign(&random, &now);
        nginx_base64::encode(format!(r#"{{"random":{random},"expires":{now},"sign":"{sign}"}}"#))
    }

    fn sign(&self, random: &str, expires: &str) -> String {
        let text = format!("{{expires:{expires},random:{random},key:{}}}", self.key);
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        HEXLOWER.encode(digest.as_ref())
    }
}

/// A number or text as Lua joins it to a string.
fn lua_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => number.as_f64().map(number::lua),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csrf(key: &str) -> Csrf {
        Csrf { key: key.to_owned(), expires: 100, name: "t".to_owned() }
    }

    #[test]
    fn tokens() {
        let token = csrf("k").token(1000);
        let check = |csrf: &Csrf, token: &str, now| csrf.check_token(token.as_bytes(), now);
        assert_eq!(check(&csrf("k"), &token, 1100), Ok(()));
        assert_eq!(check(&csrf("k"), &token, 1101), Err("token has expired"));
        assert_eq!(check(&Csrf { expires: 0, ..csrf("k") }, &token, 9999), Ok(()));
        assert_eq!(check(&csrf("other"), &token, 1000), Err("Invalid signatures"));
        assert_eq!(check(&csrf("k"), "!", 1000), Err("csrf token base64 decode error"));
        assert_eq!(check(&csrf("k"), "e30=", 1000), Err("no random in token"));
    }

    #[test]
    fn a_token_of_apisix_is_valid() {
        // Made by the published algorithm: sha256("{expires:1000,random:0.5,key:k}").
        let sign = csrf("k").sign("0.5", "1000");
        let token = nginx_base64::encode(format!(r#"{{"sign":"{sign}","random":0.5,"expires":1000}}"#));
        assert_eq!(csrf("k").check_token(token.as_bytes(), 1000), Ok(()));
    }
}
