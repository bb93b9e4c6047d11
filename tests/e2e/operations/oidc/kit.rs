//! An identity provider that does as a test plans, and a browser that signs in with it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use aws_lc_rs::{hmac, rand};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Message, Upstream};

use super::super::sessions::send;

pub(super) const SECRET: &str = "the secret of the client";

/// How an ID token is signed.
#[derive(Clone, Copy)]
pub(super) enum Signed {
    ByProvider,
    ByStranger,
    /// HS256 with this key, as someone would who knows it.
    With(&'static str),
    /// HS256 with the provider's public key.
    WithPublicKey,
    Not(&'static str),
}

pub(super) struct Plan {
    pub(super) signed: Signed,
    /// Replace claims of the ID token; null removes one.
    pub(super) claims: Value,
    pub(super) userinfo: Value,
    /// Replaces members of the discovery document.
    pub(super) document: Value,
    pub(super) token_status: u16,
    pub(super) nonce: String,
    /// Form and authorization of token requests.
    pub(super) asked: Vec<(String, String)>,
}

impl Plan {
    pub(super) fn honest() -> Plan {
        let (claims, userinfo) = (json!({}), json!({}));
        let (document, nonce, asked) = (json!({}), String::new(), Vec::new());
        Plan { signed: Signed::ByProvider, claims, userinfo, document, token_status: 200, nonce, asked }
    }
}

/// An identity provider that does as it is told. It gives tokens for any code, as often as it is asked.
pub(super) struct Provider {
    pub(super) server: Upstream,
    pub(super) plan: Arc<Mutex<Plan>>,
}

pub(super) fn key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&rand::SystemRandom::new()).expect("a key");
    Ed25519KeyPair::from_pkcs8(document.as_ref()).expect("a key")
}

pub(super) fn seconds() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs()
}

pub(super) fn merged(mut base: Value, changes: &Value) -> Value {
    for (name, value) in changes.as_object().into_iter().flatten() {
        match value {
            Value::Null => drop(base.as_object_mut().expect("an object").remove(name)),
            value => base[name] = value.clone(),
        }
    }
    base
}

pub(super) fn id_token(issuer: &str, plan: &Plan, own: &Ed25519KeyPair, stranger: &Ed25519KeyPair) -> String {
    let now = seconds();
    let claims = json!({"iss": issuer, "sub": "u-1", "aud": "console", "iat": now, "exp": now + 600,
        "nonce": plan.nonce, "email": "alice@example.com", "groups": ["staff", "gateway-admins"]});
    let header = match plan.signed {
        Signed::ByProvider | Signed::ByStranger => json!({"alg": "EdDSA", "kid": "1"}),
        Signed::With(_) | Signed::WithPublicKey => json!({"alg": "HS256", "kid": "1"}),
        Signed::Not(name) => json!({ "alg": name }),
    };
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&header), part(&merged(claims, &plan.claims)));
    let tag =
        |key: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec();
    let signature = match plan.signed {
        Signed::ByProvider => own.sign(text.as_bytes()).as_ref().to_vec(),
        Signed::ByStranger => stranger.sign(text.as_bytes()).as_ref().to_vec(),
        Signed::With(key) => tag(key.as_bytes()),
        Signed::WithPublicKey => tag(own.public_key().as_ref()),
        Signed::Not(_) => b"x".to_vec(),
    };
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

impl Provider {
    pub(super) fn start() -> Provider {
        let plan = Arc::new(Mutex::new(Plan::honest()));
        let (own, stranger, told) = (key(), key(), plan.clone());
        let server = Upstream::service(move |request| {
            let issuer = format!("http://{}", request.header("Host").unwrap_or_default());
            let mut plan = told.lock().expect("a plan");
            match request.target() {
                "/.well-known/openid-configuration" => {
                    let at = |path: &str| json!(format!("{issuer}{path}"));
                    let document = json!({"issuer": issuer, "token_endpoint": at("/token"), "jwks_uri": at("/keys"),
                        "authorization_endpoint": at("/authorize"), "userinfo_endpoint": at("/userinfo"),
                        "end_session_endpoint": at("/leave")});
                    (200, merged(document, &plan.document).to_string())
                }
                "/keys" => {
                    let x = URL_SAFE_NO_PAD.encode(own.public_key().as_ref());
                    let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "1", "use": "sig", "x": x});
                    (200, json!({ "keys": [key] }).to_string())
                }
                "/token" => {
                    let shown = request.header("Authorization").unwrap_or_default().to_owned();
                    plan.asked.push((request.body_text(), shown));
                    let token = id_token(&issuer, &plan, &own, &stranger);
                    let mut answer =
                        json!({"access_token": "opaque", "token_type": "Bearer", "expires_in": 600});
                    if plan.claims != json!("no token") {
                        answer["id_token"] = json!(token);
                    }
                    (plan.token_status, answer.to_string())
                }
                "/userinfo" => (200, merged(json!({"sub": "u-1"}), &plan.userinfo).to_string()),
                // A secret manager, too.
                "/v1/kv/oidc" => (200, json!({"data": {"secret": SECRET}}).to_string()),
                _ => (404, String::new()),
            }
        });
        Provider { server, plan }
    }

    pub(super) fn plan(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.lock().expect("a plan");
        *plan = Plan::honest();
        change(&mut plan);
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.server.address
    }
}

/// `more` replaces keys of `deployment.admin.oidc`.
pub(super) fn config(provider: SocketAddr, more: &Value) -> String {
    let oidc = json!({
        "discovery": format!("http://{provider}/.well-known/openid-configuration"),
        "client_id": "console", "client_secret": SECRET, "display_name": "Example",
        "redirect_uris": ["https://gateway.example.com/ui/oidc", "http://127.0.0.1:@ADMIN@/ui/oidc"],
        "roles": [
            {"value": "gateway-admins", "role": "admin"},
            {"claim": "realm_access.roles", "value": "edit", "role": "editor"},
            {"claim": "team", "value": "look", "role": "viewer"},
        ],
    });
    let keys = format!("    oidc: {}\n    admin_key:", merged(oidc, more));
    EMBEDDED.replace("    admin_key:", &keys)
}

pub(super) fn start(provider: &Provider, more: &Value) -> Gateway {
    let mut gateway = Gateway::start(&config(provider.address(), more), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

pub(super) fn json_of(message: &Message) -> Value {
    serde_json::from_slice(&message.body).unwrap_or_default()
}

/// Names and values of the cookies that an answer sets.
pub(super) fn cookies(answer: &Message) -> String {
    let head = String::from_utf8_lossy(&answer.head).into_owned();
    let lines = head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: "));
    lines.filter_map(|line| line.split(';').next()).collect::<Vec<_>>().join("; ")
}

/// A browser that was sent to the provider.
pub(super) struct Away {
    pub(super) location: String,
    pub(super) cookie: String,
}

pub(super) fn leave(gateway: &Gateway) -> Message {
    let uri = format!("http://{}/ui/oidc", gateway.admin);
    send(gateway.admin, "POST", "/sessions/oidc", "", &json!({ "redirect_uri": uri }).to_string())
}

impl Away {
    pub(super) fn of(gateway: &Gateway) -> Away {
        let answer = leave(gateway);
        assert_eq!(answer.status(), 201, "{}", answer.body_text());
        let head = String::from_utf8_lossy(&answer.head).into_owned();
        assert!(
            head.contains("HttpOnly; SameSite=Strict; Path=/apisix/admin/sessions; Max-Age=600"),
            "{head}"
        );
        let location = json_of(&answer)["location"].as_str().expect("a location").to_owned();
        Away { location, cookie: cookies(&answer) }
    }

    pub(super) fn argument(&self, name: &str) -> &str {
        let (_, rest) = self.location.split_once(&format!("{name}=")).expect("the argument");
        rest.split('&').next().unwrap_or_default()
    }

    pub(super) fn answer(&self) -> Value {
        json!({"code": "any", "state": self.argument("state")})
    }
}

pub(super) fn come_back(gateway: &Gateway, answer: &Value, cookie: &str, fields: &str) -> Message {
    let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
    send(
        gateway.admin,
        "POST",
        "/sessions",
        &format!("{cookie}{fields}"),
        &json!({ "oidc": answer }).to_string(),
    )
}

/// A whole sign-in, with the nonce that was asked for unless `change` says otherwise.
pub(super) fn sign_in(gateway: &Gateway, provider: &Provider, change: impl FnOnce(&mut Plan)) -> Message {
    let away = Away::of(gateway);
    provider.plan(|plan| {
        plan.nonce = away.argument("nonce").to_owned();
        change(plan);
    });
    come_back(gateway, &away.answer(), &away.cookie, "")
}

#[track_caller]
pub(super) fn refused(answer: &Message, status: u16, reason: &str) {
    let text = answer.body_text();
    assert!(
        answer.status() == status && text.contains(reason),
        "{} instead of {status} {reason}: {text}",
        answer.status()
    );
    assert!(!cookies(answer).contains("tidegate_session"), "{}", cookies(answer));
}

/// A session, as the page has it: its fields for a request.
pub(super) fn session(answer: &Message) -> String {
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
    let token = json_of(answer)["csrf"].as_str().expect("a token").to_owned();
    format!("Cookie: {}\r\nX-CSRF-Token: {token}\r\n", cookies(answer))
}
