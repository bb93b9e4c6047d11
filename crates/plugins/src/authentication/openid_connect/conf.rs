//! The configuration as written, and the rules that its schema cannot say.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_clients::{
    http::{Endpoint, Proxies, Proxy},
    jws::{Algorithm, check_public_key},
    jws_sign::SigningKey,
};
use tidegate_model::SchemaKind;

use super::client::assertion_algorithm;
use crate::common::schemas;

#[derive(Deserialize)]
pub(super) struct Conf {
    pub client_id: String,
    pub client_secret: Option<String>,
    pub discovery: String,
    pub scope: String,
    pub ssl_verify: bool,
    pub timeout: u64,
    pub introspection_endpoint: Option<String>,
    pub(crate) introspection_endpoint_auth_method: String,
    pub token_endpoint_auth_method: String,
    pub bearer_only: bool,
    pub session: Option<SessionConf>,
    pub realm: String,
    #[serde(default)]
    pub claim_validator: ClaimValidator,
    pub(crate) logout_path: String,
    pub redirect_uri: Option<String>,
    pub(crate) post_logout_redirect_uri: Option<String>,
    pub(crate) unauth_action: String,
    pub public_key: Option<String>,
    pub use_jwks: bool,
    pub token_signing_alg_values_expected: Option<String>,
    pub(crate) use_pkce: bool,
    pub(crate) par: Option<Par>,
    pub(crate) set_access_token_header: bool,
    pub(crate) access_token_in_authorization_header: bool,
    pub(crate) set_id_token_header: bool,
    pub(crate) set_raw_id_token_header: bool,
    pub(crate) set_userinfo_header: bool,
    pub(crate) set_refresh_token_header: bool,
    #[serde(default)]
    pub authorization_params: Map<String, Value>,
    pub client_rsa_private_key: Option<String>,
    pub(crate) client_rsa_private_key_id: Option<String>,
    pub(crate) client_jwt_assertion_expires_in: i64,
    pub(crate) client_jwt_assertion_alg: Option<String>,
    pub(crate) client_jwt_assertion_audience: Option<String>,
    pub(crate) renew_access_token_on_expiry: bool,
    pub(crate) access_token_expires_in: Option<i64>,
    pub(crate) refresh_session_interval: Option<i64>,
    pub(crate) iat_slack: i64,
    pub accept_none_alg: bool,
    pub accept_unsupported_alg: bool,
    pub(crate) access_token_expires_leeway: i64,
    pub(crate) force_reauthorize: bool,
    pub(crate) use_nonce: bool,
    pub(crate) revoke_tokens_on_logout: bool,
    pub jwk_expires_in: i64,
    pub(crate) jwt_verification_cache_ignore: bool,
    pub(crate) introspection_interval: i64,
    pub(crate) introspection_expiry_claim: Option<String>,
    #[serde(default)]
    pub(crate) introspection_addon_headers: Vec<String>,
    pub required_scopes: Option<Vec<String>>,
    pub claim_schema: Option<Value>,
    pub(super) dpop: Option<super::dpop::DpopConf>,
    pub(super) proxy_opts: Option<ProxyOpts>,
}

#[derive(Deserialize)]
pub(super) struct ProxyOpts {
    http_proxy: Option<String>,
    http_proxy_authorization: Option<String>,
    https_proxy: Option<String>,
    https_proxy_authorization: Option<String>,
    #[serde(default)]
    no_proxy: String,
}

impl ProxyOpts {
    pub(super) fn proxies(&self) -> Result<Proxies, String> {
        let proxy = |scheme: &str, url: &Option<String>, authorization: &Option<String>| {
            let url = url.as_ref().map(|url| proxy_at(scheme, url)).transpose()?;
            let authorization = authorization.clone();
            Ok::<_, String>(url.map(|endpoint| Proxy { endpoint, authorization }))
        };
        Ok(Proxies {
            http: proxy("http", &self.http_proxy, &self.http_proxy_authorization)?,
            https: proxy("https", &self.https_proxy, &self.https_proxy_authorization)?,
            no_proxy: self.no_proxy.clone(),
        })
    }
}

fn proxy_at(scheme: &str, url: &str) -> Result<Endpoint, String> {
    let refused = |reason: &str| format!("property \"proxy_opts.{scheme}_proxy\": {reason}");
    let endpoint = Endpoint::parse(url).map_err(|reason| refused(&reason))?;
    match endpoint.tls {
        false => Ok(endpoint),
        true => Err(refused("protocol https not supported for proxy connections")),
    }
}

#[derive(Deserialize)]
pub(crate) struct SessionConf {
    pub secret: String,
    pub(crate) cookie_name: Option<String>,
    pub(crate) cookie_path: Option<String>,
    pub(crate) cookie_domain: Option<String>,
    pub(crate) cookie_secure: Option<bool>,
    pub(crate) cookie_http_only: Option<bool>,
    pub(crate) cookie_same_site: Option<String>,
    pub(crate) idling_timeout: Option<i64>,
    pub(crate) rolling_timeout: Option<i64>,
    pub(crate) absolute_timeout: Option<i64>,
    /// The form of lua-resty-session 3: `lifetime` means `absolute_timeout`.
    pub cookie: Option<OldCookie>,
    pub storage: String,
    pub redis: Option<Value>,
}

#[derive(Deserialize)]
pub(crate) struct OldCookie {
    pub lifetime: Option<i64>,
}

#[derive(Default, Deserialize)]
pub(crate) struct ClaimValidator {
    #[serde(default)]
    pub issuer: Issuer,
    #[serde(default)]
    pub audience: Audience,
}

#[derive(Default, Deserialize)]
pub(super) struct Issuer {
    pub valid_issuers: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
pub(crate) struct Audience {
    pub claim: Option<String>,
    #[serde(default)]
    pub required: bool,
    #[serde(default)]
    pub match_with_client_id: bool,
}

#[derive(Deserialize)]
pub(crate) struct Par {
    pub enabled: bool,
    pub endpoint: Option<String>,
    pub(crate) endpoint_auth_method: Option<String>,
}

/// Names of the library behind APISIX, and what a configuration must use instead of them.
const RESERVED: [(&str, &str); 7] = [
    ("use_par", "par.enabled"),
    ("pushed_authorization_request_endpoint", "par.endpoint"),
    ("pushed_authorization_request_endpoint_auth_method", "par.endpoint_auth_method"),
    ("use_dpop", "dpop.enabled"),
    ("dpop_signing_alg", "dpop.signing_alg"),
    ("dpop_private_key", "dpop.private_key"),
    ("dpop_public_jwk", "dpop.public_jwk"),
];

pub(super) fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let flag = |name: &str| conf.get(name).and_then(Value::as_bool).unwrap_or_default();
    let bearer_only = flag("bearer_only");
    if !bearer_only && conf.get("session").is_none() {
        return Err("property \"session.secret\" is required when \"bearer_only\" is false".to_owned());
    }
    let secret_optional = if bearer_only {
        text("public_key").is_some()
            || flag("use_jwks")
            || text("introspection_endpoint_auth_method") == Some("private_key_jwt")
    } else {
        text("token_endpoint_auth_method") == Some("private_key_jwt") || flag("use_pkce")
    };
    if !secret_optional && text("client_secret").is_none() {
        return Err("property \"client_secret\" is required".to_owned());
    }
    if let Some(schema) = conf.get("claim_schema") {
        schemas::compile("claim_schema", schema)
            .map_err(|reason| format!("check claim_schema failed: {reason}"))?;
    }
    if let Some((name, owner)) = RESERVED.iter().find(|(name, _)| conf.get(name).is_some()) {
        return Err(format!("property \"{name}\" is not allowed, use \"{owner}\" instead"));
    }
    if let Some(key) = text("public_key").filter(|key| !tidegate_model::schema::is_secret_reference(key)) {
        let expected = text("token_signing_alg_values_expected").and_then(Algorithm::of);
        check_public_key(expected, key)?;
    }
    check_urls(conf)?;
    check_proxies(conf)?;
    conf.get("dpop").map_or(Ok(()), super::dpop::check)?;
    check_assertion(conf)?;
    check_par(conf)
}

/// Where no URL stands that is needed, every request fails.
fn check_urls(conf: &Value) -> Result<(), String> {
    let has = |name: &str| conf.get(name).is_some();
    let asks_nobody = conf.get("bearer_only") == Some(&Value::Bool(true))
        && (has("public_key") || has("introspection_endpoint"));
    for name in ["discovery", "introspection_endpoint", "par/endpoint"] {
        let url = conf.pointer(&format!("/{name}")).and_then(Value::as_str);
        let is_needed = |url: &&str| {
            !(tidegate_model::schema::is_secret_reference(url) || asks_nobody && name == "discovery")
        };
        if let Some(url) = url.filter(is_needed) {
            Endpoint::parse(url).map_err(|reason| format!("{}: {reason}", name.replace('/', ".")))?;
        }
    }
    Ok(())
}

fn check_proxies(conf: &Value) -> Result<(), String> {
    for scheme in ["http", "https"] {
        let text = |name: &str| conf.pointer(&format!("/proxy_opts/{scheme}_{name}")).and_then(Value::as_str);
        if let Some(url) = text("proxy").filter(|url| !tidegate_model::schema::is_secret_reference(url)) {
            proxy_at(scheme, url)?;
        }
        if text("proxy_authorization").is_some_and(|value| value.contains(char::is_control)) {
            return Err(format!(
                "property \"proxy_opts.{scheme}_proxy_authorization\" is not a value of a header"
            ));
        }
    }
    Ok(())
}

/// The settings that name a way of authentication and are really used.
fn methods_in_use(conf: &Value) -> Vec<(&'static str, String)> {
    let text = |path: &str| conf.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let flag = |path: &str| conf.pointer(path).and_then(Value::as_bool).unwrap_or_default();
    let mut used = Vec::new();
    let local = text("/public_key").is_some() || flag("/use_jwks");
    if !local && (flag("/bearer_only") || text("/introspection_endpoint").is_some()) {
        used.extend(
            text("/introspection_endpoint_auth_method")
                .map(|method| ("introspection_endpoint_auth_method", method)),
        );
    }
    if !flag("/bearer_only") {
        let usable = |method: &String| match method.as_str() {
            "private_key_jwt" => text("/client_rsa_private_key").is_some(),
            "client_secret_jwt" => text("/client_secret").is_some(),
            _ => true,
        };
        used.extend(
            text("/token_endpoint_auth_method")
                .filter(usable)
                .map(|method| ("token_endpoint_auth_method", method)),
        );
        if flag("/par/enabled") {
            used.extend(text("/par/endpoint_auth_method").map(|method| ("par.endpoint_auth_method", method)));
        }
    }
    used
}

/// One algorithm signs the client's assertions everywhere, so all the ways in use must agree with it.
fn check_assertion(conf: &Value) -> Result<(), String> {
    const NAME: &str = "property \"client_jwt_assertion_alg\"";
    let used = methods_in_use(conf);
    let by = |wanted: &str| used.iter().find(|(_, method)| method == wanted).map(|(name, _)| *name);
    let (asymmetric, symmetric) = (by("private_key_jwt"), by("client_secret_jwt"));
    let Some(algorithm) = conf.get("client_jwt_assertion_alg").and_then(Value::as_str) else {
        return check_signing(conf, assertion_algorithm(None, asymmetric.is_none()));
    };
    if let (Some(asymmetric), Some(symmetric)) = (asymmetric, symmetric) {
        return Err(format!(
            "{NAME} is a single algorithm, but \"{asymmetric}\" selects private_key_jwt and \"{symmetric}\" \
             selects client_secret_jwt"
        ));
    }
    let hmac = algorithm.starts_with("HS");
    match (asymmetric, symmetric) {
        (Some(by), _) if hmac => {
            return Err(format!(
                "{NAME} \"{algorithm}\" is symmetric and cannot be used with the private_key_jwt selected by \"{by}\""
            ));
        }
        (_, Some(by)) if !hmac => {
            return Err(format!(
                "{NAME} \"{algorithm}\" is asymmetric and cannot be used with the client_secret_jwt selected by \"{by}\""
            ));
        }
        _ => {}
    }
    match Algorithm::of(algorithm).filter(|_| asymmetric.is_some()) {
        Some(algorithm) => check_signing(conf, algorithm),
        None => Ok(()),
    }
}

/// A key that signs the client's assertions has to fit their algorithm.
fn check_signing(conf: &Value, algorithm: Algorithm) -> Result<(), String> {
    let key = conf.get("client_rsa_private_key").and_then(Value::as_str);
    match key.filter(|key| !algorithm.is_hmac() && !tidegate_model::schema::is_secret_reference(key)) {
        None => Ok(()),
        Some(key) => SigningKey::from_pem(algorithm, key, None).map(|_| ()).map_err(|reason| {
            format!(
                "property \"client_jwt_assertion_alg\" \"{}\" does not fit \"client_rsa_private_key\": {reason}",
                algorithm.name()
            )
        }),
    }
}

fn check_par(conf: &Value) -> Result<(), String> {
    let flag = |path: &str| conf.pointer(path).and_then(Value::as_bool).unwrap_or_default();
    if flag("/bearer_only") || !flag("/par/enabled") {
        return Ok(());
    }
    let method = conf.pointer("/par/endpoint_auth_method").and_then(Value::as_str).unwrap_or_default();
    let credential = match method {
        "private_key_jwt" => "client_rsa_private_key",
        "client_secret_jwt" => "client_secret",
        _ => return Ok(()),
    };
    if conf.get(credential).is_some() {
        return Ok(());
    }
    Err(format!(
        "property \"par.endpoint_auth_method\" \"{method}\" requires \"{credential}\" when \"par.enabled\" is true"
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules() {
        let cases = [
            (json!({}), Some("property \"session.secret\" is required when \"bearer_only\" is false")),
            (json!({"bearer_only": true}), Some("property \"client_secret\" is required")),
            (json!({"bearer_only": true, "use_jwks": true}), None),
            (json!({"session": {}, "use_pkce": true}), None),
            (json!({"session": {}, "use_pkce": true, "dpop": {"enabled": false}}), None),
            (json!({"session": {}, "use_pkce": true, "proxy_opts": {}}), None),
            (
                json!({"session": {}, "use_pkce": true, "proxy_opts": {"http_proxy": "https://proxy.test"}}),
                Some(
                    "property \"proxy_opts.http_proxy\": protocol https not supported for proxy connections",
                ),
            ),
            (json!({"session": {}, "use_pkce": true, "proxy_opts": {"https_proxy": "http://$env"}}), None),
            (
                json!({"session": {}, "client_secret": "s", "use_par": true}),
                Some("property \"use_par\" is not allowed, use \"par.enabled\" instead"),
            ),
            (
                json!({"session": {}, "client_secret": "s", "client_jwt_assertion_alg": "RS256",
                       "token_endpoint_auth_method": "client_secret_jwt"}),
                Some(
                    "property \"client_jwt_assertion_alg\" \"RS256\" is asymmetric and cannot be used with the \
                     client_secret_jwt selected by \"token_endpoint_auth_method\"",
                ),
            ),
            (
                json!({"session": {}, "client_secret": "s",
                       "par": {"enabled": true, "endpoint_auth_method": "private_key_jwt"}}),
                Some(
                    "property \"par.endpoint_auth_method\" \"private_key_jwt\" requires \"client_rsa_private_key\" \
                     when \"par.enabled\" is true",
                ),
            ),
        ];
        for (conf, expected) in cases {
            assert_eq!(check(&conf, SchemaKind::Plugin).err().as_deref(), expected, "{conf}");
        }
    }
}
