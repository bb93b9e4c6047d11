//! Signing in to the gateway itself, by the code flow of routes and by stricter rules: PKCE and a nonce always, an issuer that is
//! known beforehand, no endpoint that others on the way could read, and signatures that only the provider can make.

use serde_json::{Map, Value, json};
use tidegate_clients::{
    http::Endpoint,
    jws::{Algorithm, Token},
};
use tidegate_model::schema::Schema;

use super::{making::relying_party, relying_party::OpenidConnect, session::Login};

/// A key that the provider has withdrawn counts no longer than that.
const KEYS_LIFETIME_S: u64 = 300;

const TIMEOUT_S: u64 = 5;

/// What a discovery document may name, and where secrets or keys travel.
const ENDPOINTS: [&str; 5] =
    ["authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint", "end_session_endpoint"];

/// What it must name.
const NEEDED: [&str; 3] = ["authorization_endpoint", "token_endpoint", "jwks_uri"];

/// How the client shows its secret where the provider does not say.
const BASIC: &str = "client_secret_basic";

/// The provider, and how it knows the gateway.
#[derive(Clone, Debug)]
pub struct SignInSettings {
    /// URL of the discovery document.
    pub discovery: String,
    /// What it and the ID tokens must name.
    pub issuer: String,
    /// As it knows the gateway.
    pub client_id: String,
    /// What is requested.
    pub scopes: Vec<String>,
    /// In seconds.
    pub clock_skew: u32,
}

/// What the provider's answer will be held against.
#[derive(Clone, Debug)]
pub struct Begun {
    /// For the answer to repeat.
    pub state: String,
    /// Where the provider sends the browser back to.
    pub redirect_uri: String,
    /// For the ID token to repeat.
    pub nonce: Option<String>,
    /// For the provider to compare with what it was sent at first.
    pub verifier: Option<String>,
}

/// Signs people in with a provider.
pub struct SignIn {
    settings: SignInSettings,
    schema: Schema,
}

impl SignIn {
    /// The error says what is wrong with the settings.
    pub fn new(settings: SignInSettings) -> Result<SignIn, String> {
        let schema: Value = serde_json::from_str(include_str!("../openid_connect.json"))
            .map_err(|error| format!("schema of openid-connect: {error}"))?;
        let found = SignIn { settings, schema: Schema::compile(&schema)? };
        found.party(None, BASIC)?;
        Ok(found)
    }

    fn party(&self, secret: Option<&str>, method: &str) -> Result<OpenidConnect, String> {
        let settings = &self.settings;
        let mut conf = json!({
            "discovery": settings.discovery,
            "client_id": settings.client_id,
            "scope": settings.scopes.join(" "),
            "token_endpoint_auth_method": method,
            "use_pkce": true,
            "use_nonce": true,
            "ssl_verify": true,
            "timeout": TIMEOUT_S,
            "iat_slack": settings.clock_skew,
            "jwk_expires_in": KEYS_LIFETIME_S,
            "accept_none_alg": false,
            "accept_unsupported_alg": false,
        });
        if let Some(secret) = secret {
            conf["client_secret"] = json!(secret);
        }
        self.schema.check(&mut conf)?;
        relying_party(&conf)
    }

    /// The discovery document, if it is good. Another is not kept: the provider may be about to correct it.
    async fn document(&self, party: &OpenidConnect) -> Result<std::sync::Arc<Value>, String> {
        let document = party.provider.discovery().await?;
        self.check(&document).inspect_err(|_| party.provider.forget(&document))?;
        Ok(document)
    }

    /// It is the provider's own and complete, and leads nowhere in plain.
    fn check(&self, document: &Value) -> Result<(), String> {
        let issuer = document.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if issuer != self.settings.issuer {
            return Err(format!(
                "the discovery document is of issuer {issuer}, not of {}",
                self.settings.issuer
            ));
        }
        for name in ENDPOINTS {
            match document.get(name).and_then(Value::as_str) {
                Some(url) if !is_private(url) => {
                    return Err(format!("{name} of the discovery document, {url}, is not https"));
                }
                None if NEEDED.contains(&name) => return Err(format!("discovery document has no {name}")),
                _ => {}
            }
        }
        Ok(())
    }

    /// Where to send the browser, and what its answer must fit.
    pub async fn begin(&self, redirect_uri: String) -> Result<(String, Begun), String> {
        let party = self.party(None, BASIC)?;
        self.document(&party).await?;
        let login = party.new_login(String::new());
        let location = party.location_of(&login, &redirect_uri, None).await?;
        let Login { state, nonce, verifier, .. } = login;
        Ok((location, Begun { state, redirect_uri, nonce, verifier }))
    }

    /// The claims of the person whose browser came back with `code`: of the ID token, and of the userinfo where that has none.
    /// `issuer`: the argument `iss` of the answer. Whether its state fits `begun` is the caller's to compare.
    pub async fn finish(
        &self,
        begun: Begun,
        code: &str,
        issuer: Option<&str>,
        secret: Option<&str>,
    ) -> Result<Map<String, Value>, String> {
        let document = self.document(&self.party(None, BASIC)?).await?;
        let party = self.party(secret, method_of(&document))?;
        let Begun { state, redirect_uri, nonce, verifier } = begun;
        let login = Login { state, nonce, verifier, original_url: String::new(), begun_ms: 0 };
        let identity = party.exchange(issuer, code, &login, &redirect_uri).await.map_err(with_own_keys)?;
        let raw = identity.raw_id_token.as_deref().ok_or("the token answer has no id_token")?;
        signed_by_provider(raw)?;
        let mut claims = object(identity.id_token);
        if let Some(azp) = claims.get("azp").filter(|azp| azp.as_str() != Some(&self.settings.client_id)) {
            return Err(format!("audience of the ID token is not this client alone: azp is {azp}"));
        }
        complete(&mut claims, object(identity.user));
        Ok(claims)
    }

    /// Where the provider ends its own session of the person; `None`: it does not offer that.
    pub async fn sign_out(&self) -> Result<Option<String>, String> {
        let document = self.document(&self.party(None, BASIC)?).await?;
        let url = document.get("end_session_endpoint").and_then(Value::as_str);
        let id = self.settings.client_id.as_str();
        Ok(url.map(|url| crate::common::service::with_arguments(url, [("client_id", id)])))
    }
}

/// Adds what the ID token does not say. Whether an address is verified counts only with the address that it is said of.
fn complete(claims: &mut Map<String, Value>, userinfo: Map<String, Value>) {
    const ADDRESS: &str = "email";
    const VERIFIED: &str = "email_verified";
    let is_other = claims.get(ADDRESS).is_some_and(|address| userinfo.get(ADDRESS) != Some(address));
    if !claims.contains_key(ADDRESS) {
        claims.remove(VERIFIED);
    }
    for (name, value) in userinfo {
        if !(is_other && name == VERIFIED) {
            claims.entry(name).or_insert(value);
        }
    }
}

fn method_of(document: &Value) -> &'static str {
    const POST: &str = "client_secret_post";
    let offered = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
    let offers = |method| offered.is_some_and(|offered| offered.iter().any(|one| one == method));
    if offers(POST) && !offers(BASIC) { POST } else { BASIC }
}

/// Anyone who knows the client's secret can sign with it, a public key is known to all, and what is not signed anyone can write.
fn signed_by_provider(token: &str) -> Result<(), String> {
    let token = Token::parse(token.as_bytes())?;
    let name = token.algorithm().unwrap_or_default();
    match Algorithm::of(name) {
        Some(algorithm) if !algorithm.is_hmac() => Ok(()),
        _ => Err(format!(
            "the ID token is signed with {name}; the console needs a signature by a key of the provider"
        )),
    }
}

/// Routes have keys that `deployment.admin.oidc` does not have, or has under another name.
fn with_own_keys(reason: String) -> String {
    match reason.strip_suffix(": see accept_none_alg") {
        Some(reason) => format!("{reason}; the console needs a signature by a key of the provider"),
        None => reason.replace(": see iat_slack", ": see deployment.admin.oidc.clock_skew"),
    }
}

fn object(value: Option<Value>) -> Map<String, Value> {
    match value {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Whether no one on the way reads or changes what is sent there.
fn is_private(url: &str) -> bool {
    let Ok(endpoint) = Endpoint::parse(url) else { return false };
    endpoint.tls || endpoint.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_whether_it_is_verified_are_of_one_document() {
        for (token, userinfo, expected) in [
            (
                json!({"email": "a"}),
                json!({"email": "a", "email_verified": false}),
                json!({"email": "a", "email_verified": false}),
            ),
            (json!({"email": "a"}), json!({"email": "b", "email_verified": true}), json!({"email": "a"})),
            (json!({"email": "a"}), json!({"email_verified": true}), json!({"email": "a"})),
            (json!({"email_verified": true}), json!({"email": "b"}), json!({"email": "b"})),
            (
                json!({"email_verified": true}),
                json!({"email": "b", "email_verified": false}),
                json!({"email": "b", "email_verified": false}),
            ),
            (
                json!({"email": "a", "email_verified": true}),
                json!({"email": "a", "email_verified": false, "x": 1}),
                json!({"email": "a", "email_verified": true, "x": 1}),
            ),
        ] {
            let mut claims = object(Some(token));
            complete(&mut claims, object(Some(userinfo)));
            assert_eq!(Value::Object(claims), expected);
        }
    }

    #[test]
    fn only_signatures_of_the_provider_count() {
        for (header, expected) in [
            (r#"{"alg":"RS256"}"#, true),
            (r#"{"alg":"ES256"}"#, true),
            (r#"{"alg":"EdDSA"}"#, true),
            (r#"{"alg":"HS256"}"#, false),
            (r#"{"alg":"none"}"#, false),
            (r#"{"alg":"ES256K"}"#, false),
            ("{}", false),
        ] {
            let encoded = tidegate_clients::nginx_base64::encode_url(header);
            assert_eq!(signed_by_provider(&format!("{encoded}.e30.x")).is_ok(), expected, "{header}");
        }
    }

    #[test]
    fn endpoints_are_private() {
        for (url, expected) in [
            ("https://idp.example.com/token", true),
            ("http://127.0.0.1:8080/token", true),
            ("http://[::1]:8080/token", true),
            ("http://localhost:8080/token", true),
            ("http://idp.example.com/token", false),
            ("http://127.0.0.1.example.com/token", false),
            ("token", false),
        ] {
            assert_eq!(is_private(url), expected, "{url}");
        }
    }
}
