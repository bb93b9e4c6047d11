//! Authenticates users of `Authorization: Basic` by binding to an LDAP server (RFC 4513); the DN names the consumer.

mod bind;

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{Endpoint, TlsWanted};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Verdict, Why,
    definition::ConsumerKey,
};
use tidegate_protocol::HeaderId;
use tidegate_telemetry::error_log;

use crate::common::{
    auth,
    basic_credentials::{self, Credentials},
    conf::typed,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "ldap-auth",
    version: 0.1,
    priority: 2540,
    kind: Some("auth"),
    schema: include_str!("ldap_auth.json"),
    consumer_schema: Some(include_str!("ldap_auth.consumer.json")),
    phases: Phases::REWRITE,
    headers: &[("realm", Text::Value)],
    remarks,
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

/// For connecting and binding together.
const TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Conf {
    base_dn: String,
    ldap_uri: String,
    use_tls: bool,
    tls_verify: bool,
    uid: String,
    hide_credentials: bool,
    realm: String,
}

struct LdapAuth {
    endpoint: Result<Endpoint, String>,
    tls: TlsWanted,
    base_dn: String,
    uid: String,
    hide_credentials: bool,
    realm: String,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(LdapAuth {
        endpoint: endpoint(&conf.ldap_uri, conf.use_tls),
        tls: TlsWanted { verify: conf.tls_verify, client: None },
        base_dn: conf.base_dn,
        uid: conf.uid,
        hide_credentials: conf.hide_credentials,
        realm: conf.realm,
    }))
}

/// Verification that has no effect without TLS, and empty settings with which no user can log in.
fn remarks(conf: &Value) -> Vec<String> {
    let is_set = |name: &str| conf.get(name) == Some(&Value::Bool(true));
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let is_tls = is_set("use_tls") || text("ldap_uri").is_some_and(|uri| uri.starts_with("ldaps://"));
    let mut found = Vec::new();
    if is_set("tls_verify") && !is_tls {
        found.push("tls_verify has no effect without use_tls".to_owned());
    }
    for name in ["base_dn", "ldap_uri"] {
        if text(name).is_some_and(str::is_empty) {
            found.push(format!("{name} is empty, so every request is refused"));
        }
    }
    found
}

/// `host[:port]`, with or without a scheme in front.
fn endpoint(uri: &str, use_tls: bool) -> Result<Endpoint, String> {
    match uri.split_once("://") {
        Some(("ldaps", address)) => address_of(address, true, 636),
        Some((_, address)) => address_of(address, use_tls, 389),
        None => address_of(uri, use_tls, 389),
    }
}

/// `host[:port]`
pub(super) fn address_of(address: &str, tls: bool, port: u16) -> Result<Endpoint, String> {
    let mut endpoint = Endpoint::parse(&format!("http://{address}"))?;
    endpoint.tls = tls;
    if !has_port(address) {
        endpoint.port = port;
    }
    Ok(endpoint)
}

fn has_port(address: &str) -> bool {
    let authority = address.split('/').next().unwrap_or_default();
    authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok())
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    let dn = conf.get("user_dn").and_then(Value::as_str).ok_or("property \"user_dn\" is required")?;
    Ok(ConsumerKey { key: dn.to_owned(), data: Box::new(()) })
}

impl Plugin for LdapAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.authenticate(request))
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.credentials(request) {
            Err(reply) => Foresight::answers(&reply),
            Ok(_) => Foresight::maybe(401, Why::Asks),
        }
    }
}

impl LdapAuth {
    /// What the client sent; `Err`: nothing that the directory can be asked about.
    fn credentials(&self, request: &Request) -> Result<Credentials, Box<Reply>> {
        let reject = |message: &str| auth::rejection("Basic", &self.realm, message);
        let header = match auth::credentials(request, "Authorization") {
            Ok(Some(header)) => header,
            Ok(None) => return Err(reject("Missing authorization in request")),
            Err(reason) => return Err(reject(&reason)),
        };
        match basic_credentials::extract(header) {
            Ok(credentials) => Ok(credentials),
            Err(reason) => {
                error_log::log(error_log::Level::Warn, format_args!("{reason}"));
                Err(reject("Invalid authorization in request"))
            }
        }
    }

    async fn authenticate(&self, request: &mut Request) -> Verdict {
        let reject = |message: &str| auth::rejected("Basic", &self.realm, message);
        let credentials = self.credentials(request)?;
        let password = credentials.password_without_space();
        let dn = format!("{}={},{}", self.uid, bind::escape(&credentials.username), self.base_dn);
        if let Err(reason) = self.bind(&dn, &password).await {
            error_log::log(error_log::Level::Warn, format_args!("ldap-auth failed: {reason}"));
            return reject("Invalid user authorization");
        }
        let snapshot = request.snapshot.clone();
        let Some(index) = snapshot.consumers.index("ldap-auth") else {
            return reject("Missing related consumer");
        };
        let Some(entry) = index.find(&dn) else { return reject("Invalid user authorization") };
        request.attach(entry);
        if self.hide_credentials {
            request.head.headers.remove_known(HeaderId::Authorization);
        }
        Ok(())
    }

    async fn bind(&self, dn: &str, password: &str) -> Result<(), String> {
        // RFC 4513, 5.1.2: a bind with a name and no password succeeds without proving anything.
        if password.is_empty() {
            return Err("empty password".to_owned());
        }
        let endpoint = self.endpoint.as_ref().map_err(String::clone)?;
        let bind = bind::bind(endpoint, &self.tls, dn, password);
        tokio::time::timeout(TIME_LIMIT, bind).await.map_err(|_| "timeout".to_owned())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let cases = [
            ("localhost", false, "localhost", 389),
            ("127.0.0.1:1389", false, "127.0.0.1", 1389),
            ("ldap://a:1", false, "a", 1),
            ("ldaps://a:1636", true, "a", 1636),
            ("ldaps://a", true, "a", 636),
        ];
        for (uri, tls, host, port) in cases {
            let endpoint = endpoint(uri, false).expect("address");
            assert_eq!((endpoint.tls, endpoint.host.as_str(), endpoint.port), (tls, host, port), "{uri}");
        }
    }
}
